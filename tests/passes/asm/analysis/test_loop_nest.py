"""Loops of functions, how they nest, and the estimate of how often each block runs."""

from mavcg.passes.asm.analysis.blocks import functions_of
from mavcg.passes.asm.analysis.loop_nest import ASSUMED_TRIPS, block_frequencies, loops_of
from mavcg.passes.asm.isa.source import parse_source

NEST = """
\tmov x4, #12
\tmov x5, x1
.Louter:
\tmov w6, #40
.Linner:
\tldr q0, [x0], #16
\tsubs w6, w6, #4
\tb.ne .Linner
\tstr q0, [x2], #16
\tsubs x5, x5, #1
\tb.ne .Louter
.Lcounted:
\tldr q0, [x0], #16
\tsubs x4, x4, #5
\tb.gt .Lcounted
\tret
"""


def _runs(code: str) -> tuple[dict[str, int], int]:
    """Runs by label, and of the block behind the last loop."""
    statements = parse_source(f"\t.text\n\t.type f,@function\nf:{code}\t.size f, .-f\n")
    (function,) = functions_of(statements)
    runs = block_frequencies(function, statements)
    named = {label: runs[i] for i, block in enumerate(function.blocks) for label in block.labels}
    return named, runs[-1]


def test_runs_multiply_with_the_nesting_and_constants_are_read() -> None:
    named, last = _runs(NEST)

    assert named[".Louter"] == ASSUMED_TRIPS
    assert named[".Linner"] == 10 * ASSUMED_TRIPS  # 40 in steps of 4
    assert named["f"] == last == 1


def test_a_constant_far_from_the_loop_is_not_believed() -> None:
    """x4 is set two blocks before .Lcounted: the loop between might have been left in another state."""
    assert _runs(NEST)[0][".Lcounted"] == ASSUMED_TRIPS


def test_a_constant_that_is_overwritten_is_not_believed() -> None:
    code = "\n\tmov x4, #16\n\tadd x4, x4, x1\n.Ll:\n\tldr q0, [x0], #16\n\tsubs x4, x4, #1\n\tb.ne .Ll\n\tret\n"
    assert _runs(code)[0][".Ll"] == ASSUMED_TRIPS
    assert _runs(code.replace("\tadd x4, x4, x1\n", ""))[0][".Ll"] == 16


def test_an_inner_loop_that_begins_with_the_outer_one_is_found() -> None:
    code = "\n.Ll:\n\tldr q0, [x0], #16\n\tsubs x1, x1, #1\n\tb.ne .Ll\n\tsubs x2, x2, #1\n\tb.ne .Ll\n\tret\n"
    statements = parse_source(f"\t.text\n\t.type f,@function\nf:{code}\t.size f, .-f\n")
    (function,) = functions_of(statements)
    assert sorted(len(loop.blocks) for loop in loops_of(function, statements)) == [1, 2]
    assert _runs(code)[0][".Ll"] == ASSUMED_TRIPS**2


def test_code_without_loops_runs_once() -> None:
    assert _runs("\n\tcbz x0, .Lend\n\tadd x1, x1, #1\n.Lend:\n\tret\n") == ({"f": 1, ".Lend": 1}, 1)
