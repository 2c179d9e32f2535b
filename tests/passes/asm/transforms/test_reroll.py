"""Loops of several equal steps found as loops of one: by their text, by what is left alone, and by execution."""

from random import Random

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.equivalence import compare
from mavcg.passes.asm.isa.syntax import Instr, parse_instr
from mavcg.passes.asm.loop_schedule import SchedulingEffort
from mavcg.passes.asm.transforms.reroll import reroll, sink_pointer_updates
from mavcg.passes.asm.tune import tune
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from tests.conftest import examples

TWO_STEPS = """
ldr q0, [x1]
fmla v8.4s, v0.4s, v1.s[0]
ldr q2, [x1, #16]
fmla v8.4s, v2.4s, v1.s[0]
add x1, x1, #32
subs x0, x0, #2
b.ne .Lloop
"""
LIVE = frozenset({"x0", "x1", "v1", "v8"})


def _parsed(text: str) -> list[Instr]:
    return [parse_instr(line) for line in text.strip().splitlines()]


def _rerolled(text: str, live: frozenset[str] = LIVE) -> tuple[int, list[str]] | None:
    rerolled = reroll(_parsed(text), live, live)
    return None if rerolled is None else (rerolled.steps, [" ".join(str(instr).split()) for instr in rerolled.body])


def test_the_example_of_the_docstring_holds() -> None:
    assert _rerolled(TWO_STEPS) == (
        2,
        ["ldr q0, [x1]", "fmla v8.4s, v0.4s, v1.s[0]", "add x1, x1, #16", "subs x0, x0, #1", "b.ne .Lloop"],
    )


def test_four_steps_counted_by_a_comparison_and_addressed_after_a_move() -> None:
    body = "sub x8, x8, #4\n"
    for step, (a, b) in enumerate([(0, 4), (2, 3), (4, 0), (3, 2)]):
        post = "add x2, x2, #16\n" if step == 1 else "sub x2, x2, #80\n" if step == 3 else ""
        at = 16 - 24 * step - (16 if step > 1 else 0)
        body += f"ldr q{a}, [x1], #16\nldr d{b}, [x2, #{at}]\nfmla v8.4s, v{a}.4s, v{b}.s[1]\n{post}"
    body += "cmp x9, x8\nb.ne .Lloop\n"
    assert _rerolled(body, LIVE | {"x2", "x8", "x9"}) is None  # x2 moves by 64, its accesses by 96
    steps = _rerolled(body.replace("#80", "#112"), LIVE | {"x2", "x8", "x9"})
    assert steps == (
        4,
        [
            "ldr q0, [x1]",
            "ldr d4, [x2, #16]",
            "fmla v8.4s, v0.4s, v4.s[1]",
            "add x1, x1, #16",
            "sub x2, x2, #24",
            "sub x8, x8, #1",
            "cmp x9, x8",
            "b.ne .Lloop",
        ],
    )


def test_two_steps_of_which_each_does_two() -> None:
    """Four products in a row are four steps where all is alike, and two where the lanes alternate."""
    text = """
    ldr q0, [x1]
    fmla v8.4s, v0.4s, v1.s[0]
    fmla v8.4s, v0.4s, v1.s[1]
    ldr q0, [x1, #16]
    fmla v8.4s, v0.4s, v1.s[0]
    fmla v8.4s, v0.4s, v1.s[1]
    add x1, x1, #32
    subs x0, x0, #4
    b.ne .Lloop
    """
    rerolled = _rerolled(text)
    assert rerolled is not None and rerolled[0] == 2 and "subs x0, x0, #2" in rerolled[1] and len(rerolled[1]) == 6


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v2.4s, v1.s[0]", "v2.4s, v1.s[1]"),  # another lane
        ("v2.4s, v1.s[0]", "v1.4s, v2.s[0]"),  # other factors
        ("fmla v8.4s, v2.4s", "fmls v8.4s, v2.4s"),
        ("#16]", "#20]"),  # not one step on
        ("#16]", "#0]"),  # the same again
        ("add x1, x1, #32", "add x1, x1, #48"),
        ("add x1, x1, #32", "add x1, x1, x5"),
        ("ldr q2", "ldr d2"),
        ("ldr q2, [x1, #16]", "ldr q2, [x3, #16]"),  # it loads the same each time
        ("fmla v8.4s, v2.4s", "fmla v9.4s, v2.4s"),
        ("fmla v8.4s, v2.4s, v1.s[0]", "fmul v8.4s, v2.4s, v1.s[0]"),
        ("ldr q2, [x1, #16]", "ldr q2, [x1, #16]\nadd v1.4s, v1.4s, v2.4s"),  # what all steps read changes
        ("ldr q2, [x1, #16]", "ldr q2, [x1, #16]\nstr q2, [x3]"),
        ("ldr q2, [x1, #16]", "ldr q2, [x1, #16]\nfadd v3.4s, v2.4s, v2.4s"),  # work of one step only
        ("ldr q2, [x1, #16]", "mov x5, x1\nldr q2, [x5, #16]"),
        ("ldr q2, [x1, #16]", "ldr q2, [x1, x0]"),
        ("ldr q2, [x1, #16]", "ld1 { v2.s }[1], [x1]"),
        ("ldr q2, [x1, #16]", "ldr q2, [x1, #16]\ncsel x5, x6, x7, eq"),
        ("subs x0, x0, #2", "subs x0, x0, #1"),
        ("subs x0, x0, #2", "subs x0, x0, #6"),  # no power of two: other counts end too
        ("b.ne", "b.gt"),
        ("b.ne", "b.hi"),
        ("b.ne", "b.pl"),
    ],
)
def test_what_is_no_equal_steps_is_left_alone(old: str, new: str) -> None:
    assert old in TWO_STEPS
    live = LIVE | {"v9", "x3", "x6", "x7"}
    assert _rerolled(TWO_STEPS, live) is not None
    assert _rerolled(TWO_STEPS.replace(old, new), live) is None


def test_values_live_behind_the_loop_stop_it() -> None:
    assert _rerolled(TWO_STEPS, LIVE | {"v2"}) is None  # the last step's load
    assert _rerolled(TWO_STEPS, LIVE | {"nzcv"}) is None
    assert _rerolled(TWO_STEPS.replace("ldr q0, [x1]", "fneg v0.4s, v1.4s").replace("ldr q2, [x1, #16]", "nop")) is None


def test_a_loop_that_loads_nothing_is_left_alone() -> None:
    """An odd count would never end the input loop, harmlessly; it would end the loop of one step."""
    text = "fadd v8.4s, v8.4s, v1.4s\nfadd v8.4s, v8.4s, v1.4s\nsubs x0, x0, #2\nb.ne .Lloop\n"
    assert _rerolled(text) is None


def test_moves_come_last() -> None:
    sunk = sink_pointer_updates(
        _parsed("""
        ldr q0, [x1], #16
        ldr q2, [x1], #16
        fmla v8.4s, v0.4s, v2.s[0]
        subs x0, x0, #1
        b.hi .Lloop
    """),
        LIVE,
    )
    assert sunk is not None
    assert [" ".join(str(instr).split()) for instr in sunk] == [
        "ldr q0, [x1]",
        "ldr q2, [x1, #16]",
        "fmla v8.4s, v0.4s, v2.s[0]",
        "add x1, x1, #32",
        "subs x0, x0, #1",
        "b.hi .Lloop",
    ]
    assert sink_pointer_updates(_parsed("ldr q0, [x1], #16\nstr q0, [x2]\nsubs x0, x0, #1\nb.ne .Lloop"), LIVE) is None


def _unrolled_function(dice: Random, name: str) -> str:
    """A sum over packed panels as a compiler unrolls it: steps in any registers, loads early, some joined."""
    steps, rows, sums = dice.choice([2, 4]), dice.randint(1, 2), dice.randint(2, 6)
    doubled = dice.choice([1, 1, 2])  # products of a sum in each step
    kind = dice.choice(["fmla v{}.4s, v{}.4s, v{}.s[{}]", "sdot v{}.4s, v{}.16b, v{}.4b[{}]"])
    lanes = [[dice.randrange(4) for _ in range(doubled)] for _ in range(sums)]
    pick = [[(dice.randrange(rows), dice.randrange(2)) for _ in range(doubled)] for _ in range(sums)]
    start = dice.choice([0, 16, -32])
    lines: list[str] = []
    for step in range(steps):
        free = dice.sample(range(16, 32), rows + 2)
        loads = [f"ldr q{v}, [x1, #{start + 16 * (rows * step + row)}]" for row, v in enumerate(free[:rows])]
        by = free[rows:]
        at = 32 * step
        loads += dice.choice(
            [
                [f"ldp q{by[0]}, q{by[1]}, [x2, #{at}]"],
                [f"ldr q{by[1]}, [x2, #{at + 16}]", f"ldr q{by[0]}, [x2, #{at}]"],
            ]
        )
        dice.shuffle(loads)
        products = [
            kind.format(number, free[pick[number][each][0]], by[pick[number][each][1]], lanes[number][each])
            for number in dice.sample(range(sums), sums)
            for each in range(doubled)
        ]
        lines += [*loads, *products]
    up = dice.random() < 0.3
    lines += [f"add x1, x1, #{16 * rows * steps}", f"add x2, x2, #{32 * steps}"]
    lines += [f"add x3, x3, #{steps}", "cmp x3, x4"] if up else [f"subs x3, x3, #{steps}"]
    count = steps * dice.randint(1, 7)
    before = [f"mov x3, #{0 if up else count}", f"mov x4, #{count}"]
    after = [f"str q{number}, [x0, #{16 * number}]" for number in range(sums)] + ["stp x1, x2, [x0, #256]", "ret"]
    body = [*before, f".L{name}:", *lines, f"b.ne .L{name}", *after]
    head = [f".globl {name}", f".type {name},%function", f"{name}:"]
    return "".join(f"{line}\n" for line in [*head, *body, f".size {name}, .-{name}"])


@pytest.mark.parametrize("core", ["cortex-a53", "cortex-a55"])
def test_random_unrolled_sums_stay_the_same(core: str) -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    dice = Random(f"steps for {core}")
    names = [f"f{number}" for number in range(examples(12, 3))]
    text = "\t.arch armv8.2-a+dotprod\n\t.text\n" + "".join(_unrolled_function(dice, name) for name in names)
    profile = load_core(core)
    tuned = tune(text, load_timing(profile), profile.policy, SchedulingEffort(0.0, None, 0.2))
    images = assemble_image(text, "before"), assemble_image(tuned.text, "after")
    compared = [compare(*images, name, range(3)) for name in names]
    assert [str(c) for c in compared if not c.passed] == []
    loops = [loop for function in tuned.functions for loop in function.loops]
    assert len(loops) == len(names) and sum(loop.rerolled > 1 for loop in loops) >= len(names) / 2
    for loop in loops:
        assert loop.initiation_interval is not None and loop.cycles_after is not None
        if loop.scheduled_by != "kept":  # nothing is faster than its interval
            assert loop.cycles_after * loop.unrolled >= loop.initiation_interval * loop.rerolled - 1e-9
