"""Parts of the hardware in Amaranth's simulator, beside the arithmetic of NumPy and Python."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="Amaranth is not installed: pip install 'mavcg[rtl]'")

from amaranth import Module, Signal, signed
from amaranth.sim import Simulator

from mavcg.accelerators.fixed_point import ROUNDINGS, shift_round
from mavcg.accelerators.rtl.memories import funnel
from mavcg.accelerators.rtl.results import STAGES, Finish, requantize
from mavcg.accelerators.rtl.sizes import RtlSizes
from mavcg.accelerators.rtl.walks import blocks_of, tile_walk

SIZES = RtlSizes(word=4, rows=2, banks=8, feature_words=4096, weight_words=512, port_bytes=1, rounding="half_up")


def run(m: Module, steps: Callable[[Any], Any]) -> None:
    """Run an asynchronous testbench of a clocked module."""
    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(steps)
    simulator.run()


def edges() -> Iterator[tuple[int, int, int, int]]:
    """Sums, shifts, leaky and slope: around the halves of a shift, at the ends of 32 bits, with shifts to the left."""
    for shift in (-3, 0, 1, 7, 31, 63):
        half = 1 << max(0, min(shift, 30) - 1)
        for total in (0, -1, half, -half, -half - 1, 3 * half, -3 * half, 2**31 - 1, -(2**31)):
            yield total, shift, total & 1, 26
            yield total, shift, 0, 0
    yield from ((5, -64, 0, 0), (-5, -70, 0, 0), (1, -62, 0, 0), (3, -63, 0, 0), (-7, -128, 0, 0), (7, 127, 1, 511))


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_requantized(rounding: str) -> None:
    total, shift = Signal(signed(32)), Signal(signed(8))
    leaky, slope, lo, hi, zero = Signal(), Signal(9), Signal(signed(8)), Signal(signed(8)), Signal(signed(8))
    m = Module()
    result = requantize(m, "r", replace(SIZES, rounding=rounding), total, shift, Finish(lo, hi, leaky, slope, zero))
    cases = list(edges())

    def expected(case: tuple[int, int, int, int]) -> int:
        sums = np.asarray([case[0]], np.int64)
        slopes = case[2] and case[0] < 0
        exact = shift_round(sums * case[3], case[1] + 8, rounding) if slopes else shift_round(sums, case[1], rounding)
        return min(max(int(exact[0]) - 7, -100), 101)

    async def steps(ctx: Any) -> None:
        ctx.set(lo, -100)
        ctx.set(hi, 101)
        ctx.set(zero, -7)
        for index in range(len(cases) + STAGES):
            if index >= STAGES:
                assert ctx.get(result) == expected(cases[index - STAGES]), cases[index - STAGES]
            for signal, value in zip((total, shift, leaky, slope), cases[min(index, len(cases) - 1)], strict=True):
                ctx.set(signal, value)
            await ctx.tick()

    run(m, steps)


def test_funnel_keeps_the_bytes_in_order() -> None:
    chance = random.Random(3)
    comes, data, count, need = Signal(), Signal(24), Signal(2), Signal(3)
    m = Module()
    f = funnel(m, "f", 4, (comes, data, count), need)
    given = [chance.randrange(256) for _ in range(60)]
    taken: list[int] = []

    async def steps(ctx: Any) -> None:
        at = 0
        while len(taken) < len(given):
            wanted = min(chance.randint(1, 4), len(given) - len(taken))
            ctx.set(need, wanted)
            takes = bool(ctx.get(f.has_word)) and chance.random() < 0.7
            ctx.set(f.take, takes)
            if takes:
                word = ctx.get(f.word)
                assert word >> (8 * wanted) == 0
                taken.extend(word >> (8 * i) & 255 for i in range(wanted))
            size = min(chance.randint(1, 3), len(given) - at)
            sends = size > 0 and bool(ctx.get(f.ready)) and chance.random() < 0.7
            ctx.set(comes, sends)
            if sends:
                # What is above the count must not matter.
                ctx.set(data, int.from_bytes(bytes([*given[at : at + size], 99, 99][:3]), "little"))
                ctx.set(count, size)
                at += size
            await ctx.tick()

    run(m, steps)

    assert taken == given


@pytest.mark.parametrize("repeat", [None, (1, 1, 0, 0), (3, 2, 1, 1), (2, 3, 0, 2)])
def test_walks_visit_a_tile_in_order(repeat: tuple[int, ...] | None) -> None:
    first, row, block, rows, columns, blocks = 7, 20, 300, 3, 4, 2
    names = ("factor_rows", "factor_columns", "phase_row", "phase_column")
    m = Module()
    fields = None
    if repeat is not None:
        fields = {name: Signal(10, init=value) for name, value in zip(names, repeat, strict=True)}
    sizes = [Signal(24, init=value) for value in (first, row, block, rows, columns, blocks)]
    walk = tile_walk(m, "w", (sizes[0], sizes[1], sizes[2]), (sizes[3], sizes[4], sizes[5]), fields)
    factor_rows, factor_columns, phase_row, phase_column = repeat or (1, 1, 0, 0)
    expected = [
        first + (y + phase_row) // factor_rows * row + (x + phase_column) // factor_columns + b * block
        for y in range(rows)
        for x in range(columns)
        for b in range(blocks)
    ]
    seen = []

    async def steps(ctx: Any) -> None:
        ctx.set(walk.begin, 1)
        await ctx.tick()
        ctx.set(walk.begin, 0)
        ctx.set(walk.step, 1)
        while ctx.get(walk.active):
            seen.append(ctx.get(walk.address))
            assert ctx.get(walk.last) == (len(seen) == len(expected))
            await ctx.tick()

    run(m, steps)

    assert seen == expected


@pytest.mark.parametrize("word", [4, 12, 16, 24])
def test_blocks_are_divided_exactly(word: int) -> None:
    count = Signal(20)
    result = Signal(20)
    m = Module()
    m.d.comb += result.eq(blocks_of(count, replace(SIZES, word=word)))

    async def steps(ctx: Any) -> None:
        for value in (1, word - 1, word, word + 1, 1000 * word, 1000 * word + 1, (1 << 20) - word, (1 << 20) - 1):
            ctx.set(count, value)
            assert ctx.get(result) == -(-value // word)

    simulator = Simulator(m)
    simulator.add_testbench(steps)
    simulator.run()
