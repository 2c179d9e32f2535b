"""Programs by parts of rows: the bits of layer by layer, in memory that holds what nobody may read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.program_runner import ProgramRunner
from mavcg.choose.limits.arena_limit import ArenaTooLargeError, first_within
from mavcg.choose.lowering.image_rows import with_image_rows
from mavcg.choose.lowering.lower import LoweredGraph, lower_graph
from mavcg.choose.lowering.row_phases import divide_rows
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.errors import MavcgError
from mavcg.importers.load import import_model
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.kernel import Machine, Packing
from mavcg.toolchain.target import host_target

ARCH = host_target().arch
MACHINE = Machine(
    "host", ARCH, "x86-64-v3" if ARCH == "x86_64" else "generic", vector_bytes=32 if ARCH == "x86_64" else 16
)


def lowered_model(folder: Path, nodes: Any, weights: dict[str, Any], shape: tuple[int, ...]) -> LoweredGraph:
    """Lower an ONNX model of these nodes with input x and output y."""
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "rows",
        [helper.make_tensor_value_info("x", float32, list(shape))],
        [helper.make_tensor_value_info("y", float32, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / "rows.onnx")
    graph_of_file = optimise(import_model(folder / "rows.onnx", {}))
    return with_image_rows(lower_graph(graph_of_file, Packing(lanes=16 if ARCH == "x86_64" else 8)))


def mixed(folder: Path) -> LoweredGraph:
    """Lower windows and strides of all kinds, a residual, a concat, a pool, an activation alone, a gate."""
    from onnx import helper

    rng, node = np.random.default_rng(3), helper.make_node
    weights = {
        name: rng.standard_normal(shape).astype(np.float32) * np.float32(0.2)
        for name, shape in {
            "w0": (16, 3, 3, 3),
            "w1": (16, 1, 3, 3),
            "w2": (16, 16, 1, 1),
            "w3": (8, 16, 3, 3),
            "w4": (24, 24, 1, 1),
            "w5": (24, 1, 5, 5),
            "w6": (24, 24, 1, 1),
            "w7": (10, 24, 2, 2),
        }.items()
    }
    nodes = [
        node("Conv", ["x", "w0"], ["c0"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["c0"], ["r0"]),
        node("Conv", ["r0", "w1"], ["d0"], group=16, pads=[1, 1, 1, 1]),
        node("Conv", ["d0", "w2"], ["p0"]),
        node("Add", ["p0", "r0"], ["a0"]),
        node("Conv", ["a0", "w3"], ["c1"], pads=[2, 2, 2, 2], dilations=[2, 2]),
        node("Concat", ["a0", "c1"], ["cat"], axis=1),
        node("Sigmoid", ["cat"], ["s"]),
        node("Mul", ["cat", "s"], ["swish"]),
        node("MaxPool", ["swish"], ["m"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("GlobalAveragePool", ["m"], ["g"]),
        node("Conv", ["g", "w4"], ["gw"]),
        node("Mul", ["m", "gw"], ["gated"]),
        node("Conv", ["gated", "w5"], ["d1"], group=24, pads=[2, 2, 2, 2]),
        node("Conv", ["d1", "w6"], ["p1"]),
        node("Add", ["p1", "gated"], ["a1"]),
        node("Conv", ["a1", "w7"], ["y"], strides=[2, 2]),
    ]
    return lowered_model(folder, nodes, weights, (1, 3, 66, 70))


@pytest.mark.long
def test_parts_of_rows_give_the_same_bits(tmp_path: Path) -> None:
    """Under every limit from layer by layer to the least, in parts of rows that are computed last first."""
    lowered = mixed(tmp_path)
    planned = plan_lowered(lowered)
    with pytest.raises(ArenaTooLargeError) as refused:
        divide_rows(first_within([planned], 1))
    least, whole = refused.value.least_bytes, planned.program.arena_bytes
    assert f"take {least} bytes at least" in str(refused.value) and least < 0.8 * whole
    assert not first_within([planned], whole).rows.ranges

    x = np.random.default_rng(0).standard_normal((1, 3, 66, 70)).astype(np.float32)
    runner = ProgramRunner(lowered, MACHINE)
    right = runner.run(x)[0].tobytes()
    for share in (0.0, 0.4, 0.8):
        limit = int(least + share * (whole - least))
        program = divide_rows(first_within([planned], limit)).program
        assert program.phases and program.arena_bytes <= limit
        assert {phase.step for phase in program.phases} == set(range(len(program.steps)))
        runner.program = program
        for runner.parts in (1, 3):
            assert runner.run(x)[0].tobytes() == right


def test_rows_of_steps_are_each_computed_once(tmp_path: Path) -> None:
    planned = plan_lowered(mixed(tmp_path))
    program = divide_rows(first_within([planned], int(planned.program.arena_bytes * 0.8))).program
    for number, step in enumerate(program.steps):
        parts = [p for p in program.phases if p.step == number and not p.moved_bytes]
        ends = [0, *(part.first_row + part.rows for part in parts)]
        assert [part.first_row for part in parts] == ends[:-1] and ends[-1] <= step.rows


def test_images_of_a_batch_are_computed_as_a_whole(tmp_path: Path) -> None:
    from onnx import helper

    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    lowered = lowered_model(tmp_path, nodes, weights, (2, 3, 16, 16))
    planned = plan_lowered(lowered)
    with pytest.raises(MavcgError, match="--max-arena 64: the buffers of .* bytes at least"):
        divide_rows(first_within([planned], 64))
