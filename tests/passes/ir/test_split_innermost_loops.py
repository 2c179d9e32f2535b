"""Blocks of innermost loops: against the definition, on random graphs, and on bodies as LLVM prints them."""

from hypothesis import given
from hypothesis import strategies as st

from mavcg.passes.ir.split_vector_loads import IrBlock, blocks_of, innermost_blocks

NEST = """\
  br label %outer

outer:                                            ; preds = %0, %latch
  br label %"inner loop"

"inner loop":                                     ; preds = %"inner loop", %outer
  br i1 %c, label %"inner loop", label %latch

latch:                                            ; preds = %"inner loop"
  switch i32 %n, label %outer [
    i32 0, label %done
    i32 1, label %5
  ]

5:                                                ; preds = %latch
  br i1 %c, label %5, label %done

done:                                             ; preds = %5, %latch
  ret void
}"""


def test_blocks_and_their_successors() -> None:
    blocks = {block.label: block.successors for block in blocks_of(NEST.split("\n"))}

    assert blocks == {
        "": ("outer",),
        "outer": ('"inner loop"',),
        '"inner loop"': ('"inner loop"', "latch"),
        "latch": ("outer", "done", "5"),
        "5": ("5", "done"),
        "done": (),
    }


def test_blocks_cover_every_line_once() -> None:
    lines = NEST.split("\n")

    assert [n for block in blocks_of(lines) for n in range(block.first, block.end)] == list(range(len(lines)))


def test_a_labelled_entry_is_one_block() -> None:
    lines = ["entry:", "  br label %a", "", "a:", "  ret void", "}"]

    assert [block.label for block in blocks_of(lines)] == ["entry", "a"]


def test_an_outer_loop_is_not_innermost() -> None:
    assert innermost_blocks(blocks_of(NEST.split("\n"))) == {'"inner loop"', "5"}


@given(st.lists(st.lists(st.integers(0, 7), max_size=2), min_size=1, max_size=8))
def test_random_graphs_against_the_definition(targets: list[list[int]]) -> None:
    """A natural loop is a header and what reaches it by a back edge without passing it (Aho et al., 9.6.6)."""
    count = len(targets)
    edges = {n: [t for t in ts if 0 < t < count] for n, ts in enumerate(targets)}  # an entry block has no predecessors
    reached = _reach(edges, 0, None)
    edges = {n: ts if n in reached else [] for n, ts in edges.items()}
    dominators = {n: {d for d in reached if d == n or n not in _reach(edges, 0, d)} for n in reached}
    loops: dict[int, set[int]] = {}
    for tail in reached:
        for head in (h for h in edges[tail] if h in dominators[tail]):
            body = {n for n in reached if n == tail or tail in _reach(edges, n, head)} - {head}
            loops.setdefault(head, {head}).update(body)
    inner = [body for head, body in loops.items() if not any(h in body for h in loops if h != head)]
    blocks = [IrBlock(str(n), 0, 0, tuple(map(str, ts))) for n, ts in edges.items()]
    loop_blocks = innermost_blocks(blocks)

    if _is_reducible(edges, dominators):
        assert loop_blocks == {str(n) for body in inner for n in body}
    else:  # a cycle with two entries is a loop too
        assert loop_blocks <= {str(n) for n in reached if n in _reach_from(edges, edges[n])}


def _reach(edges: dict[int, list[int]], start: int, without: int | None) -> set[int]:
    kept = {n: [t for t in ts if t != without] for n, ts in edges.items()}
    return set() if start == without else _reach_from(kept, [start])


def _reach_from(edges: dict[int, list[int]], starts: list[int]) -> set[int]:
    seen, pending = set(starts), list(starts)
    while pending:
        for target in edges[pending.pop()]:
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return seen


def _is_reducible(edges: dict[int, list[int]], dominators: dict[int, set[int]]) -> bool:
    """True if no cycle is left without the back edges."""
    forward = {n: [t for t in ts if t not in dominators.get(n, ())] for n, ts in edges.items()}
    return all(n not in _reach_from(forward, forward[n]) for n in forward)
