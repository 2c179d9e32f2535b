"""Rows computed just before they are read: every byte that a part reads is the one that was written for it."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.memory.row_demand import ByteAccess, UnitStep
from mavcg.memory.row_schedule import schedule_rows, segment_cost
from mavcg.memory.row_segments import all_segments, blocked_steps, cheapest_cuts, cheapest_within, least_peak
from mavcg.memory.row_windows import Firing, Move, RowSchedule
from tests.conftest import examples


@dataclass(frozen=True)
class Network:
    """A network of rows: each step writes a buffer of its own from rows of earlier ones."""

    steps: tuple[UnitStep, ...]
    sizes: dict[str, int]
    outputs: tuple[str, ...]


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Windows, strides, residuals, several readers, steps that read all at once, steps in place."""
    steps: list[UnitStep] = []
    sizes: dict[str, int] = {}
    rows: dict[str, tuple[int, int]] = {"input": (draw(st.integers(6, 24)), draw(st.integers(1, 100)))}
    for number in range(draw(st.integers(1, 7))):
        name, sources = f"b{number}", draw(st.lists(st.sampled_from(sorted(rows)), min_size=1, max_size=2, unique=True))
        length = draw(st.integers(1, 100))
        kernel, stride = draw(st.integers(1, 4)), draw(st.integers(1, 2))
        units = min((rows[source][0] - kernel) // stride + 1 for source in sources)
        if units < 1 or draw(st.integers(0, 7)) == 0:
            reads = tuple(ByteAccess(s, 0, 0, rows[s][0] * rows[s][1]) for s in sources)
            steps.append(UnitStep(1, (*reads, ByteAccess(name, 0, 0, 3 * length, True)), 1))
            rows[name], sizes[name] = (3, length), 3 * length
            continue
        reads = tuple(ByteAccess(s, 0, stride * rows[s][1], kernel * rows[s][1]) for s in sources)
        steps.append(UnitStep(units, (*reads, ByteAccess(name, 0, length, length, True)), draw(st.integers(1, 9))))
        rows[name], sizes[name] = (units, length), units * length
        if draw(st.integers(0, 4)) == 0:
            own = ByteAccess(name, 0, length, length)
            steps.append(UnitStep(units, (own, replace(own, written=True)), draw(st.integers(1, 9))))
    return Network(tuple(steps), sizes, tuple(draw(st.sets(st.sampled_from(sorted(sizes))))) or (sorted(sizes)[-1],))


def execute(network: Network, schedule: RowSchedule) -> None:
    """Run the phases on windows of bytes, each of which says what it is: (byte of the buffer, number of its writer)."""
    writers = {
        b: [n for n, s in enumerate(network.steps) for a in s.accesses if a.written and a.buffer == b]
        for b in network.sizes
    }
    memory: dict[str, dict[int, tuple[int, int]]] = {b: {} for b in network.sizes}
    done = [0] * len(network.steps)
    for time, phase in enumerate(schedule.phases):
        if isinstance(phase, Move):
            assert phase.source - phase.target >= phase.size > 0
            assert phase.target >= 0 and phase.source + phase.size <= schedule.windows[phase.buffer]
            own = memory[phase.buffer]
            for byte in range(phase.size):
                if phase.source + byte in own:
                    own[phase.target + byte] = own[phase.source + byte]
            continue
        assert phase.begin == done[phase.step]
        done[phase.step] = phase.end
        for unit in range(phase.begin, phase.end):
            for access in sorted(network.steps[phase.step].accesses, key=lambda a: a.written):
                b, start = access.buffer, access.begin + unit * access.step
                if b not in network.sizes:
                    continue
                first, last = schedule.lifetimes[b]
                assert first <= time <= last
                for byte in range(start, min(start + access.extent, network.sizes[b])):
                    at = byte - phase.origins[b]
                    assert 0 <= at < schedule.windows[b]
                    if access.written:
                        memory[b][at] = byte, phase.step
                    else:
                        before = [n for n in writers[b] if n < phase.step]
                        assert memory[b].get(at) == (byte, before[-1])
    for number, step in enumerate(network.steps):
        if any(access.written and access.buffer in network.outputs for access in step.accesses):
            assert done[number] == step.units


@settings(max_examples=examples(150, 25))
@given(networks(), st.data())
def test_every_byte_that_is_read_is_there(network: Network, data: st.DataObject) -> None:
    slack = data.draw(st.sampled_from((0.0, 0.5, 2.0)))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(network.steps)))))
    whole = schedule_rows(network.steps, network.sizes, network.outputs, cuts, slack)

    execute(network, whole)
    assert all(whole.windows[b] <= -(-size // 64) * 64 for b, size in network.sizes.items())


@settings(max_examples=examples(60, 10))
@given(networks(), st.sampled_from((1, 64, 300)))
def test_segments_keep_their_peak(network: Network, block_bytes: int) -> None:
    """The costs of segments are those of their schedule."""
    unit_bytes = [max(a.step or a.extent for a in step.accesses if a.written) for step in network.steps]
    segments = all_segments(network.steps, unit_bytes, network.sizes, network.outputs, (block_bytes,))
    limit = least_peak(segments)
    path = cheapest_within(segments, limit)
    assert path is not None and cheapest_within(segments, limit - 1) is None
    assert [segment.end for segment in path] == [*(s.begin for s in path[1:]), len(network.steps)]

    steps = blocked_steps(network.steps, unit_bytes, [each.steps for each in path])
    schedule = schedule_rows(steps, network.sizes, network.outputs, [each.begin for each in path])
    execute(replace(network, steps=tuple(steps)), schedule)
    live = [
        sum(schedule.windows[b] for b, (first, last) in schedule.lifetimes.items() if first <= time <= last)
        for time in range(len(schedule.phases))
    ]
    assert max(live) <= limit


def chain(rows: int, length: int, layers: int, window: int = 3) -> Network:
    """Convolutions of three rows, or another window, with stride 1, one behind the other."""
    steps, sizes = [], {}
    for n in range(layers):
        source, units = f"b{n - 1}" if n else "input", rows - (window - 1) * (n + 1)
        reads = ByteAccess(source, 0, length, window * length)
        steps.append(UnitStep(units, (reads, ByteAccess(f"b{n}", 0, length, length, True)), 1))
        sizes[f"b{n}"] = units * length
    return Network(tuple(steps), sizes, (f"b{layers - 1}",))


def test_a_chain_takes_three_rows_of_each_layer() -> None:
    network = chain(100, 64, 5)
    schedule = schedule_rows(network.steps, network.sizes, network.outputs)

    assert [schedule.windows[f"b{n}"] for n in range(4)] == [3 * 64] * 4
    assert [p for p in schedule.phases if isinstance(p, Firing)][:6] == [
        Firing(0, n, n + 1, {"b0": 0}) for n in range(3)
    ] + [
        Firing(1, 0, 1, {"b0": 0, "b1": 0}),
        Firing(0, 3, 4, {"b0": 64}),
        Firing(1, 1, 2, {"b0": 64, "b1": 0}),
    ]


def test_a_larger_window_moves_less() -> None:
    network = chain(100, 64, 5)
    moved = [schedule_rows(network.steps, network.sizes, network.outputs, (), s).moved_bytes for s in (0.0, 1.0, 3.0)]

    assert moved[0] > moved[1] > moved[2] > 0


def test_long_chains() -> None:
    """Calls within each other grow with the number of layers; Python's limit does not stop them."""
    network = chain(3, 64, 1200, window=1)
    assert len(schedule_rows(network.steps, network.sizes, network.outputs).phases) == 3600


def test_the_narrowest_places_are_cut() -> None:
    sizes = {"wide": 1000, "narrow": 10, "again": 1000, "y": 10}
    names = ["input", *sizes]
    steps = tuple(
        UnitStep(1, (ByteAccess(a, 0, 0, sizes.get(a, 5)), ByteAccess(b, 0, 0, sizes[b], True)), 1)
        for a, b in zip(names, names[1:], strict=False)
    )
    assert cheapest_cuts(steps, sizes) == [0, 2, 4]
    cost = segment_cost(steps, sizes, 0, 2, ("y",))
    assert (cost.peak, cost.phases, cost.moved_bytes) == (1024 + 64, 2, 0)


@pytest.mark.parametrize("limit", [0, 63])
def test_no_segments_within_a_limit(limit: int) -> None:
    network = chain(20, 64, 2)
    segments = all_segments(network.steps, [64, 64], network.sizes, network.outputs, (64,))
    assert cheapest_within(segments, limit) is None


def test_a_border_is_written_just_before_the_image_inside_it() -> None:
    """Borders need nothing. Written before all that their images are computed from, they kept three images live."""
    lines, row = 8, 64  # of an image inside its border
    steps, sizes, source = [], dict[str, int](), "input"
    for name in ("first", "second", "third"):
        sizes[name] = (lines + 2) * row
        border = ByteAccess(name, 0, (lines + 1) * row, row, True)
        inside = ByteAccess(name, row, row, row, True)
        steps += [UnitStep(2, (border,), 2), UnitStep(lines, (ByteAccess(source, 0, row, 3 * row), inside), lines)]
        source = name
    steps.append(UnitStep(1, (ByteAccess("third", 0, 0, sizes["third"]), ByteAccess("out", 0, 0, row, True)), 1))
    sizes["out"] = row

    schedule = schedule_rows(steps, sizes, ("out",), (), 0.0)

    assert [phase.step for phase in schedule.phases if isinstance(phase, Firing)] == list(range(len(steps)))
    ends = [schedule.lifetimes[name] for name in ("first", "second", "third")]
    assert all(later[0] >= earlier[1] - 1 for earlier, later in zip(ends, ends[1:], strict=False))
