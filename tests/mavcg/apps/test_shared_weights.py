"""Equal weights are in a library once: over networks of different files, and sizes of one network."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg import load, load_application
from mavcg.apps.application_file import read_application_file
from mavcg.apps.library_plan import LibraryPlan, plan_library
from mavcg.choose.lowering.pack_weights import pack_weights, packed_pool
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.specs.packed_constant import constant_array
from mavcg.toolchain.target import host_target
from tests.mavcg.apps.small_networks import write_application, write_network

Mavcg = Callable[..., Any]
CORES = "haswell" if host_target().arch == "x86_64" else "cortex-a55"
TABLE = '[[network]]\nname = "{}"\nfile = "{}.onnx"\nshapes = {{ x = [1, 3, {}, {}] }}\n'


def two_sizes(folder: Path) -> Path:
    """Write app.toml of one network at two sizes, with a file each that differ in the sizes alone, and another one."""
    pytest.importorskip("onnx")
    tables = []
    for name, side, seed in (("small", 24, 5), ("large", 40, 5), ("other", 24, 6)):
        write_network(folder / f"{name}.onnx", 16, side, seed)
        tables.append(TABLE.format(name, name, side, side))
    (folder / "app.toml").write_text("".join(tables))
    return folder / "app.toml"


def planned(file: Path, **options: Any) -> LibraryPlan:
    own = ModelOptions(cores=("cortex-a55",), **options)
    request, _ = make_model_request(file, str(file.parent / "libapp.so"), own)
    return plan_library(read_application_file(file), request)


def test_equal_weights_of_two_sizes_are_one_copy(tmp_path: Path) -> None:
    plan = planned(two_sizes(tmp_path), max_error=0.0)
    small, large, other = plan.own_weights

    assert small == large and plan.weight_bytes < small + large + other
    assert plan.weight_bytes <= small + other + 64  # of alignment


@pytest.mark.parametrize("head", ["", 'memory = "200 kB"'])
def test_every_operand_has_the_bytes_of_its_constant(head: str, tmp_path: Path) -> None:
    """In the order by parts of rows, too: the bytes at each address are those that the kernel's recipe packs."""
    pytest.importorskip("onnx")
    plan = planned(write_application(tmp_path, head), max_error=0.0)
    pool = np.concatenate([np.zeros(0, np.uint8), *packed_pool(plan.weights)])
    assert pool.size == plan.weight_bytes and bool(head) == any(n.program.phases for n in plan.networks)
    for network in plan.networks:
        lowered, program = network.lowered, network.program
        assert program.constants_bytes == plan.weight_bytes
        rows = [(n, step.operands) for n, step in enumerate(program.steps)]
        rows += [(phase.step, phase.operands) for phase in program.phases if not phase.moved_bytes]
        for number, addresses in rows[:40]:
            for operand, address in zip(lowered.steps[number].operands, addresses, strict=True):
                if operand.constant is not None:
                    array = constant_array(operand.constant, lowered.graph.constants)
                    right = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                    begin = address.offset - operand.offset
                    assert address.base == "constants" and begin % operand.align == 0
                    np.testing.assert_array_equal(pool[begin : begin + right.size], right)
        own = pack_weights(network.memory, lowered.graph.constants)
        assert own.size == pool.size and (own[own != 0] == pool[own != 0]).all()


@pytest.mark.long
def test_a_library_with_shared_weights_has_the_bits_of_separate_ones(tmp_path: Path, mavcg: Mavcg) -> None:
    file = two_sizes(tmp_path)
    quick = ("--cores", CORES, "--target", host_target().zig_name, "--tune", "off")
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", "--json", *quick)
    assert ended.status == 0, ended.stderr
    built = json.loads(ended.stdout)
    assert built["memory"]["weights_bytes"] == built["weight_bytes"] < built["separate_weight_bytes"]
    with load_application(tmp_path / "libapp.so", threads=2) as app:
        assert app.arena_bytes == built["memory"]["peak_bytes"]
        assert {app[name].constants_bytes for name in app.networks} == {built["memory"]["weights_bytes"]}
        for name, side in (("small", 24), ("large", 40), ("other", 24)):
            own = tmp_path / f"lib{name}.so"
            ended = mavcg("build", tmp_path / f"{name}.onnx", "-o", own, *quick)
            assert ended.status == 0, ended.stderr
            x = np.random.default_rng(0).standard_normal((1, 3, side, side)).astype(np.float32)
            with load(own) as alone:
                assert app[name].run(x)[0].tobytes() == alone.run(x)[0].tobytes()
