"""Scalars that only multiply as lanes of one load: when, what stays, and that the results are the same."""

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.equivalence import compare
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.isa.syntax import Instr, parse_instr
from mavcg.passes.asm.transforms.lane_loads import join_scalar_loads
from mavcg.passes.asm.transforms.rename_registers import NoRegister, allocate

LIVE = frozenset({"v0", "v1", "v28", "x11", "x3"})
FOUR = """
ldr s24, [x11]
ldr s25, [x11, #4]
ldr s26, [x11, #8]
ldr s27, [x11, #12]
fmla v0.4s, v28.4s, v24.s[0]
fmla v1.4s, v28.4s, v25.s[0]
fmla v0.4s, v28.4s, v26.s[0]
fmla v1.4s, v28.4s, v27.s[0]
fmls v1.4s, v28.4s, v27.s[0]
"""


def _parsed(text: str) -> list[Instr]:
    return [parse_instr(line) for line in text.strip().splitlines()]


def _printed(instrs: tuple[Instr, ...]) -> list[str]:
    return [" ".join(str(instr).split()) for instr in instrs]


def test_four_neighbours() -> None:
    assert _printed(join_scalar_loads(_parsed(FOUR), LIVE)) == [
        "ldr q%0, [x11]",
        "fmla v0.4s, v28.4s, v%0.s[0]",
        "fmla v1.4s, v28.4s, v%0.s[1]",
        "fmla v0.4s, v28.4s, v%0.s[2]",
        "fmla v1.4s, v28.4s, v%0.s[3]",
        "fmls v1.4s, v28.4s, v%0.s[3]",
    ]


def test_what_fills_no_vector_goes_by_twos_where_pairs_are_joined() -> None:
    """Six neighbours are a vector and a pair, a scalar on its own stays, and two doubles were a vector before."""
    six = [f"ldr s{16 + n}, [x11, #{4 * n}]" for n in range(6)] + ["ldr s22, [x3]", "ldr d23, [x3, #16]"]
    products = [f"fmla v0.4s, v28.4s, v{16 + n}.s[0]" for n in range(7)] + ["fmla v1.2d, v28.2d, v23.d[0]"]
    joined = _printed(join_scalar_loads(_parsed("\n".join(six + products)), LIVE, pairs=True))
    assert joined[:4] == ["ldr q%0, [x11]", "ldr d%1, [x11, #16]", "ldr s22, [x3]", "ldr d23, [x3, #16]"]
    lanes = [*(f"v%0.s[{n}]" for n in range(4)), "v%1.s[0]", "v%1.s[1]", "v22.s[0]", "v23.d[0]"]
    assert [line.split(", ")[-1] for line in joined[4:]] == lanes


def test_pairs_in_any_order_behind_a_move_and_two_doubles() -> None:
    joined = join_scalar_loads(
        _parsed("""
        ldp s26, s27, [x11, #-8]
        add x11, x11, #64
        fmla v0.4s, v28.4s, v27.s[0]
        ldp s24, s25, [x11, #-80]
        fmul v1.4s, v28.4s, v24.s[0]
        fmla v1.4s, v28.4s, v25.s[0]
        fmla v1.4s, v28.4s, v26.s[0]
        ldr d24, [x3, #8]
        ldr d25, [x3]
        fmla v0.2d, v28.2d, v24.d[0]
        fmla v0.2d, v28.2d, v25.d[0]
    """),
        LIVE,
    )
    assert _printed(joined) == [
        "ldr q%1, [x11, #-16]",
        "add x11, x11, #64",
        "fmla v0.4s, v28.4s, v%1.s[3]",
        "fmul v1.4s, v28.4s, v%1.s[0]",
        "fmla v1.4s, v28.4s, v%1.s[1]",
        "fmla v1.4s, v28.4s, v%1.s[2]",
        "ldr q%0, [x3]",
        "fmla v0.2d, v28.2d, v%0.d[1]",
        "fmla v0.2d, v28.2d, v%0.d[0]",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[x11, #4]", "[x11, #16]"),  # a hole
        ("[x11, #4]", "[x3, #4]"),  # another pointer
        ("ldr s25, [x11, #4]", "ldr d25, [x11, #4]"),
        ("v28.4s, v25.s[0]", "v28.4s, v25.s[1]"),  # the zero beside it
        ("fmla v1.4s, v28.4s, v25.s[0]", "fmla v1.4s, v25.4s, v28.s[0]"),
        ("fmla v1.4s, v28.4s, v25.s[0]", "fmla v25.4s, v28.4s, v25.s[0]"),
        ("fmla v1.4s, v28.4s, v25.s[0]", "fadd v1.4s, v28.4s, v25.4s"),
        ("fmla v1.4s, v28.4s, v25.s[0]", "nop"),  # no one reads it, or someone behind the code
        ("ldr s27, [x11, #12]", "ldr s27, [x11, #12]\nstr q28, [x3]"),
        ("ldr s27, [x11, #12]", "mov x11, x3\nldr s27, [x11, #12]"),
    ],
)
def test_what_stays_as_it_is(old: str, new: str) -> None:
    assert old in FOUR
    changed = _parsed(FOUR.replace(old, new))
    assert join_scalar_loads(changed, LIVE) == tuple(changed)


def test_a_value_that_is_live_later_keeps_its_register() -> None:
    assert join_scalar_loads(_parsed(FOUR), LIVE | {"v25"}) == tuple(_parsed(FOUR))


HALVES = "\n".join(
    [f"ldr h{8 + n}, [x11, #{2 * n}]" for n in range(8)]
    + [f"fmla v{n % 2}.8h, v28.8h, v{8 + n}.h[0]" for n in range(8)]
)


def test_eight_halves_are_a_vector_in_a_register_that_lanes_of_halves_reach() -> None:
    joined = join_scalar_loads(_parsed(HALVES), LIVE)
    assert _printed(joined) == [
        "ldr q%0, [x11]",
        *(f"fmla v{n % 2}.8h, v28.8h, v%0.h[{n}]" for n in range(8)),
    ]
    busy = LIVE | {f"v{n}" for n in range(8)}
    with pytest.raises(NoRegister):
        allocate(with_effects(joined), busy, busy)
    assert "ldr q8, [x11]" in _printed(allocate(with_effects(joined), busy, busy, frozenset({"v8", "v24"})))


@pytest.mark.parametrize("scalars", [FOUR, HALVES], ids=["singles", "halves"])
def test_results_are_the_same(scalars: str) -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    new = allocate(with_effects(join_scalar_loads(_parsed(scalars), LIVE)), LIVE, LIVE)
    assert sum(instr.mnemonic == "ldr" for instr in new) == 1
    texts = [
        "\t.text\n\t.globl f\n\t.type f,%function\nf:\n"
        + "".join(f"\t{line}\n" for line in lines)
        + "\tstp q0, q1, [x3]\n\tret\n\t.size f, .-f\n"
        for lines in (scalars.strip().splitlines(), _printed(new))
    ]
    before, after = (assemble_image(text, "lanes") for text in texts)
    comparison = compare(before, after, "f", range(8), observed=("x0", "x3", "x11"))
    assert comparison.passed, comparison
