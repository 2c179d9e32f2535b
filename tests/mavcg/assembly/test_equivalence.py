"""What the comparison of two forms lets pass and what it does not, each in the shortest function that shows it."""

import time

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.equivalence import CALLER_SEES, Comparison, RunLimits, Undecided, compare

pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")

SEEDS = range(6)


def compared(before: str, after: str, observed: tuple[str, ...] = CALLER_SEES, limit: int = 500) -> Comparison:
    """Both with x9 as a pointer to somewhere harmless."""
    images = [assemble_image(f"\t.text\nf:\n\tmov x9, #0x50000000\n{code}\n\tret\n") for code in (before, after)]
    return compare(images[0], images[1], "f", SEEDS, observed, RunLimits(limit))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("add x0, x1, x2", "add x0, x2, x1"),
        ("mov x12, #1", "mov x12, #2"),  # nobody may look at x12
        ("mov x30, x30", "str q4, [sp, #-32]"),  # dead stack
        ("str x1, [sp, #-16]!\nldr x1, [sp], #16", "str x19, [sp, #-64]\nmov x19, #1\nldr x19, [sp, #-64]"),
        ("ldr q0, [x9]", "ldr d0, [x9]\nldr x10, [x9, #8]\nmov v0.d[1], x10"),
        ("str q0, [x9]", "stp d0, d1, [x9]\nmov x8, v0.d[1]\nstr x8, [x9, #8]"),
        ("movi v0.4s, #1", "ldr q0, .Lones\nb .Lover\n.p2align 4\n.Lones: .word 1, 1, 1, 1\n.Lover:"),
        ("mov v8.d[1], x1", "mov v8.d[1], x2"),  # of v8 to v15 a callee preserves the low halves
        ("cmp x1, x2", "cmp x2, x1"),
    ],
)
def test_equal(before: str, after: str) -> None:
    comparison = compared(before, after)
    assert comparison.passed and comparison.agreed == len(SEEDS), str(comparison)
    assert str(comparison) == "f: the same from 6 states, 0 undecided"


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("mov x0, #1", "mov x0, #2", "x0"),
        ("mov w0, #-1", "mov x0, #-1", "x0"),
        ("movi v3.4s, #1", "movi v3.2s, #1", "v3"),
        ("nop", "mov x28, #0", "x28"),
        ("nop", "movi d8, #0", "d8"),
        ("nop", "sub sp, sp, #16", "sp"),
        ("str w1, [x9]", "nop", "memory at 0x50000000"),
        ("nop", "str w1, [x9]", "memory at 0x50000000"),
        ("nop", "ldr w12, [x9]\nstr w12, [x9]", "memory at 0x50000000"),  # the same bytes, but it may be read-only
        (
            "mov x1, #-1\nstr x1, [x9]\nstr xzr, [x9, #4]",
            "mov x1, #-1\nstr xzr, [x9, #4]\nstr x1, [x9]",
            "memory at 0x50000004",
        ),
        ("ldr x16, [x9]", "ldr q16, [x9]", "memory at 0x50000008"),  # eight bytes more are read
        ("str x1, [sp, #8]", "str x1, [sp, #16]", "memory at 0x7f0000000008"),  # the caller's stack
        ("nop", "udf #0", "the end"),
        ("nop", ".Lforever: b .Lforever", "the end"),
    ],
)
def test_different(before: str, after: str, what: str) -> None:
    comparison = compared(before, after)
    assert not comparison.passed and comparison.agreed == 0
    assert {difference.what for difference in comparison.differences} == {what}
    assert [difference.seed for difference in comparison.differences] == list(SEEDS)


def test_a_difference_says_what_both_did() -> None:
    assert str(compared("mov x0, #1", "mov x0, #16")) == "f: seed 0: x0: before 0x1, after 0x10"
    found = compared("nop", "strb wzr, [x9]").differences[0]
    assert (found.before, found.after) == ("not written", "0x00")
    assert compared("nop", "nop\nudf #0").differences[0].after == "fault, at f+0x8"


def test_nans_are_compared_bit_by_bit() -> None:
    nan = "mov w1, #0x7fc00000\nfmov s1, w1\nadd w2, w1, #1\nfmov s2, w2\n"
    assert compared(f"{nan}fadd s0, s1, s2", f"{nan}fadd s0, s1, s2").passed
    assert not compared(f"{nan}fadd s0, s1, s2", f"{nan}fadd s0, s2, s1").passed


def test_the_caller_may_observe_more_or_less() -> None:
    assert not compared("mov x12, #1", "mov x12, #2", (*CALLER_SEES, "x12")).passed
    assert not compared("cmp x1, x1", "cmp x9, #0", ("nzcv",)).passed
    assert compared("mov x0, #1", "mov x0, #2", ("x1",)).passed


def test_nothing_decided_is_not_passed() -> None:
    for code, reason in ((".Lforever: b .Lforever", "no end within the limit"), ("udf #0", "fault")):
        comparison = compared(code, code)
        assert not comparison.passed and not comparison.differences and comparison.agreed == 0
        assert comparison.undecided == tuple(Undecided(seed, f"{reason}, at f+0x4") for seed in SEEDS)
        assert "6 undecided" in str(comparison)


def test_the_transformed_form_may_take_more_instructions() -> None:
    loop = "mov x3, #{trips}\n.Lloop: subs x3, x3, #1\nb.ne .Lloop"
    assert compared(loop.format(trips=90), loop.format(trips=180), limit=200).passed
    assert not compared(loop.format(trips=90), loop.format(trips=500), limit=200).passed


def test_calls_of_what_is_not_there_decide_nothing_and_are_named() -> None:
    comparison = compared("bl memcpy", "bl memcpy")
    assert not comparison.passed and comparison.undecided[0].reason == "it calls 'memcpy', which is not in the file"
    assert compared("nop", "bl memcpy").differences[0].after == "call of a function that is not there, at memcpy"


def test_a_function_that_steps_over_all_of_memory_is_undecided_soon() -> None:
    """A page at a time, each mapped alone, took time that grew with the square of their number."""
    walk = "mov x10, #20000\nmov x11, #0x100000\n.Lw: ldr x12, [x9]\nadd x9, x9, x11\nsubs x10, x10, #1\nb.ne .Lw"
    began = time.monotonic()
    comparison = compared(walk, walk, limit=100_000)

    assert {undecided.reason.split(",")[0] for undecided in comparison.undecided} == {
        "more memory touched than a run is given"
    }
    assert time.monotonic() - began < 20


@pytest.mark.long
def test_a_long_walk_through_memory_is_decided() -> None:
    walk = "mov x10, #0x2000\n.Lw: ldr x12, [x9], #64\nsubs x10, x10, #1\nb.ne .Lw\n"
    assert compared(walk, walk, limit=200_000).agreed == len(SEEDS)
    down = walk.replace("#64", "#-64").replace(".Lw", ".Ld")
    assert compared(down, down, limit=200_000).agreed == len(SEEDS)


def test_time_that_is_over_leaves_the_rest_undecided() -> None:
    image = assemble_image("\t.text\nf:\n\tret\n")
    comparison = compare(image, image, "f", SEEDS, limits=RunLimits(seconds=0))
    assert not comparison.passed and [undecided.seed for undecided in comparison.undecided] == list(SEEDS)
    assert "the 0 seconds for the check are over" in str(comparison)


def test_coverage_is_the_share_of_instructions_that_ran() -> None:
    assert compared("nop", "nop").coverage == 1
    assert compared("nop", "b .Lend\nnop\nnop\n.Lend:").coverage == 3 / 5


def test_the_transformed_form_may_have_another_name() -> None:
    image = assemble_image("\t.text\nf:\n\tmov x0, #1\n\tret\ng:\n\tmov x0, #1\n\tret\nh:\n\tmov x0, #2\n\tret\n")
    assert compare(image, image, "f", SEEDS, renamed="g").passed
    assert not compare(image, image, "f", SEEDS, renamed="h").passed
