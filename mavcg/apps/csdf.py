"""A partition as a cyclo-static dataflow graph, with its smallest buffers and a schedule (sections 4.5.2 and 6.5.2).

Chapter 4 of the thesis, with Algorithms 3 and 4, is not part of the paper: phases are output rows, and a token is a row
of data. Buffers are rings of rows, so rows that the next phase reads again stay in place.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mavcg.apps.application import Cnn, DataEdge, Partition, RowWindow, ScheduleBlock
from mavcg.errors import MavcgError


@dataclass(frozen=True)
class Channel:
    """An edge inside a partition. Rates are in rows, one entry per phase.

    production: rows that the source writes. window: rows that must have been written when the target fires, counted
    from the first row. consumption: rows that the target releases after each phase.
    """

    edge: DataEdge
    production: tuple[int, ...]
    window: tuple[int, ...]
    consumption: tuple[int, ...]

    @property
    def row_elements(self) -> int:
        """Elements of a row."""
        return self.edge.elements // self.edge.rows


@dataclass(frozen=True)
class CsdfGraph:
    """A cyclo-static dataflow graph. phases: number of phases of each actor, in topological order."""

    phases: Mapping[str, int]
    channels: tuple[Channel, ...]


@dataclass(frozen=True)
class CsdfSchedule:
    """A schedule of one iteration.

    firings: in order. capacities: rows that each channel needs, in the graph's order.
    """

    firings: tuple[str, ...]
    capacities: tuple[int, ...]


def to_csdf(cnn: Cnn, partition: Partition, phases: Mapping[str, int]) -> CsdfGraph:
    """Return the dataflow graph of a partition, with the number of phases of each layer (Algorithm 4).

    Raises: MavcgError for a number of phases that is neither 1 nor the layer's rows.
    """
    for name in partition.layers:
        layer = cnn.layer(name)
        if phases[name] != 1 and not (layer.by_parts and phases[name] == layer.out_rows):
            rows = f"1 or {layer.out_rows}" if layer.by_parts else "1"
            raise MavcgError(f"{cnn.name}: layer {name}: {phases[name]} phases; it can have {rows}")
    own = frozenset(partition.layers)
    inside = [e for e in cnn.edges if e.source in own and e.target in own]
    order = [layer.name for layer in cnn.layers if layer.name in own]
    channels = [
        _channel(edge, edge.window or cnn.layer(edge.target).window, phases[edge.source], phases[edge.target])
        for edge in inside
    ]
    return CsdfGraph({name: phases[name] for name in order}, tuple(channels))


@lru_cache(1 << 14)
def _channel(edge: DataEdge, rows: RowWindow, writes: int, reads: int) -> Channel:
    first, rest = divmod(edge.rows, writes)
    production = tuple(first + (phase < rest) for phase in range(writes))
    window, done = zip(*(_rows_of(rows, edge.rows, phase, reads) for phase in range(reads)), strict=True)
    consumption = tuple(b - a for a, b in zip((0, *done[:-1]), done, strict=True))
    return Channel(edge, production, window, consumption)


def _rows_of(window: RowWindow, rows: int, phase: int, phases: int) -> tuple[int, int]:
    """Return (rows that a phase needs, rows that no later phase reads), both counted from the first row."""
    if phases == 1:
        return rows, rows
    start = phase * window.stride - window.pad
    done = rows if phase == phases - 1 else _clamp(start + window.stride, rows, 0)
    return _clamp(start + window.rows, rows), done


def _clamp(row: int, rows: int, least: int = 1) -> int:
    return max(least, min(row, rows))


def schedule_csdf(graph: CsdfGraph) -> CsdfSchedule:
    """Return a schedule that fires on demand, and the largest number of rows in each channel while it runs.

    The last unfinished actor fires as soon as its rows are there; otherwise the writer of a missing row fires, as late
    as possible. Every actor fires all its phases once and every channel ends empty, so the schedule can be repeated for
    ever within these capacities, which proves the absence of deadlock (Bilsen et al., "Cyclo-static dataflow", 1996: a
    periodic schedule of a consistent graph). For chains no capacities are smaller. Raises: MavcgError if an actor waits
    for itself, which is impossible in an acyclic graph.
    """
    state = _State(graph)
    for actor in reversed(state.order):
        while state.fired[actor] < graph.phases[actor]:
            state.demand(actor)
    return CsdfSchedule(tuple(state.firings), tuple(state.peak_rows))


def run_schedule(graph: CsdfGraph, firings: Iterable[str]) -> CsdfSchedule:
    """Return a given schedule with the largest number of rows in each channel while it runs.

    Raises: MavcgError for a firing whose rows are missing, or for phases that do not run.
    """
    state = _State(graph)
    for layer in firings:
        phase, phases = state.fired[layer], graph.phases[layer]
        if phase == phases:
            raise MavcgError(f"layer {layer}: runs more often than its {phases} phases")
        writer = state.missing(layer)
        if writer is not None:
            raise MavcgError(f"layer {layer}: phase {phase + 1} of {phases} reads rows that {writer} writes later")
        state.fire(layer)
    for layer, phases in graph.phases.items():
        if state.fired[layer] != phases:
            raise MavcgError(f"layer {layer}: runs {state.fired[layer]} of its {phases} phases")
    return CsdfSchedule(tuple(state.firings), tuple(state.peak_rows))


class _State:
    def __init__(self, graph: CsdfGraph) -> None:
        self.graph, self.order = graph, list(graph.phases)
        self.rank = {name: number for number, name in enumerate(self.order)}
        self.fired = dict.fromkeys(self.order, 0)
        self.reads: dict[str, list[int]] = {name: [] for name in self.order}
        self.writes: dict[str, list[int]] = {name: [] for name in self.order}
        for number, channel in enumerate(graph.channels):
            self.reads[channel.edge.target].append(number)
            self.writes[channel.edge.source].append(number)
        self.produced, self.consumed, self.peak_rows = ([0] * len(graph.channels) for _ in range(3))
        self.firings: list[str] = []

    def missing(self, actor: str) -> str | None:
        """Return a writer that must fire before the actor's next phase; None if the actor can fire."""
        phase = self.fired[actor]
        lacks = [
            self.graph.channels[n].edge.source
            for n in self.reads[actor]
            if self.produced[n] < self.graph.channels[n].window[phase]
        ]
        return max(lacks, key=self.rank.__getitem__) if lacks else None

    def demand(self, actor: str) -> None:
        """Fire the actor once, after all firings that it needs."""
        waiting = [actor]
        while waiting:
            writer = self.missing(waiting[-1])
            if writer is None:
                self.fire(waiting.pop())
            elif self.fired[writer] >= self.graph.phases[writer]:
                raise MavcgError(f"layer {waiting[-1]}: waits for rows that {writer} does not write; a cycle in rates")
            else:
                waiting.append(writer)

    def fire(self, actor: str) -> None:
        phase = self.fired[actor]
        for n in self.writes[actor]:
            self.produced[n] += self.graph.channels[n].production[phase]
            self.peak_rows[n] = max(self.peak_rows[n], self.produced[n] - self.consumed[n])
        for n in self.reads[actor]:
            self.consumed[n] += self.graph.channels[n].consumption[phase]
        # A phase that skips rows may release rows before they are written; these are dropped when they arrive.
        self.fired[actor] += 1
        self.firings.append(actor)


def compress(names: Sequence[str], longest: int = 64) -> ScheduleBlock:
    """Return a sequence of firings as repeated blocks.

    At each position the repetition that covers most firings is taken.
    """
    entries: list[str | ScheduleBlock] = []
    at = 0
    while at < len(names):
        best, times = 1, 1
        for length in range(1, min(longest, (len(names) - at) // 2) + 1):
            count = 1
            while list(names[at + count * length : at + (count + 1) * length]) == list(names[at : at + length]):
                count += 1
            if count > 1 and count * length > best * times:
                best, times = length, count
        entries += [ScheduleBlock(tuple(names[at : at + best]), times)] if times > 1 else [names[at]]
        at += best * times
    return ScheduleBlock(tuple(entries))
