"""A graph to the engine's program: places, constants, tasks, errors by the node's name."""

from dataclasses import replace

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph_builder import GraphBuilder
from mavcg.kernel import Packing
from mavcg.kernels import registry
from mavcg.lowering import lower_graph, with_tasks
from mavcg.model_program import Place
from mavcg.tile_plan import CLAIM_WORK, TASK_WORK, MacroTile, TilePlan, least_claim_rows, least_task_rows

PACKING = Packing(8)


def image(b: GraphBuilder, channels: int = 8, side: int = 6) -> str:
    return b.input("x", TensorType("f32", (1, side, side, channels)))


def chain() -> Graph:
    """Two convolutions with the same weights; relu; a concat of both."""
    b = GraphBuilder("chain")
    x = image(b)
    w = np.arange(8 * 8, dtype=np.float32).reshape(8, 1, 1, 8)
    one = b.add("conv2d", [x, b.constant(w)], origin="one")
    two = b.add("conv2d", [one, b.constant(w)], origin="two")
    return b.finish([b.add("concat", [one, b.add("tanh", [two], origin="act")], axis=3, origin="joined")])


def test_steps_are_the_nodes_that_do_something_in_order() -> None:
    lowered = lower_graph(chain(), PACKING)

    assert [step.name for step in lowered.program.steps] == ["one", "two", "act"]  # the concat's parts are in place
    assert [node.op for node in lowered.nodes] == ["conv2d", "conv2d", "tanh"]
    assert [(t.name, str(t.type)) for t in lowered.program.inputs] == [("x", "f32[1,6,6,8]")]


def test_equal_kernels_and_equal_constants_are_there_once() -> None:
    b = GraphBuilder("twice")
    x = image(b)
    w = np.arange(8 * 8, dtype=np.float32).reshape(8, 1, 1, 8)
    for _ in range(3):
        x = b.add("tanh", [b.add("conv2d", [x, b.constant(w)])])
    lowered = lower_graph(b.finish([x]), PACKING)
    convolutions = [step for step in lowered.program.steps if step.op == "conv2d"]

    assert len({step.operands[1] for step in convolutions}) == 1
    assert lowered.program.constants_bytes == len(lowered.constants) == 8 * 8 * 4
    packed = np.frombuffer(lowered.constants, np.float32).reshape(8, 8)
    assert (packed == w.reshape(8, 8).T).all()  # one panel of 8 lanes: k, then output channels
    assert len(lowered.specs) < len(lowered.program.steps)


def test_places_lie_within_what_they_are_in() -> None:
    lowered = lower_graph(chain(), PACKING)
    program = lowered.program
    limits = {
        "arena": program.arena_bytes, "constants": program.constants_bytes, "input": program.inputs[0].type.bytes,
        "output": program.outputs[0].type.bytes,
    }  # fmt: skip

    for step in program.steps:
        for place in step.operands:
            assert 0 <= place.offset < limits[place.base] and place.index == 0
    assert program.steps[0].operands[0] == Place("input", 0, 0)
    # tanh's part of the concat begins after the first 8 channels of a pixel.
    assert program.steps[2].operands[-1] == Place("output", 8 * 4, 0)
    assert program.arena_lower_bound_bytes <= program.arena_bytes


def test_calls_and_claims_are_worth_a_thread_s_while() -> None:
    b = GraphBuilder("large")
    x = image(b, 64, 64)
    w = b.constant(np.ones((64, 3, 3, 64), np.float32))
    lowered = lower_graph(b.finish([b.add("tanh", [b.add("conv2d", [x, w])])]), PACKING)

    for spec, step in zip(lowered.specs, lowered.program.steps, strict=True):
        assert (step.grain, step.block) == (least_claim_rows(spec), least_task_rows(spec))
        for rows, work in ((step.grain, CLAIM_WORK), (step.block, TASK_WORK)):
            assert 1 <= rows <= spec.rows
            assert rows * spec.work >= work * spec.rows or rows == spec.rows
            assert rows == 1 or (rows - 1) * spec.work < work * spec.rows
    tanh = lowered.program.steps[1]
    assert 3 <= tanh.block / tanh.grain <= 4 and tanh.block < tanh.rows


def test_calls_are_as_large_as_planned() -> None:
    b = GraphBuilder("rows")
    w = b.constant(np.ones((16, 1, 1, 16), np.float32))
    lowered = lower_graph(b.finish([b.add("tanh", [b.add("conv2d", [image(b, 16, 256), w])])]), PACKING)
    first, *others = lowered.program.steps
    planned = with_tasks(lowered, TilePlan({(first.kernel, "generic"): MacroTile(task_rows=2 * first.block)}))

    assert first.grain < first.block and planned.specs == lowered.specs
    assert planned.program.steps == (replace(first, block=2 * first.block), *others)


def test_output_channels_are_claimed_by_whole_calls() -> None:
    """A call's channels are whole chunks of register tiles; fewer would be computed by narrower ones."""
    b = GraphBuilder("channels")
    w = b.constant(np.ones((2048, 1, 1, 512), np.float32))
    lowered = lower_graph(b.finish([b.add("conv2d", [image(b, 512, 2), w])]), PACKING)
    (step,) = lowered.program.steps
    planned = with_tasks(lowered, TilePlan({(step.kernel, "generic"): MacroTile(task_rows=6)}))

    assert step.rows == 256 and step.grain == step.block > least_claim_rows(lowered.specs[0])
    assert planned.program.steps == (replace(step, grain=6, block=6),)


def test_rows_in_parts_are_counted_in_parts() -> None:
    b = GraphBuilder("parts")
    w = b.constant(np.ones((64, 1, 1, 32), np.float32))
    lowered = lower_graph(b.finish([b.add("conv2d", [image(b, 32, 256), w])]), PACKING)
    (step,), (spec,) = lowered.program.steps, lowered.specs
    macro = MacroTile(out_channels=16, task_rows=3, parts=4)
    planned, told = (
        with_tasks(lowered, TilePlan({(step.kernel, "generic"): one})).program.steps[0]
        for one in (macro, replace(macro, claim_rows=5))
    )

    assert planned.rows == 4 * step.rows and planned.block == told.block == 12 and told.grain == 5
    assert planned.grain * spec.work >= CLAIM_WORK * planned.rows > (planned.grain - 1) * spec.work


def test_what_no_kernel_computes_names_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {op: lower for op, lower in registry.lowerings().items() if op != "tanh"}
    monkeypatch.setattr(registry, "lowerings", lambda: known)

    with pytest.raises(MavcgError, match=r"node 'act' \(tanh\): no kernel; there are kernels for .*conv2d"):
        lower_graph(chain(), PACKING)
