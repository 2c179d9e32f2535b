"""A job's operations are counted from its instructions' fields before they are executed, and limited at each door."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mavcg.accelerators.host.library import MOST_OPERATIONS, host_library
from mavcg.accelerators.host.runtime import DeviceProgram
from mavcg.accelerators.image.elf_file import read_elf, write_elf
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.isa.footprint import input_size
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.rtl import cosimulation
from mavcg.accelerators.rtl.sizes import rtl_sizes
from mavcg.accelerators.rtl.verilog import RtlFolder
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.simulator.functional import execute
from mavcg.cli.app import run
from mavcg.errors import MavcgError
from tests.mavcg.accelerators.compiled import random_program, with_huge_windows
from tests.mavcg.accelerators.random_networks import random_inputs

REFUSED = r"\(?pool\.max\)?: takes [0-9.e+]+ operations, .* at most: if the program is not damaged, mavcg accel run"


def operations(one: AccelInstruction, program: AccelProgram) -> int:
    """The elements that an instruction reads and writes, its products, and 16 for each position of a window."""
    v, form = one.values, one.form
    if form.name == "load.parameters":
        return v["words"] * datapath(program.target).weight_word
    if form.name in ("load.map", "save.map"):
        return v["rows"] * v["columns"] * v["channels"]
    if form.name in ("misc.start", "misc.end"):
        return 1
    if form.name == "misc.eltwise":
        return 3 * v["rows"] * v["columns"] * v["channels"]
    pixels = v["out_rows"] * v["out_columns"]
    if form.name == "misc.upsample":
        return 2 * pixels * v["channels"]
    if form.name == "misc.reorganise":
        rows, columns = input_size(one)
        return 2 * rows * columns * v["channels"]
    read, window = v["rows"] * v["columns"] * v["channels"], v["kernel_rows"] * v["kernel_columns"]
    out = v["channels"] if form.unit == "pool" else v["out_channels"]
    products = out if form.unit == "pool" or form.mode == "depthwise" else out * v["channels"]
    return read + pixels * out + pixels * window * (16 + products)


@pytest.mark.parametrize("seed", [0, 2, 3, 11, 19])
def test_a_job_has_as_many_operations_as_its_instructions_say(seed: int) -> None:
    found = random_program(seed)
    assert found is not None
    graph, _, program = found
    images, most = random_inputs(graph, seed), sum(operations(one, program) for one in program.instructions)

    outputs = execute(program, images, most_operations=most)
    with pytest.raises(MavcgError, match=rf"misc\.end\): takes 1 operations, .* a job has {most - 1} at most"):
        execute(program, images, most_operations=most - 1)

    assert all(np.array_equal(outputs[name], values) for name, values in execute(program, images).items())


def test_python_and_c_have_one_limit() -> None:
    assert host_library().MAVCG_ACCEL_OPERATIONS == MOST_OPERATIONS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution, its program, and the same with windows of a million positions after it."""
    made = tmp_path_factory.mktemp("operations")
    weights = numpy_helper.from_array(np.full((4, 3, 3, 3), 0.1, np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, ch, 6, 5]) for name, ch in (("x", 3), ("y", 4)))
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)], "net", [x], [y], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), made / "net.onnx")
    assert run(["accel", "build", str(made / "net.onnx"), "--target", "small", "-o", str(made / "net.elf")]) == 0
    write_elf(with_huge_windows(read_elf(made / "net.elf")), made / "huge.elf")
    return made


def by_the_host_side(path: Path) -> None:
    with DeviceProgram(path) as device:
        device.run({name: np.zeros(shape, np.float32) for name, shape in device.inputs.items()})


def by_python(path: Path) -> None:
    program = read_elf(path)
    shapes = {name: program.tensor(name) for name in program.inputs}
    execute(program, {name: np.zeros((1, t.height, t.width, t.channels), np.int8) for name, t in shapes.items()})


def by_cosim(path: Path) -> None:
    program = read_elf(path)
    cosimulation.cosimulate(program, RtlFolder("", program.target.name, rtl_sizes(program.target)), 0)


@pytest.mark.parametrize("door", [by_the_host_side, by_python, by_cosim])
def test_windows_of_a_million_positions_are_refused(folder: Path, door: Callable[[Path], None]) -> None:
    with pytest.raises(MavcgError, match=REFUSED):
        door(folder / "huge.elf")


@pytest.mark.parametrize(
    "words", [("run", "--seed", "0"), ("run", "--seed", "0", "--accelerator"), ("validate", "--model", "net.onnx")]
)
def test_verbs_have_a_limit(
    folder: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    verb, *options = words

    assert run(["accel", verb, "huge.elf", *options]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "mavcg accel run --max-operations or mavcg_accel_simulator_limit sets more" in shown
    assert run(["accel", verb, "net.elf", *options, "--max-operations", "1000"]) == 2
    assert "a job has 1000 at most" in " ".join(capsys.readouterr().err.split())
    assert run(["accel", verb, "net.elf", *options, "--max-operations", "100000"]) == 0


def test_verilog_runs_for_so_many_cycles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = simulate(read_elf(folder / "net.elf")).cycles
    monkeypatch.setattr(cosimulation, "MOST_CYCLES", cycles - 1)

    with pytest.raises(MavcgError, match=rf"takes {cycles} simulated cycles; cosim runs at most {cycles - 1};"):
        by_cosim(folder / "net.elf")


def test_cycles_of_huge_windows_are_counted_at_once(folder: Path) -> None:
    program = read_elf(folder / "huge.elf")

    assert simulate(program).cycles > simulate(read_elf(folder / "net.elf")).cycles + 1e9
