"""Macro-tiles and plans: they print and parse, and refuse what makes no sense."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.tile_plan import MacroTile, Order, TilePlan

NUMBERS = st.integers(0, 1 << 20)
MACROS = st.builds(
    MacroTile, rows=NUMBERS, out_channels=NUMBERS, k_block=NUMBERS, order=st.sampled_from(Order), pack_lanes=NUMBERS,
    prefetch_bytes=NUMBERS, task_rows=st.integers(1, 1 << 20), tile_channels=NUMBERS, parts=st.integers(1, 1 << 20),
    claim_rows=NUMBERS,
)  # fmt: skip
NAMES = st.from_regex(r"[a-z][a-z0-9_.-]{0,20}", fullmatch=True)


@given(st.dictionaries(st.tuples(NAMES, NAMES), MACROS, max_size=5))
def test_a_plan_parses_from_its_print(tiles: dict[tuple[str, str], MacroTile]) -> None:
    plan = TilePlan(tiles)

    assert TilePlan.parse(str(plan)) == plan
    assert [(kernel, label) for kernel, label, _ in plan] == list(tiles)


def test_a_plan_reads_as_a_table() -> None:
    plan = TilePlan({("conv2d_f32_1", "cortex-a55"): MacroTile(4, 0, 128, Order.CHANNELS, 8, 4096, 2)})

    assert str(plan) == (
        "conv2d_f32_1 cortex-a55 rows=4 channels=all k=128 order=channels-outer lanes=8 prefetch=4096 task=2 "
        "register=chosen parts=1 claim=least\n"
    )
    assert plan.task_rows("conv2d_f32_1") == 2 and plan.task_rows("other") is None
    assert plan.of("conv2d_f32_1", "generic") is None


@pytest.mark.parametrize(
    "text, said",
    [
        ("conv generic\n", "line 1 'conv generic': is not KERNEL VERSION MACRO-TILE"),
        ("conv generic rows=1\n", "macro-tile 'rows=1': is not written as 'rows=all "),
        (f"conv generic {MacroTile()}\nconv generic {MacroTile()}\n", "line 2: conv generic is there twice"),
        (f"conv generic {MacroTile()}".replace("task=1", "task=0"), "task_rows is 0; a task has 1 row or more"),
        (f"conv generic {MacroTile()}".replace("parts=1", "parts=0"), "parts is 0; a row of work has 1 part or more"),
    ],
)
def test_other_texts_are_refused(text: str, said: str) -> None:
    with pytest.raises(MavcgError, match=said):
        TilePlan.parse(text)


@pytest.mark.parametrize(
    "name", ["rows", "out_channels", "k_block", "pack_lanes", "prefetch_bytes", "tile_channels", "claim_rows"]
)
def test_nothing_is_negative(name: str) -> None:
    with pytest.raises(MavcgError, match=f"{name} is -1"):
        replace(MacroTile(), **{name: -1})  # type: ignore[arg-type]
