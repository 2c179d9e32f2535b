"""A graph to the engine's program: addresses, constants, calls and chunks, errors by the node's name."""

from dataclasses import replace

import numpy as np
import pytest

from mavcg.choose.lowering.lower import lower_candidates, lower_graph
from mavcg.choose.lowering.memory_plan import plan_memory
from mavcg.choose.lowering.pack_weights import pack_weights
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels import registry
from mavcg.specs.kernel import Packing
from mavcg.specs.model_program import OperandAddress
from mavcg.specs.packed_constant import PackedConstant
from mavcg.specs.tile_plan import (
    CALL_WORK,
    CHUNK_WORK,
    MacroTile,
    TilePlan,
    worthwhile_call_rows,
    worthwhile_chunk_rows,
)

PACKING = Packing(8)


def planned_model(graph: Graph, tiles: TilePlan | None = None) -> Plan:
    return plan_lowered(lower_graph(graph, PACKING), tiles or TilePlan())


def image(b: GraphBuilder, channels: int = 8, side: int = 6) -> str:
    return b.input("x", TensorType("f32", (1, side, side, channels)))


def chain() -> Graph:
    """Two convolutions with the same weights; relu; a concat of both."""
    b = GraphBuilder("chain")
    x = image(b)
    w = np.arange(8 * 8, dtype=np.float32).reshape(8, 1, 1, 8)
    first = b.add("conv2d", [x, b.constant(w)], origin="one")
    two = b.add("conv2d", [first, b.constant(w)], origin="two")
    return b.finish([b.add("concat", [first, b.add("tanh", [two], origin="act")], axis=3, origin="joined")])


def test_steps_are_the_nodes_that_do_something_in_order() -> None:
    planned = planned_model(chain())

    assert [step.name for step in planned.program.steps] == ["one", "two", "act"]  # the concat's parts are in place
    assert [node.op for node in planned.lowered.nodes] == ["conv2d", "conv2d", "tanh"]
    assert [(t.name, str(t.type)) for t in planned.program.inputs] == [("x", "f32[1,6,6,8]")]


def test_equal_kernels_and_equal_constants_are_there_once() -> None:
    b = GraphBuilder("twice")
    x = image(b)
    w = np.arange(8 * 8, dtype=np.float32).reshape(8, 1, 1, 8)
    for _ in range(3):
        x = b.add("tanh", [b.add("conv2d", [x, b.constant(w)])])
    planned = planned_model(b.finish([x]))
    convolutions = [step for step in planned.program.steps if step.op == "conv2d"]
    constants = pack_weights(planned.memory, planned.lowered.graph.constants)

    assert len({step.operands[1] for step in convolutions}) == 1
    assert planned.program.constants_bytes == len(constants) == 8 * 8 * 4
    packed = np.frombuffer(constants, np.float32).reshape(8, 8)
    assert (packed == w.reshape(8, 8).T).all()  # one panel of 8 lanes: k, then output channels
    assert len(planned.specs) < len(planned.program.steps)


def test_places_lie_within_what_they_are_in() -> None:
    program = planned_model(chain()).program
    limits = {
        "arena": program.arena_bytes,
        "constants": program.constants_bytes,
        "input": program.inputs[0].type.bytes,
        "output": program.outputs[0].type.bytes,
    }

    for step in program.steps:
        for operand in step.operands:
            assert 0 <= operand.offset < limits[operand.base] and operand.index == 0
    assert program.steps[0].operands[0] == OperandAddress("input", 0, 0)
    # tanh's part of the concat begins after the first 8 channels of a pixel.
    assert program.steps[2].operands[-1] == OperandAddress("output", 8 * 4, 0)
    assert program.arena_lower_bound_bytes <= program.arena_bytes


def test_calls_and_claims_are_worth_a_thread_s_while() -> None:
    b = GraphBuilder("large")
    x = image(b, 64, 64)
    w = b.constant(np.ones((64, 3, 3, 64), np.float32))
    planned = planned_model(b.finish([b.add("tanh", [b.add("conv2d", [x, w])])]))

    for spec, step in zip(planned.specs, planned.program.steps, strict=True):
        assert (step.min_chunk_rows, step.call_rows) == (worthwhile_chunk_rows(spec), worthwhile_call_rows(spec))
        for rows, work in ((step.min_chunk_rows, CHUNK_WORK), (step.call_rows, CALL_WORK)):
            assert 1 <= rows <= spec.rows
            assert rows * spec.work >= work * spec.rows or rows == spec.rows
            assert rows == 1 or (rows - 1) * spec.work < work * spec.rows
    tanh = planned.program.steps[1]
    assert 3 <= tanh.call_rows / tanh.min_chunk_rows <= 4 and tanh.call_rows < tanh.rows


def test_calls_are_as_large_as_planned() -> None:
    b = GraphBuilder("rows")
    w = b.constant(np.ones((16, 1, 1, 16), np.float32))
    graph = b.finish([b.add("tanh", [b.add("conv2d", [image(b, 16, 256), w])])])
    first, *others = planned_model(graph).program.steps
    planned = planned_model(graph, TilePlan({(first.kernel, "generic"): MacroTile(call_rows=2 * first.call_rows)}))

    assert first.min_chunk_rows < first.call_rows
    assert planned.program.steps == (replace(first, call_rows=2 * first.call_rows), *others)


def test_output_channels_are_claimed_by_whole_calls() -> None:
    """A call's channels are whole chunks of register tiles; fewer would be computed by narrower ones."""
    b = GraphBuilder("channels")
    w = b.constant(np.ones((2048, 1, 1, 512), np.float32))
    graph = b.finish([b.add("conv2d", [image(b, 512, 2), w])])
    (step,), (spec,) = planned_model(graph).program.steps, planned_model(graph).specs
    planned = planned_model(graph, TilePlan({(step.kernel, "generic"): MacroTile(call_rows=6)}))

    assert step.rows == 256 and step.min_chunk_rows == step.call_rows > worthwhile_chunk_rows(spec)
    assert planned.program.steps == (replace(step, min_chunk_rows=6, call_rows=6),)


def test_rows_in_parts_are_counted_in_parts() -> None:
    b = GraphBuilder("parts")
    w = b.constant(np.ones((64, 1, 1, 32), np.float32))
    graph = b.finish([b.add("conv2d", [image(b, 32, 256), w])])
    (step,), (spec,) = planned_model(graph).program.steps, planned_model(graph).specs
    macro = MacroTile(nc=16, call_rows=3, parts=4)
    planned, told = (
        planned_model(graph, TilePlan({(step.kernel, "generic"): tile})).program.steps[0]
        for tile in (macro, replace(macro, min_chunk_rows=5))
    )

    assert planned.rows == 4 * step.rows and planned.call_rows == told.call_rows == 12 and told.min_chunk_rows == 5
    assert planned.min_chunk_rows * spec.work >= CHUNK_WORK * planned.rows > (planned.min_chunk_rows - 1) * spec.work


def test_what_no_kernel_computes_names_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {op: lower for op, lower in registry.lowerings().items() if op != "tanh"}
    monkeypatch.setattr(registry, "lowerings", lambda: known)

    with pytest.raises(MavcgError, match=r"node 'act' \(tanh\): no kernel for this operator; supported: .*conv2d"):
        lower_graph(chain(), PACKING)


def test_candidates_are_each_lowered_once_and_give_the_same_graph_as_a_lowering() -> None:
    b = GraphBuilder("candidates")
    w = b.constant(np.arange(8 * 9 * 8, dtype=np.float32).reshape(8, 3, 3, 8))
    graph = b.finish([b.add("tanh", [b.add("conv2d", [image(b), w])])])
    candidates = lower_candidates(graph, PACKING, 1e-4)
    ((node, others),) = candidates.algorithms.items()

    assert "winograd_2d_f4_k3" in others
    for algorithms in ({}, {node: "winograd_2d_f4_k3"}):
        from_candidates, alone = candidates.lower(algorithms), lower_graph(graph, PACKING, algorithms)
        assert (from_candidates.specs, from_candidates.packed_bytes, str(from_candidates)) == (
            alone.specs,
            alone.packed_bytes,
            str(alone),
        )
        assert (plan_lowered(from_candidates).program) == plan_lowered(alone).program


def test_packed_constants_are_as_large_as_they_were_planned() -> None:
    b = GraphBuilder("sizes")
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> str:
        return b.constant(rng.standard_normal(shape).astype(np.float32))

    x = image(b, 6, 9)
    x = b.add("conv2d", [x, draw(10, 3, 3, 3), draw(10)], groups=2)
    x = b.add("conv2d", [x, draw(10, 3, 3, 1)], groups=10)
    x = b.add("conv_transpose2d", [x, draw(5, 3, 2, 10)], stride=(2, 3))
    out = b.add("matmul", [x, draw(5, 7)])
    lowered = lower_graph(b.finish([b.add("matmul", [out, draw(9, 7)], transpose_b=True)]), PACKING)
    recipes = [place.constant for place in plan_memory(lowered).constants]
    packed = [recipe.packed_array(lowered.graph.constants) for recipe in recipes if isinstance(recipe, PackedConstant)]

    assert len(packed) == 5  # each raises where its shape is not the planned one
    assert sum(lowered.packed_bytes.values()) == sum(array.nbytes for array in packed)


def test_a_recipe_says_what_it_packed_to_another_shape_than_planned() -> None:
    recipe = PackedConstant(np.ravel, ("w",), (), (5,))

    with pytest.raises(ValueError, match=r"ravel of w: float32\[4\] where float32\[5\] was planned"):
        recipe.packed_array({"w": np.zeros((2, 2), np.float32)})
