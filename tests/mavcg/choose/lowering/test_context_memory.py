"""States in a context: in place where no read follows the first write, else in two copies; checked against NumPy."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.jit import host_machine
from bench.program_runner import ProgramRunner
from mavcg.choose.limits.arena_limit import ArenaTooLargeError, first_within
from mavcg.choose.lowering.context_memory import hold_in_context, updates_in_place, without_state_copies
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.row_phases import divide_rows
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.graph import Array, Graph, GraphState, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import run
from mavcg.passes.graph.pipeline import optimise
from mavcg.runtime.machines import packing_for
from mavcg.specs.model_program import Program
from mavcg.toolchain.target import host_target
from tests.conftest import examples
from tests.mavcg.memory.arena_runs import run_in_arena

PACKING = packing_for(host_target())
KIND = TensorType("f32", (2, 3, 4))


def program_of(graph: Graph) -> Program:
    return hold_in_context(plan_lowered(without_state_copies(lower_graph(graph, PACKING)))).program


def in_place(*nodes: str) -> bool:
    """Whether the state h of a graph of these nodes, which make %n and %y, has one copy."""
    body = "\n".join(nodes)
    text = f"graph g {{ input %x: f32[2,3] input %h: f32[2,3] state %h = %n {body}\n return %y, %n }}"
    (state,) = program_of(Graph.parse(text)).states
    return state.in_place


ADD, RELU, MUL = "%n: f32[2,3] = add(%x, %h)", "%y: f32[2,3] = relu(%x)", "%y: f32[2,3] = mul(%x, %h)"


def test_the_order_of_reads_and_writes_decides() -> None:
    assert in_place(ADD, RELU)  # element by element
    assert in_place(MUL, ADD)  # the last read is that of the step that writes
    assert in_place(MUL, "%n: f32[2,3] = exp(%x)")  # read before it is written
    assert in_place("%n: f32[2,3] = exp(%x)", RELU)  # never read
    assert in_place(ADD, "%y: f32[2,3] = relu(%n)")  # the new value is read, not the old one
    assert not in_place(ADD, MUL)  # read after it is written
    assert not in_place("%n: f32[2,3] = exp(%x)", MUL)


def test_a_step_that_moves_elements_needs_two_copies() -> None:
    tail = "%t: f32[1,3] = slice(%h) starts=[1, 0] steps=[1, 1] stops=[2, 3]"
    last = "%l: f32[1,3] = slice(%x) starts=[0, 0] steps=[1, 1] stops=[1, 3]"
    assert not in_place(tail, last, "%n: f32[2,3] = concat(%t, %l) axis=0", RELU)
    turned = "%t: f32[3,2] = transpose(%h) perm=[1, 0]"
    straight = "%r: f32[2,3] = reshape(%t) shape=[2, 3]"
    assert in_place(turned, straight, ADD.replace("%h", "%r"), RELU)  # all is read before the sum writes
    assert not in_place(turned, "%n: f32[2,3] = reshape(%t) shape=[2, 3]", RELU)
    twice = "%n: f32[2,3] = add(%h, %r)"  # element by element, and turned from a buffer of its own
    assert in_place(turned, straight, twice, RELU)


CACHE = "f32[6,4]"
ROWS = "%r: f32[6,4] = reshape(%h) shape=[6, 4]"
WRITE = '%w: f32[6,4] = scatter(%r, %i, %u) reduction="none"'
BACK = "%n: f32[2,3,4] = reshape(%w) shape=[2, 3, 4]"


def cache_graph(*nodes: str) -> Graph:
    """A graph that writes rows %u to places %i of the state %h, f32[2,3,4], whose new value is %n."""
    body = "\n".join(nodes)
    inputs = "input %h: f32[2,3,4] input %i: i64[2] input %u: f32[2,4]"
    return Graph.parse(f"graph g {{ {inputs} state %h = %n {body}\n return %y, %n }}")


def cache_program(*nodes: str) -> Program:
    return program_of(cache_graph(*nodes))


def test_rows_are_written_into_a_cache_without_a_copy_of_it() -> None:
    program = cache_program(ROWS, WRITE, BACK, "%y: f32[6,4] = exp(%w)")
    (state,) = program.states
    assert state.in_place and [step.op for step in program.steps] == ["scatter", "exp"]
    assert program.state_bytes == 128 and program.arena_bytes == 0


def test_a_cache_whose_old_value_is_read_is_copied() -> None:
    program = cache_program(ROWS, WRITE, BACK, "%y: f32[2,3,4] = exp(%h)")
    (state,) = program.states
    assert not state.in_place and [step.op for step in program.steps] == ["scatter", "scatter", "exp"]


@pytest.mark.parametrize("reader", ["%n", "%h"])
def test_a_cache_over_several_runs(reader: str) -> None:
    graph = cache_graph(ROWS, WRITE, BACK, f"%y: f32[2,3,4] = exp({reader})")
    runner = ProgramRunner(without_state_copies(lower_graph(graph, PACKING)), host_machine(), 2)
    rng, kept = np.random.default_rng(0), np.zeros(KIND.shape, np.float32)
    for places in ([0, 5], [3, 3], [5, 1]):
        arrays = np.array(places), rng.standard_normal((2, 4)).astype(np.float32)
        y, kept = run(graph, kept, *arrays)
        (z,) = runner.run(*arrays)
        np.testing.assert_allclose(z, y, rtol=1e-6)


def test_states_leave_the_signature_and_do_not_overlap() -> None:
    b = GraphBuilder("g")
    first, x, second = b.input("first", KIND), b.input("x", KIND), b.input("second", TensorType("i32", (5,)))
    y = b.add("relu", [x])
    new_first, new_second = b.add("add", [first, x]), b.add("abs", [second])
    late = b.add("mul", [first, y])
    graph = b.finish([new_first, y, new_second, late])
    graph = Graph(
        graph.name,
        graph.inputs,
        graph.outputs,
        graph.nodes,
        graph.types,
        graph.constants,
        (GraphState(first, new_first), GraphState(second, new_second)),
    )
    program = program_of(graph)
    assert [t.name for t in program.inputs] == [x]
    assert [t.name for t in program.outputs] == [y, late]
    assert [(s.name, s.in_place) for s in program.states] == [(second, True), (first, False)]
    assert (program.states[0].offset, program.states[1].offset) == (0, 64)
    assert program.swapped_bytes == 128 and program.state_bytes == 64 + 2 * 128
    used = {operand.base for step in program.steps for operand in step.operands}
    assert used <= {"input", "output", "state", "arena"}
    assert all(o.index < 2 for s in program.steps for o in s.operands if o.base in ("input", "output"))


def random_states(seed: int) -> Graph:
    """Element-wise nodes and moves over tensors of one type, with up to three states, each the value of any tensor."""
    pick = Random(seed)
    b = GraphBuilder("random")
    inputs = [b.input(name, KIND) for name in ("x", "s0", "s1", "s2")[: pick.randint(2, 4)]]
    tensors = list(inputs)
    for _ in range(pick.randint(2, 9)):
        x, kind = pick.choice(tensors[-6:]), pick.choice(["neg", "relu", "add", "mul", "roll", "turn", "reshape"])
        if kind in ("neg", "relu"):
            made = b.add(kind, [x])
        elif kind in ("add", "mul"):
            made = b.add(kind, [x, pick.choice(tensors)])
        elif kind == "roll":
            axis, lengths = pick.randrange(3), list(KIND.shape)
            start = [int(i == axis) for i in range(3)]
            tail = b.add("slice", [x], starts=start, stops=lengths, steps=[1, 1, 1])
            ends = [1 if i == axis else n for i, n in enumerate(lengths)]
            head = b.add("slice", [pick.choice(tensors)], starts=[0, 0, 0], stops=ends, steps=[1, 1, 1])
            made = b.add("concat", [tail, head], axis=axis)
        elif kind == "turn":
            made = b.add("reshape", [b.add("transpose", [x], perm=[2, 0, 1])], shape=KIND.shape)
        else:
            made = b.add("reshape", [b.add("reshape", [x], shape=[6, 4])], shape=KIND.shape)
        tensors.append(made)
    nexts = pick.sample(tensors, len(inputs) - 1)
    rest = [t for t in tensors if t not in nexts and t not in inputs] or [b.add("exp", [nexts[0]])]
    graph = b.finish([rest[-1], *nexts])
    states = tuple(GraphState(name, output) for name, output in zip(inputs[1:], nexts, strict=True))
    return Graph(graph.name, graph.inputs, graph.outputs, graph.nodes, graph.types, graph.constants, states)


@settings(max_examples=examples(400, 40))
@given(st.integers(0, 10**9))
def test_random_graphs_run_as_with_states_from_the_caller(seed: int) -> None:
    graph = random_states(seed)
    lowered = lower_graph(graph, PACKING)
    program, stored = plan_lowered(lowered).program, lowered.graph
    same = {
        state.output: state.input
        for state in stored.states
        if updates_in_place(lowered, program, stored.inputs.index(state.input), stored.outputs.index(state.output))
    }
    rng = np.random.default_rng(seed)
    wanted = ours = [np.zeros(KIND.shape, np.float32) for _ in graph.states]
    for _ in range(3):
        x = rng.standard_normal(KIND.shape).astype(np.float32)
        y, *wanted = run(graph, x, *wanted)
        names = dict(zip(stored.inputs, [x, *ours], strict=True))
        z, *ours = run_in_arena(lowered.storage, names, same)
        for a, b in zip([z, *ours], [y, *wanted], strict=True):
            np.testing.assert_array_equal(a, b)


def recurrent() -> Graph:
    """A cell with two states like a GRU's, a rolling window, and a sum from a first value that is not 0."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("recurrent")
    x, h = b.input("x", TensorType("f32", (1, 8))), b.input("h", TensorType("f32", (1, 8)))
    total, window = b.input("total", TensorType("f32", (1, 8))), b.input("window", TensorType("f32", (3, 8)))
    weights = [b.constant(rng.standard_normal((8, 8)).astype(np.float32) * np.float32(0.3)) for _ in range(3)]
    gate = b.add("sigmoid", [b.add("add", [b.add("matmul", [x, weights[0]]), b.add("matmul", [h, weights[1]])])])
    new = b.add("tanh", [b.add("matmul", [x, weights[2]])])
    one = b.constant(np.float32(1))
    next_h = b.add("add", [b.add("mul", [gate, h]), b.add("mul", [b.add("sub", [one, gate]), new])])
    next_total = b.add("add", [total, next_h])
    tail = b.add("slice", [window], starts=[1, 0], stops=[3, 8], steps=[1, 1])
    next_window = b.add("concat", [tail, next_h], axis=0)
    y = b.add("mul", [next_total, b.add("reduce_max", [next_window], axes=[0], keepdims=True)])
    graph = b.finish([y, next_h, next_total, next_window])
    first = rng.standard_normal((1, 8)).astype(np.float32)
    states = (GraphState(h, next_h), GraphState(total, next_total, first), GraphState(window, next_window))
    return Graph(graph.name, graph.inputs, graph.outputs, graph.nodes, graph.types, graph.constants, states)


@pytest.mark.parametrize("parts", [1, 3])
def test_kernels_keep_the_states(parts: int) -> None:
    graph = recurrent()
    runner = ProgramRunner(lower_graph(optimise(graph), PACKING), host_machine(), parts)
    assert {s.name: s.in_place for s in runner.program.states} == {"total": True, "h": True, "window": False}
    rng = np.random.default_rng(1)
    kept: list[Array] = [np.zeros(graph.shape(s.input)) if s.initial is None else s.initial for s in graph.states]
    for _ in range(5):
        x = rng.standard_normal((1, 8)).astype(np.float32)
        y, *kept = run(graph, x, *(array.astype(np.float32) for array in kept), wide=False)
        (z,) = runner.run(x)
        np.testing.assert_allclose(z, y, rtol=1e-5, atol=1e-6)


def streaming(height: int) -> Graph:
    """Convolutions over the last rows of a stream of images, whose buffers are large enough to be divided."""
    rng = np.random.default_rng(2)
    b = GraphBuilder("streaming")
    x = b.input("x", TensorType("f32", (1, height, 32, 8)))
    past = b.input("past", TensorType("f32", (1, 2, 32, 8)))
    mean = b.input("mean", TensorType("f32", (1, height, 32, 8)))
    whole = b.add("concat", [past, x], axis=1)
    n = height + 2
    next_past = b.add("slice", [whole], starts=[0, height, 0, 0], stops=[1, n, 32, 8], steps=[1] * 4)
    at = whole
    for _ in range(2):
        weights = b.constant(rng.standard_normal((8, 3, 1, 8)).astype(np.float32) * np.float32(0.2))
        at = b.add("relu", [b.add("conv2d", [at, weights], pads=[1, 0, 1, 0])])
    body = b.add("slice", [at], starts=[0, 2, 0, 0], stops=[1, n, 32, 8], steps=[1] * 4)
    next_mean = b.add("add", [b.add("mul", [mean, b.constant(np.float32(0.5))]), body])
    y = b.add("max", [next_mean, x])
    graph = b.finish([y, next_past, next_mean])
    states = (GraphState(past, next_past), GraphState(mean, next_mean))
    return Graph(graph.name, graph.inputs, graph.outputs, graph.nodes, graph.types, graph.constants, states)


@pytest.mark.long
def test_states_of_a_program_by_parts_of_rows() -> None:
    lowered = lower_graph(optimise(streaming(40)), PACKING)
    whole = plan_lowered(lowered)
    with pytest.raises(ArenaTooLargeError) as refused:
        divide_rows(first_within([whole], 1))
    parts = divide_rows(first_within([whole], (whole.program.arena_bytes + refused.value.least_bytes) // 2))
    assert parts.program.phases and parts.program.arena_bytes < whole.program.arena_bytes
    runners = [ProgramRunner(lowered, host_machine()) for _ in range(2)]
    runners[1].program = hold_in_context(parts).program
    runners[1].states = type(runners[1].states)(bytes(runners[1].program.state_bytes))
    rng = np.random.default_rng(3)
    for _ in range(4):
        x = rng.standard_normal((1, 40, 32, 8)).astype(np.float32)
        first, second = (runner.run(x)[0] for runner in runners)
        assert first.tobytes() == second.tobytes() and np.isfinite(first).all()
