"""Lines of loops against a simulated least-recently-used cache, and how they follow one another."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.predict.affine_addresses import UNKNOWN
from mavcg.choose.predict.line_traffic import KEPT, LOST, fills, runs
from mavcg.choose.predict.loop_accesses import Loop, LoopAccess
from mavcg.hardware.machine import LINE_BYTES
from tests.conftest import examples

NONE: Mapping[str, float] = {}


def access(base: str, offset: int = 0, size: int = 16, store: bool = False, **strides: float) -> LoopAccess:
    return LoopAccess(base, store, size, offset, strides, 1.0)


def nest(names: str, trips: tuple[int, ...], accesses: tuple[LoopAccess, ...], entries: float = 1.0) -> Loop:
    """A nest of loops, the outermost first; all accesses in the innermost."""
    if len(names) == 1:
        return Loop(names, trips[0], entries, accesses, ())
    inner = nest(names[1:], trips[1:], accesses, entries * trips[0])
    return Loop(names[0], trips[0], entries, (), (inner,))


def call(loop: Loop) -> Loop:
    return Loop("", 1.0, 1.0, (), (loop,))


def touched_lines(loop: Loop, at: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the lines that a loop touches, in order."""
    for iteration in range(int(loop.trips)):
        here = {**at, loop.name: iteration}
        for a in loop.accesses:
            first = a.offset + sum(int(stride) * here[name] for name, stride in a.strides.items())
            for line in range(first // LINE_BYTES, (first + a.bytes - 1) // LINE_BYTES + 1):
                yield a.base, line
        for inner in loop.inner:
            yield from touched_lines(inner, here)


def lru_misses(loop: Loop, lines: int) -> int:
    cache: OrderedDict[tuple[str, int], None] = OrderedDict()
    misses = 0
    for line in touched_lines(loop, {}):
        misses += line not in cache
        cache[line] = None
        cache.move_to_end(line)
        if len(cache) > lines:
            cache.popitem(last=False)
    return misses


STRIDES = st.sampled_from([0, 4, 16, 64, 80, 96, 256, 1000, 4096])


@settings(max_examples=examples(150, 15))
@given(
    trips=st.tuples(*[st.integers(2, 7)] * 3),
    strides=st.lists(st.tuples(STRIDES, STRIDES, STRIDES), min_size=1, max_size=3),
    offsets=st.lists(st.sampled_from([0, 16, 48, 640]), min_size=1, max_size=2),
)
def test_a_large_cache_gets_each_line_once_and_a_tiny_one_each_time(
    trips: tuple[int, ...], strides: list[tuple[int, int, int]], offsets: list[int]
) -> None:
    accesses = tuple(
        LoopAccess(f"operand {n}", False, 16, offset, dict(zip("abc", each, strict=True)), 1.0)
        for n, each in enumerate(strides)
        for offset in offsets
    )
    loop = call(nest("abc", trips, accesses))
    distinct = len(set(touched_lines(loop, {})))

    assert sum(fills(loop, 1 << 30, NONE).values()) == distinct
    # An iteration counts as the first one, which may touch a line less than one whose accesses begin within lines.
    assert distinct <= 2 * sum(fills(loop, 1, NONE).values())


@settings(max_examples=examples(100, 10))
@given(
    rows=st.integers(2, 12), columns=st.integers(2, 12), panel=st.integers(1, 40), lines=st.sampled_from([16, 64, 256])
)
def test_layer_conditions_agree_with_a_cache(rows: int, columns: int, panel: int, lines: int) -> None:
    """Rows read a panel again and again, and their own lines once: clearly inside or outside of a cache's size."""
    loop = call(
        nest(
            "abc",
            (rows, columns, panel),
            (
                access("panel", 0, 64, b=64 * panel, c=64),
                access("own", 0, 64, a=64 * columns, b=64),
            ),
        )
    )
    once = columns * panel + columns
    counted, simulated = sum(fills(loop, lines * LINE_BYTES, NONE).values()), lru_misses(loop, lines)

    if once < KEPT * lines or once > LOST * lines:
        assert counted == pytest.approx(simulated, rel=0.02, abs=2)
    else:
        assert once <= counted + 1e-6 and counted <= rows * once + 1e-6


def test_data_that_is_scattered_is_bounded_by_its_size() -> None:
    loop = call(nest("ab", (10, 10), (access("table", 0, 64, a=UNKNOWN, b=UNKNOWN),)))

    assert fills(loop, 1 << 30, NONE) == {("table", False): 100.0}
    assert fills(loop, 1 << 30, {"table": 12.0}) == {("table", False): 12.0}


def test_an_operand_that_is_stored_counts_as_stored() -> None:
    loop = call(nest("a", (8,), (access("out", a=16), access("out", store=True, a=16))))

    assert fills(loop, 1 << 20, NONE) == {("out", True): 2.0}


def test_a_prefetcher_foresees_long_runs_and_no_short_ones() -> None:
    long, short = (call(nest("ab", (4, trips), (access("x", a=1 << 20, b=16),))) for trips in (400, 4))
    lines = call(nest("ab", (4, 40), (access("x", a=1 << 20, b=256),)))
    scattered = call(nest("a", (400,), (access("x", a=UNKNOWN),)))

    assert runs(long, 4)["x"].unseen == pytest.approx(2 / 100)
    assert runs(lines, 4)["x"].unseen == pytest.approx(4 / 40)
    assert runs(short, 4)["x"].unseen == runs(scattered, 4)["x"].unseen == 1.0
    # The outer loop goes on where the inner one ends.
    assert runs(call(nest("ab", (100, 4), (access("x", a=64, b=16),))), 4)["x"].unseen == pytest.approx(2 / 100)


def test_unseen_lines_of_an_iteration_arrive_together() -> None:
    loads = tuple(access("x", offset, a=UNKNOWN) for offset in (0, 16, 4096, 8192))

    assert runs(call(nest("a", (10,), loads)), 4)["x"].overlap == 3  # the first two are of one line
    assert runs(call(nest("a", (10,), loads)), 2)["x"].overlap == 2


def test_whole_lines_are_streamed_and_parts_of_lines_are_not() -> None:
    def streamed(*stores: LoopAccess, trips: tuple[int, int] = (4, 100)) -> float:
        return runs(call(nest("ab", trips, stores)), 4)["out"].streamed

    whole = tuple(access("out", offset, store=True, a=1 << 20, b=64) for offset in (0, 16, 32, 48))
    assert streamed(*whole) == 1.0
    assert streamed(access("out", store=True, a=1 << 20, b=16)) == 1.0
    assert streamed(access("out", store=True, a=1 << 20, b=256)) == 0.0
    # Rows of 452 bytes: no line is whole after the four that a stream needs.
    assert streamed(access("out", size=4, store=True, a=460, b=4), trips=(4, 113)) < 0.3
    # More lines than are held open, piece by piece.
    apart = tuple(access("out", 4096 * n, store=True, a=1 << 20, b=16) for n in range(8))
    assert streamed(*apart) == 0.0
