"""Loops whose values fill all 32 vector registers: loads are split in them too, and results stay the same bits."""

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.equivalence import compare
from mavcg.passes.asm.loop_schedule import SchedulingEffort
from mavcg.passes.asm.tune import Tuned, tune
from mavcg.passes.asm.tuning_reports import LoopReport
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing


def _outer_product(column: int, rows: tuple[int, int], first: int) -> list[str]:
    """Eight products of a vector of columns and two of rows, into eight accumulators from v8 + first on."""
    return [f"fmla v{8 + first + n}.4s, v{column}.4s, v{rows[n // 4]}.s[{n % 4}]" for n in range(8)]


# 8x12 f32 tile, two steps of K an iteration: 24 accumulators, panels in v0 to v6, loaded a step ahead by 128-bit loads.
# v7 may be a result for all that is known of the function, so that no vector register is free.
_TILE_8X12 = [
    *("ldr q4, [x1, #32]", "ldr q5, [x0, #32]", "ldr q6, [x0, #48]"),
    *_outer_product(2, (0, 1), 0),
    "ldr q2, [x1, #48]",
    *_outer_product(3, (0, 1), 8),
    "ldr q3, [x1, #64]",
    *_outer_product(4, (0, 1), 16),
    *("ldr q4, [x1, #80]", "ldr q0, [x0, #64]", "ldr q1, [x0, #80]"),
    *_outer_product(2, (5, 6), 0),
    "ldr q2, [x1, #96]",
    *_outer_product(3, (5, 6), 8),
    "ldr q3, [x1, #112]",
    *_outer_product(4, (5, 6), 16),
    *("add x0, x0, #64", "add x1, x1, #96"),
]

# 4x4 tile of 8-bit products that are added in pairs: 16 accumulators, 8 products under way, and 8 panels. The sums of
# an iteration's last products are added in the next one.
_PAIRS = [(row, column) for column in range(2) for row in range(4)]
_TILE_S8 = [
    *(f"sadalp v{16 + n}.4s, v{8 + n}.8h" for n in range(8)),
    *("ldr q4, [x1]", "ldr q5, [x1, #16]"),
    *(f"smull v{8 + n}.8h, v{row}.8b, v{6 + column}.8b" for n, (row, column) in enumerate(_PAIRS)),
    *(f"smlal2 v{8 + n}.8h, v{row}.16b, v{6 + column}.16b" for n, (row, column) in enumerate(_PAIRS)),
    *(f"ldr q{6 + n}, [x1, #{32 + 16 * n}]" for n in range(2)),
    *(f"sadalp v{24 + n}.4s, v{8 + n}.8h" for n in range(8)),
    *(f"smull v{8 + n}.8h, v{row}.8b, v{4 + column}.8b" for n, (row, column) in enumerate(_PAIRS)),
    *(f"smlal2 v{8 + n}.8h, v{row}.16b, v{4 + column}.16b" for n, (row, column) in enumerate(_PAIRS)),
    *(f"ldr q{n}, [x0, #{16 * n}]" for n in range(4)),
    *("add x0, x0, #64", "add x1, x1, #64"),
]


# 16x12 tile of halves: 24 accumulators, two vectors of rows, and multipliers that are loaded one by one.
_TILE_F16 = [
    "ldp q8, q9, [x0], #32",
    *(
        line
        for n in range(12)
        for line in (
            f"ldr h{10 + n % 6}, [x1, #{2 * n}]",
            *(f"fmla v{(16 + 2 * n + row) % 32}.8h, v{8 + row}.8h, v{10 + n % 6}.h[0]" for row in (0, 1)),
        )
    ),
    "add x1, x1, #24",
]
_OTHERS = tuple(f"x{n}" for n in range(4, 18))  # general registers that are free


def _function(loop: list[str], live: tuple[str, ...] = (), dead: frozenset[int] = frozenset()) -> str:
    """A function of (x0, x1: panels, x2: output, x3: iterations) that stores all vector registers after the loop.

    live: general registers whose values it stores, too. dead: numbers of vector registers that it does not store.
    """
    start = [f"ldr q{n}, [x{n % 2}, #{16 * n}]" for n in range(8)] + [f"movi v{n}.4s, #1" for n in range(8, 32)]
    end = [f"str q{n}, [x2, #{16 * n}]" for n in range(32) if n not in dead]
    end += [f"str {name}, [x2, #{512 + 8 * n}]" for n, name in enumerate(live)]
    frame = [("stp d8, d9, [sp, #-64]!", "ldp d8, d9, [sp], #64")]
    frame += [
        (f"stp d{n}, d{n + 1}, [sp, #{8 * n - 64}]", f"ldp d{n}, d{n + 1}, [sp, #{8 * n - 64}]") for n in (10, 12, 14)
    ]
    lines = [*(save for save, _ in frame), *start, "1:", *loop, "subs x3, x3, #1", "b.ne 1b", *end]
    lines += [restore for _, restore in reversed(frame)] + ["ret"]
    body = "".join(f"{line}\n" if line.endswith(":") else f"\t{line}\n" for line in lines)
    return f"\t.text\n\t.globl full\n\t.type full, %function\nfull:\n{body}\t.size full, .-full\n"


def _tuned(text: str, core: str) -> tuple[Tuned, LoopReport]:
    kind = load_core(core)
    tuned = tune(text, load_timing(kind), kind.policy, SchedulingEffort(0.0))
    (report,) = tuned.functions[0].loops
    return tuned, report


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("loop", "core", "before", "most", "splits"),
    [
        (_TILE_8X12, "cortex-a55", 70, 48, 10),  # 48 products: no order can take less
        (_TILE_8X12, "cortex-a53", 92, 66, 10),
        (_TILE_8X12, "cortex-a510", 39, 38.5, 0),
        (_TILE_S8, "cortex-a55", 82, 66, 8),
        (_TILE_S8, "cortex-a53", 82, 73, 8),
        (_TILE_S8, "cortex-a510", 74, 64, 0),
    ],
    ids=["f32 a55", "f32 a53", "f32 a510", "s8 a55", "s8 a53", "s8 a510"],
)
def test_a_loop_without_a_free_vector_register_is_tuned(
    loop: list[str], core: str, before: float, most: float, splits: int
) -> None:
    tuned, report = _tuned(_function(loop), core)
    assert report.cycles_before == before and report.splits == splits
    assert report.cycles_after is not None and report.cycles_after <= most
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    images = assemble_image(_function(loop), "before"), assemble_image(tuned.text, "after")
    assert compare(*images, "full", range(4)).passed


@pytest.mark.parametrize(
    ("dead", "joined"), [(frozenset(range(8, 16)), True), (frozenset(), False)], ids=["free", "live"]
)
def test_joined_loads_and_registers_that_hold_spills_are_kept_apart(dead: frozenset[int], joined: bool) -> None:
    """A loop of halves joins its loads, and where it can gives up vector registers to hold general ones."""
    text = _function(_TILE_F16, _OTHERS, dead)
    tuned, report = _tuned(text, "cortex-a55")
    assert (".h[3]" in tuned.text, "umov" in tuned.text) == (joined, joined)
    assert report.cycles_before is not None and report.cycles_after is not None
    assert report.cycles_after < report.cycles_before
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    assert compare(assemble_image(text, "before"), assemble_image(tuned.text, "after"), "full", range(4)).passed
