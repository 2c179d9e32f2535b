"""Buffers of an application.

Naive allocation, live intervals, and greedy reuse by Algorithm 8 (sections 6.4, 6.5.1).
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.apps.application import Application, DataEdge, Partition, firings


@dataclass(frozen=True)
class StepSpan:
    """Steps of a partition's schedule in which data is live: first to last, inclusive, from 0."""

    partition: str
    first: int
    last: int


@dataclass(frozen=True)
class EdgeData:
    """The data of an edge, or one copy of it.

    Pipelined partitions exchange data through copies, which are swapped after each frame: e(1) is the writer's, e(2)
    the reader's. copy: number of the copy; 0 if there is only one. size: elements of its buffer. spans: live steps in
    every partition in which it is live.
    """

    cnn: str
    edge: DataEdge
    copy: int
    size: int
    spans: tuple[StepSpan, ...]

    @property
    def label(self) -> str:
        """Name in tables: cnn:source->target, with the number of the copy in brackets."""
        number = f"({self.copy})" if self.copy else ""
        return f"{self.cnn}:{self.edge.source}->{self.edge.target}{number}"

    @property
    def home(self) -> str:
        """Partition in which Algorithm 8 visits this data."""
        return self.spans[0].partition


@dataclass(frozen=True)
class Buffer:
    """Memory that the data of several edges shares, in elements."""

    edges: tuple[EdgeData, ...]
    size: int


Sizes = Mapping[tuple[str, str, str], int]


def edge_data(app: Application, sizes: Sizes | None = None) -> tuple[EdgeData, ...]:
    """Return the data of all edges with live intervals, ordered by partition and edge.

    Each of two pipelined partitions joined by an edge has a copy, and so has every pipelined partition between them,
    because data of several frames is live. If writer and reader are not parallel there is one copy, which is live in
    both partitions and in all of the CNN's partitions between them. sizes: of the buffers, by (cnn, source, target), in
    elements; None: the whole data.
    """
    data: list[EdgeData] = []
    steps = {p.name: _steps(p) for p in app.partitions}
    for cnn in app.cnns:
        parts = app.partitions_of(cnn.name)
        for edge in cnn.edges:
            size = edge.elements if sizes is None else sizes[(cnn.name, edge.source, edge.target)]
            source, target = (app.partition_of(cnn.name, layer) for layer in (edge.source, edge.target))
            begin, end = steps[source.name][0][edge.source][0], steps[target.name][0][edge.target][1]
            if source == target:  # the writer may go on after the last read, with rows that nothing needs
                end = max(end, steps[source.name][0][edge.source][1])
                data.append(EdgeData(cnn.name, edge, 0, size, (StepSpan(source.name, begin, end),)))
                continue
            passed = parts[parts.index(source) : parts.index(target) + 1]
            spans = [StepSpan(p.name, 0, steps[p.name][1] - 1) for p in passed]
            spans[0] = StepSpan(source.name, begin, spans[0].last)
            spans[-1] = StepSpan(target.name, 0, end)
            if app.runs_with(source.name, target.name):
                data += [
                    EdgeData(cnn.name, edge, number, edge.elements, (span,)) for number, span in enumerate(spans, 1)
                ]
            else:
                data.append(EdgeData(cnn.name, edge, 0, edge.elements, tuple(spans)))
    order = {p.name: number for number, p in enumerate(app.partitions)}
    return tuple(sorted(data, key=lambda item: order[item.home]))


def _steps(partition: Partition) -> tuple[dict[str, tuple[int, int]], int]:
    """Return (first, last) step of each layer, and the number of steps."""
    spans: dict[str, tuple[int, int]] = {}
    step = -1
    for step, layer in enumerate(firings(partition.schedule)):
        spans[layer] = (spans.get(layer, (step, step))[0], step)
    return spans, step + 1


def live_together(app: Application, a: EdgeData, b: EdgeData) -> bool:
    """True if both data are live at the same time: in parallel partitions, or at a common step of one partition.

    The paper's Algorithm 8 lets data of two partitions share a buffer whenever these are not parallel. That is unsafe
    for an edge between consecutive partitions: it is live in both, which the spans express.
    """
    for p in a.spans:
        for q in b.spans:
            if p.partition == q.partition and p.first <= q.last and q.first <= p.last:
                return True
            if app.runs_with(p.partition, q.partition):
                return True
    return False


def naive_buffers(data: Sequence[EdgeData]) -> tuple[Buffer, ...]:
    """Return one buffer for each edge and copy (Table 6.1)."""
    return tuple(Buffer((item,), item.size) for item in data)


def reuse_buffers(app: Application, data: Sequence[EdgeData], within_cnn: bool = False) -> tuple[Buffer, ...]:
    """Return buffers shared greedily by Algorithm 8 (Tables 6.2 and 6.3).

    Each edge, in order, takes the buffer that has to grow least among those without data live at the same time; ties go
    to the first. The result depends on the order of edges. within_cnn: share only within each CNN, as the methodology
    that the paper compares with ([76]).
    """
    parallel = {p.name: {q.name for q in app.partitions if app.runs_with(p.name, q.name)} for p in app.partitions}
    buffers: list[_SharedBuffer] = []
    for item in data:
        # Buffers that need not grow come first, in order; then the others, largest first (sorted() is stable).
        fits = [buffer for buffer in buffers if buffer.size >= item.size]
        grows = sorted((b for b in buffers if b.size < item.size), key=lambda buffer: -buffer.size)
        for buffer in (*fits, *grows):
            if (not within_cnn or buffer.edges[0].cnn == item.cnn) and buffer.free_for(item, parallel):
                break
        else:
            buffer = _SharedBuffer()
            buffers.append(buffer)
        buffer.add(item)
    return tuple(Buffer(tuple(buffer.edges), buffer.size) for buffer in buffers)


class _SharedBuffer:
    """A buffer while it is filled. used: by partition, sorted lists of the first and last steps of its data.

    No two of its data are live together, so only the neighbours of a new span can overlap it.
    """

    def __init__(self) -> None:
        self.edges: list[EdgeData] = []
        self.size = 0
        self.used: dict[str, tuple[list[int], list[int]]] = {}

    def free_for(self, data: EdgeData, parallel: Mapping[str, set[str]]) -> bool:
        """True if the data is not live together with any data of the buffer (live_together)."""
        for span in data.spans:
            if not parallel[span.partition].isdisjoint(self.used):
                return False
            if span.partition in self.used:
                firsts, lasts = self.used[span.partition]
                before = bisect_right(firsts, span.last) - 1
                if before >= 0 and lasts[before] >= span.first:
                    return False
        return True

    def add(self, data: EdgeData) -> None:
        """Add data for which the buffer is free."""
        self.edges.append(data)
        self.size = max(self.size, data.size)
        for span in data.spans:
            firsts, lasts = self.used.setdefault(span.partition, ([], []))
            at = bisect_right(firsts, span.first)
            firsts.insert(at, span.first)
            lasts.insert(at, span.last)


def total_size(buffers: Sequence[Buffer]) -> int:
    """Return the elements of all buffers (equation 2.7, without the size of a token)."""
    return sum(buffer.size for buffer in buffers)


def memory_cost(app: Application, buffers: Sequence[Buffer], weight_bytes: int, data_bytes: int) -> int:
    """Return the bytes of weights and buffers (equation 2.5). weight_bytes, data_bytes: of one element."""
    weights = sum(layer.weights for cnn in app.cnns for layer in cnn.layers)
    return weights * weight_bytes + total_size(buffers) * data_bytes
