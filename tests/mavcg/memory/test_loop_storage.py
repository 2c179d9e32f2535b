"""Loops in shared buffers: the same results as iteration by iteration, checked in one NumPy array."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.graph import Graph
from mavcg.graph.ops.loops import loop_ranges, order_by_loops
from mavcg.graph.reference import run
from mavcg.memory.storage import assign_storage
from tests.conftest import examples
from tests.mavcg.memory.arena_runs import run_in_arena
from tests.mavcg.memory.random_loops import random_loops


@settings(max_examples=examples(1500, 60))
@given(st.integers(0, 10**9))
def test_random_loops_in_shared_buffers(seed: int) -> None:
    graph = random_loops(seed)
    rng = np.random.default_rng(seed)
    inputs = {name: rng.standard_normal(graph.shape(name)).astype(np.float32) for name in graph.inputs}
    wanted = run(graph, *inputs.values())
    for have, want in zip(run_in_arena(assign_storage(graph), inputs), wanted, strict=True):
        np.testing.assert_array_equal(have, want)


CELL = """graph g {{
  input %x: f32[8,2,3]
  input %h0: f32[2,3]
  %x_t: f32[2,3] = loop_slice(%x) loop=0 reverse=false within=-1
  %h: f32[2,3] = loop_state(%h0) condition=false loop=0 number=0 trips=8 within=-1
  {body}
  %next: f32[2,3] = loop_next(%h, %n) loop=0
  %y: f32[2,3] = loop_final(%next) loop=0
  return %y
}}"""


def copies(body: str) -> int:
    """Number of the loop's steps that copy a state."""
    storage = assign_storage(Graph.parse(CELL.format(body=body)))
    (loop,) = storage.loops
    body_nodes = storage.graph.nodes[loop.first : loop.last + 1]
    return sum(n.op in ("loop_next", "loop_copy") and n.output not in storage.silent for n in body_nodes)


def test_a_state_is_copied_where_its_old_value_is_read_after_the_new_one() -> None:
    assert copies("%n: f32[2,3] = add(%x_t, %h)") == 0
    assert copies("%m: f32[2,3] = mul(%h, %h)\n%n: f32[2,3] = add(%x_t, %m)") == 0
    last = "%s: f32[1,3] = slice(%h) starts=[1, 0] steps=[1, 1] stops=[2, 3]"
    assert copies(f"{last}\n%n: f32[2,3] = add(%h, %s)") == 1  # a row that the sum would overwrite
    assert copies("%n: f32[2,3] = reshape(%x_t) shape=[2, 3]") == 1


BRANCHES = """graph g {
  input %x: f32[2,3]
  input %go: bool[]
  const %zeros: f32[2,3] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0}
  %c: bool[] = loop_state(%go) condition=true loop=0 number=0 trips=1 within=-1
  %s: f32[2,3] = loop_state(%zeros) condition=false loop=0 number=1 trips=1 within=-1
  %e: f32[2,3] = loop_enter(%x) loop=0 within=-1
  %a: f32[2,3] = neg(%e)
  %cn: bool[] = loop_next(%c, %c) loop=0
  %sn: f32[2,3] = loop_next(%s, %a) loop=0
  %one: f32[2,3] = loop_final(%sn, %cn) loop=0
  %other: bool[] = not(%go)
  %d: bool[] = loop_state(%other) condition=true loop=1 number=0 trips=1 within=-1
  %t: f32[2,3] = loop_state(%one) condition=false loop=1 number=1 trips=1 within=-1
  %f: f32[2,3] = loop_enter(%x) loop=1 within=-1
  %b: f32[2,3] = tanh(%f)
  %dn: bool[] = loop_next(%d, %d) loop=1
  %tn: f32[2,3] = loop_next(%t, %b) loop=1
  %y: f32[2,3] = loop_final(%tn, %dn) loop=1
  return %y
}"""


def test_what_branches_make_is_in_one_place() -> None:
    """The result of the first branch is the first value of the second one's state, which nothing else reads."""
    storage = assign_storage(Graph.parse(BRANCHES))
    steps = {node.output for node in storage.graph.nodes if node.output not in storage.silent}

    assert steps == {"c", "s", "a", "other", "b"}
    assert {storage.locations[name].root for name in ("s", "a", "one", "t", "b", "y")} == {"y"}


def test_a_body_is_in_one_piece() -> None:
    graph = random_loops(7)
    for seed in range(20):
        graph = random_loops(seed)
        nodes = order_by_loops(graph.nodes)
        assert sorted(n.output for n in nodes) == sorted(n.output for n in graph.nodes)
        ranges = loop_ranges(nodes)
        for place, loop in enumerate(ranges):
            outer = ranges[loop.parent] if loop.parent >= 0 else None
            assert loop.parent < place and (outer is None or outer.first <= loop.first <= loop.last <= outer.last)
            others = [r for r in ranges[:place] if r.parent == loop.parent]
            assert all(r.last < loop.first for r in others)
