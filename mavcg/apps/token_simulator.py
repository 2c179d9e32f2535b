"""Executes an application's schedules token by token in its buffers, and detects every read of overwritten data."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mavcg.apps.application import Partition, firings
from mavcg.apps.buffers import EdgeData
from mavcg.apps.csdf import Channel, to_csdf
from mavcg.apps.derivation import Derived
from mavcg.apps.running_together import networks_together

Cells = np.ndarray[Any, np.dtype[np.int64]]
FRAMES = 3  # a pipeline with copies is full after the second frame


class ScheduleFault(Exception):
    """Raised for a read of data that is missing or has been overwritten."""


@dataclass(frozen=True)
class Ring:
    """Memory of an edge's data: `elements` elements from `offset` on, used as a ring of rows."""

    offset: int
    elements: int


def greedy_rings(derived: Derived) -> dict[EdgeData, Ring]:
    """Return the rings of the data in Algorithm 8's shared buffers, which lie one after the other."""
    rings: dict[EdgeData, Ring] = {}
    offset = 0
    for buffer in derived.buffers:
        rings |= {data: Ring(offset, data.size) for data in buffer.edges}
        offset += buffer.size
    return rings


def simulate_schedule(derived: Derived, rings: Mapping[EdgeData, Ring], seed: int = 0) -> int:
    """Run frames through all networks, with random interleaving of parallel parts. Returns the number of firings.

    Networks that are not parallel run alternately, twice each (one that is parallel to two that are not runs with
    either), and so do partitions of one network. A network whose partitions are all parallel runs as a pipeline that
    fills and drains before the next one runs. Every element of memory holds the number of the row, edge and frame
    written last; before a phase runs, every element of every row in its windows is compared. Raises: ScheduleFault
    naming the layer, phase, edge and row.
    """
    memory = np.full(max((ring.offset + ring.elements for ring in rings.values()), default=0), -1, np.int64)
    state, generator = _Memory(derived, dict(rings), memory), random.Random(seed)
    return sum(
        _interleave([state.cnn_run(cnn, generator) for cnn in group], generator)
        for _ in range(2)
        for group in networks_together(derived.app)
    )


def _interleave(running: list[Iterator[None]], generator: random.Random) -> int:
    count = 0
    while running:
        number = generator.randrange(len(running))
        try:
            next(running[number])
            count += 1
        except StopIteration:
            running.pop(number)
    return count


class _Memory:
    def __init__(self, derived: Derived, rings: dict[EdgeData, Ring], memory: Cells) -> None:
        self.derived, self.rings, self.memory = derived, rings, memory
        self.number = {data: number for number, data in enumerate(derived.data)}
        self.by_edge: dict[tuple[str, str, str], list[EdgeData]] = {}
        for data in derived.data:
            self.by_edge.setdefault((data.cnn, data.edge.source, data.edge.target), []).append(data)
        # Data between partitions that a layer reads and writes, by (network, partition, layer).
        self.incoming: dict[tuple[str, str, str], list[EdgeData]] = {}
        self.outgoing: dict[tuple[str, str, str], list[EdgeData]] = {}
        for data in derived.data:
            if len(data.spans) > 1 or len(self.by_edge[(data.cnn, data.edge.source, data.edge.target)]) > 1:
                for span in data.spans:
                    self.incoming.setdefault((data.cnn, span.partition, data.edge.target), []).append(data)
                    self.outgoing.setdefault((data.cnn, span.partition, data.edge.source), []).append(data)

    def token(self, data: EdgeData, frame: int, row: int) -> int:
        """Return the number with which a row's elements are filled."""
        edge = self.by_edge[(data.cnn, data.edge.source, data.edge.target)][0]
        return (self.number[edge] << 40) | (frame << 24) | row

    def cells(self, data: EdgeData, row: int) -> Cells:
        """Return the memory of a row."""
        ring, length = self.rings[data], data.edge.elements // data.edge.rows
        start = ring.offset + (row % (ring.elements // length)) * length
        return self.memory[start : start + length]

    def cnn_run(self, name: str, generator: random.Random) -> Iterator[None]:
        """Run FRAMES frames of a CNN; yield after each firing."""
        parts = self.derived.app.partitions_of(name)
        pipelined = all(self.derived.app.runs_with(p.name, q.name) for p in parts for q in parts if p != q)
        for tick in range(FRAMES + len(parts) - 1 if pipelined else FRAMES * len(parts)):
            if pipelined:
                active = [(p, tick - stage) for stage, p in enumerate(parts) if 0 <= tick - stage < FRAMES]
            else:
                active = [(parts[tick % len(parts)], tick // len(parts))]
            running = [self.partition_run(p, frame) for p, frame in active]
            while running:
                number = generator.randrange(len(running))
                try:
                    yield next(running[number])
                except StopIteration:
                    running.pop(number)
            self.hand_over(name, {p.name for p, _ in active})

    def partition_run(self, partition: Partition, frame: int) -> Iterator[None]:
        """Run one frame of a partition; yield after each firing."""
        cnn = self.derived.app.cnn(partition.cnn)
        phases = {name: self.derived.phases[(cnn.name, name)] for name in partition.layers}
        channels = to_csdf(cnn, partition, phases).channels
        reads, writes = dict[str, list[Channel]](), dict[str, list[Channel]]()
        for channel in channels:
            reads.setdefault(channel.edge.target, []).append(channel)
            writes.setdefault(channel.edge.source, []).append(channel)
        fired, written = dict.fromkeys(partition.layers, 0), dict.fromkeys(self.derived.data, 0)
        for layer in firings(partition.schedule):
            phase = fired[layer]
            if phase == phases[layer]:
                raise ScheduleFault(f"{partition.name}: fires {layer} more often than its {phase} phases")
            self.check_inputs(partition, reads.get(layer, ()), frame, layer, phase)
            for channel in writes.get(layer, ()):
                data = self.edge_data(cnn.name, channel)
                for row in range(written[data], written[data] + channel.production[phase]):
                    self.cells(data, row)[:] = self.token(data, frame, row)
                written[data] += channel.production[phase]
            for data in self.outgoing.get((cnn.name, partition.name, layer), ()):
                for row in range(data.edge.rows):  # phases add rows: the memory is in use from the first one on
                    self.cells(data, row)[:] = self.token(data, frame, row)
            self.check_inputs(partition, reads.get(layer, ()), frame, layer, phase)  # it reads while it writes
            fired[layer] += 1
            yield
        if fired != phases:
            raise ScheduleFault(f"{partition.name}: fires {fired}, and has phases {phases}")

    def check_inputs(
        self, partition: Partition, channels: Sequence[Channel], frame: int, layer: str, phase: int
    ) -> None:
        """Check all rows that a firing reads."""
        for channel in channels:
            self.read(self.edge_data(partition.cnn, channel), frame, layer, phase, channel)
        for data in self.incoming.get((partition.cnn, partition.name, layer), ()):
            self.check(data, frame, range(data.edge.rows), layer, phase)

    def edge_data(self, cnn: str, channel: Channel) -> EdgeData:
        """Return the data of an edge inside a partition."""
        return self.by_edge[(cnn, channel.edge.source, channel.edge.target)][0]

    def read(self, data: EdgeData, frame: int, layer: str, phase: int, channel: Channel) -> None:
        """Check the rows that a phase may read.

        From the first that no earlier phase released to the end of its window.
        """
        done = sum(channel.consumption[:phase])
        self.check(data, frame, range(min(done, channel.window[phase] - 1), channel.window[phase]), layer, phase)

    def check(self, data: EdgeData, frame: int, rows: range, layer: str, phase: int) -> None:
        for row in rows:
            if not (self.cells(data, row) == self.token(data, frame, row)).all():
                raise ScheduleFault(f"{layer}, phase {phase}: row {row} of {data.label} was overwritten or is missing")

    def hand_over(self, cnn: str, ran: set[str]) -> None:
        """Copy the data of partitions that ran to the copies of the next stage.

        It goes from the last stage back, because a stage's input may lie where its own output lay.
        """
        stages = [p.name for p in self.derived.app.partitions_of(cnn)]
        pairs = [pair for copies in self.by_edge.values() for pair in pairwise(copies) if copies[0].cnn == cnn]
        for earlier, later in sorted(pairs, key=lambda pair: -stages.index(pair[0].home)):
            if earlier.home in ran:
                for row in range(later.edge.rows):
                    self.cells(later, row)[:] = self.cells(earlier, row)
