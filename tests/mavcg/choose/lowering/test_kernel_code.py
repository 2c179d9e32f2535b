"""Kernels compiled once a core: names, versions, machine passes, what is said of them."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from llvmlite import ir
from rich.console import Console

from mavcg.assembly.tuning_options import FAST, Tuning
from mavcg.choose.lowering import kernel_code
from mavcg.choose.lowering.kernel_code import KernelCode, kernel_module, kernel_tasks, tiles_of, version_symbol
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.files.worker_processes import run_tasks
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.core import Core
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.registry import emit
from mavcg.model.dump import dump
from mavcg.model.note import macro_json, model_note
from mavcg.model.report import show_note
from mavcg.objects.elf import function_symbols
from mavcg.profiles.load import cores_for, load_core
from mavcg.runtime.machines import machines_for, packing_for
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.tile_plan import MacroTile, Order, TilePlan
from mavcg.toolchain.target import parse_target

ARM = parse_target("aarch64-linux-gnu.2.17")
CORES = cores_for(["cortex-a55", "exynos-m4"])


def some_specs(more: int = 0) -> tuple[KernelSpec, ...]:
    """Of a convolution 1x1, and of `more` other operators that are soon compiled."""
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 5, 7, 8)))
    outputs = [b.add("conv2d", [x, b.constant(np.ones((8, 1, 1, 8), np.float32))])]
    for number in range(more):
        outputs.append(b.add("relu", [b.input(f"x{number}", TensorType("f32", (number + 1, 3)))]))
    return lower_graph(b.finish(outputs), packing_for(ARM)).specs


def test_a_module_has_each_kernel_under_its_version_s_name() -> None:
    specs = some_specs(2)
    text = kernel_module(specs, machines_for(CORES, ARM)["cortex-a55"], "cortex-a55", ARM)

    for spec in specs:
        assert f'define void @"{version_symbol(kernel_name(spec), "cortex-a55")}"' in text
    assert ARM.llvm_triple in text


def test_tiles_are_those_that_the_machine_s_registers_hold() -> None:
    (spec,) = some_specs()
    machine = machines_for((), ARM)["generic"]
    tiles = tiles_of(kernel_module([spec], machine, "generic", ARM))
    pixels, vectors = (int(n) for n in tiles[kernel_name(spec)][0].split("x"))

    assert list(tiles) == [kernel_name(spec)]
    assert 1 < pixels <= 7 and vectors == 2  # 8 channels are two vectors of 4
    assert pixels * vectors < machine.vector_registers
    assert tiles_of("define void @f() { ret void }") == {}


def compiled(
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    cores: Sequence[Core],
    folder: Path,
    workers: int,
    progress: Callable[[str], None],
    tuning: Tuning = FAST,
    plan: TilePlan = kernel_code.UNPLANNED,
) -> KernelCode:
    """Every spec for every machine, as a build has them compiled."""
    tasks = kernel_tasks(specs, machines, cores, ARM, folder, tuning, plan)
    return kernel_code.kernel_code(run_tasks(tasks, workers, progress), machines, plan)


def test_a_version_is_made_by_its_own_macro_tile(tmp_path: Path) -> None:
    (spec,) = some_specs()
    plan = TilePlan({(kernel_name(spec), "cortex-a55"): MacroTile(prefetch_distance_bytes=4096)})
    machines = machines_for(CORES, ARM)
    texts = {label: kernel_module([spec], machines[label], label, ARM, plan) for label in machines}
    made = compiled([spec], machines, (), tmp_path, 2, lambda what: None, plan=plan)

    plain = {label: kernel_module([spec], machines[label], label, ARM) for label in machines}
    assert [label for label, text in texts.items() if text != plain[label]] == ["cortex-a55"]
    assert "llvm.prefetch" in texts["cortex-a55"] and "llvm.prefetch" not in plain["cortex-a55"]
    assert made.plan == plan


def test_the_note_and_its_table_say_what_was_planned() -> None:
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 5, 7, 8)))
    graph = b.finish([b.add("conv2d", [x, b.constant(np.ones((8, 1, 1, 8), np.float32))])])
    lowered = lower_graph(graph, packing_for(ARM))
    name = kernel_name(lowered.specs[0])
    macro = MacroTile(3, 16, 24, Order.CHANNELS, 8, 512, 5)
    plan = TilePlan({(name, "generic"): macro})
    code = KernelCode((), {"generic": {name: ("4x2",)}, "cortex-a55": {}}, plan, cores=(load_core("cortex-a55"),))
    vars(code)["needs"] = dict.fromkeys((f"{name}.generic", f"{name}.cortex-a55"), frozenset())  # nothing is compiled
    note = model_note(replace(plan_lowered(lowered), selection={"strategy": "engine"}), code)
    shown = io.StringIO()
    show_note({**note, "code_bytes": 1}, Console(file=shown, width=200))

    assert note["kernels"][name]["versions"]["generic"]["macro"] == macro_json(macro)["macro"]
    assert "macro" not in note["kernels"][name]["versions"]["cortex-a55"]
    rows = [line.split() for line in shown.getvalue().splitlines() if name in line and "channels-outer" in line]
    assert rows == [[name, "generic", "channels-outer", "3", "16", "24", "512", "5", "1", "0", "4x2"]]


def test_a_dump_prints_the_plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    plan = TilePlan({("conv", "generic"): MacroTile(call_rows=7)})
    monkeypatch.setenv("MAVCG_DUMP", "optimise,plan_tiles")
    dump("plan_tiles", plan)
    dump("other", plan)
    said = capsys.readouterr()

    assert said.err == f"// plan_tiles\n{plan}\n" and said.out == ""


@pytest.mark.long
@pytest.mark.parametrize("tuning", [FAST, Tuning(on=False)])
def test_every_kernel_has_every_version(tmp_path: Path, tuning: Tuning) -> None:
    specs = some_specs(9)  # more than one module's
    said: list[str] = []
    machines = machines_for(CORES, ARM)
    made = compiled(specs, machines, CORES, tmp_path, 2, said.append, tuning)

    wanted = {version_symbol(kernel_name(spec), label) for spec in specs for label in machines}
    symbols = [name for path in made.objects for name, size in function_symbols(path) if size]
    assert sorted(symbols) == sorted(wanted)
    assert made.code_bytes().keys() == wanted and min(made.code_bytes().values()) > 0
    assert list(made.tiles) == list(machines)
    assert any("rescheduling" in message for message in said) == tuning.on  # for the Cortex-A55


def test_the_same_kernels_give_the_same_objects(tmp_path: Path) -> None:
    specs, machines = some_specs(2), machines_for(CORES, ARM)
    objects: list[dict[str, bytes]] = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        made = compiled(specs, machines, CORES, folder, 1 + len(objects), lambda what: None)
        objects.append({path.name: path.read_bytes() for path in made.objects})

    assert objects[0] == objects[1]


def test_each_kernel_is_emitted_once_for_each_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs, machines = some_specs(9), machines_for(CORES, ARM)
    emitted: list[tuple[KernelSpec, str]] = []

    def count_emission(module: ir.Module, spec: KernelSpec, machine: Machine, macro: MacroTile | None) -> ir.Function:
        emitted.append((spec, machine.name))
        return emit(module, spec, machine, macro)

    monkeypatch.setattr(kernel_code, "emit", count_emission)
    compiled(specs, machines, CORES, tmp_path, 1, lambda what: None)

    wanted = [(spec, machine.name) for machine in machines.values() for spec in specs]
    assert len(emitted) == len(set(emitted)) and set(emitted) == set(wanted)


def test_no_kernels_are_no_objects(tmp_path: Path) -> None:
    made = compiled((), machines_for(CORES, ARM), CORES, tmp_path, 2, lambda what: None)

    assert made.objects == () and made.code_bytes() == {}
