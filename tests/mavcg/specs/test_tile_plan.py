"""Macro-tiles and plans: they print and parse, and refuse what makes no sense."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.kernels.block_weights.spec import Lines, QuantizedBlocks
from mavcg.specs.tile_plan import MacroTile, Order, TilePlan, worthwhile_chunk_rows

NUMBERS = st.none() | st.integers(1, 1 << 20)
MACROS = st.builds(
    MacroTile,
    mc=NUMBERS,
    nc=NUMBERS,
    kc=NUMBERS,
    order=st.sampled_from(Order),
    panel_channels=NUMBERS,
    prefetch_distance_bytes=NUMBERS,
    call_rows=st.integers(1, 1 << 20),
    nr=NUMBERS,
    parts=st.integers(1, 1 << 20),
    min_chunk_rows=NUMBERS,
)
NAMES = st.from_regex(r"[a-z][a-z0-9_.-]{0,20}", fullmatch=True)


@given(st.dictionaries(st.tuples(NAMES, NAMES), MACROS, max_size=5))
def test_a_plan_parses_from_its_print(tiles: dict[tuple[str, str], MacroTile]) -> None:
    plan = TilePlan(tiles)

    assert TilePlan.parse(str(plan)) == plan
    assert [(kernel, label) for kernel, label, _ in plan] == list(tiles)


def test_a_plan_reads_as_a_table() -> None:
    plan = TilePlan({("conv2d_f32_1", "cortex-a55"): MacroTile(4, None, 128, Order.CHANNELS, 8, 4096, 2)})

    assert str(plan) == (
        "conv2d_f32_1 cortex-a55 mc=4 nc=all kc=128 order=channels-outer panel=8 prefetch=4096 call=2 "
        "nr=chosen parts=1 chunk=default\n"
    )
    assert plan.call_rows("conv2d_f32_1") == 2 and plan.call_rows("other") is None
    assert plan.of("conv2d_f32_1", "generic") is None


def test_the_form_before_is_read() -> None:
    old = "rows={} channels=all k=128 order=channels-outer lanes={} prefetch={} task=2 register={} parts=3 claim={}"

    assert MacroTile.parse(old.format(4, 8, 4096, 16, 5)) == MacroTile(
        4, None, 128, Order.CHANNELS, 8, 4096, 2, 16, 3, 5
    )
    assert MacroTile.parse(old.format("all", 0, 0, "chosen", "least")) == MacroTile(
        kc=128, order=Order.CHANNELS, call_rows=2, parts=3
    )


@pytest.mark.parametrize(
    "text, said",
    [
        ("conv generic\n", "line 1 'conv generic': is not KERNEL VERSION MACRO-TILE"),
        ("conv generic mc=1\n", "macro-tile 'mc=1': is not written as 'mc=all "),
        (f"conv generic {MacroTile()}\nconv generic {MacroTile()}\n", "line 2: conv generic appears twice"),
        (f"conv generic {MacroTile()}".replace("call=1", "call=0"), "call_rows is 0; a call has 1 row or more"),
        (f"conv generic {MacroTile()}".replace("parts=1", "parts=0"), "parts is 0; a row of work has 1 part or more"),
    ],
)
def test_other_texts_are_refused(text: str, said: str) -> None:
    with pytest.raises(MavcgError, match=said):
        TilePlan.parse(text)


@pytest.mark.parametrize(
    "name", ["mc", "nc", "kc", "panel_channels", "prefetch_distance_bytes", "nr", "min_chunk_rows"]
)
def test_nothing_is_negative_or_0(name: str) -> None:
    with pytest.raises(MavcgError, match=f"{name} is -1"):
        replace(MacroTile(), **{name: -1})  # type: ignore[arg-type]
    with pytest.raises(MavcgError, match=f"{name} is 0"):
        replace(MacroTile(), **{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "length", "chunk"), [(128, 64, 64), (64, 512, 11), (10, 64, 10), (0, 64, 0)])
def test_chunks_have_about_as_many_rows(rows: int, length: int, chunk: int) -> None:
    """Some 98 rows of 64 elements, or 13 of 512, are worth a chunk; 128 rows are two equal ones, 64 an even number."""
    assert worthwhile_chunk_rows(QuantizedBlocks(Lines(rows, length, length, 1), 32, 1)) == chunk
