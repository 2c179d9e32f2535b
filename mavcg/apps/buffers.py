"""Buffers of an application: naive allocation, live intervals, and Algorithm 8, greedy reuse (sections 6.4, 6.5.1)."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.apps.application import Application, DataEdge, Partition, firings


@dataclass(frozen=True)
class StepSpan:
    """Steps of a partition's schedule at which data is in memory: first to last, both included, from 0."""

    partition: str
    first: int
    last: int


@dataclass(frozen=True)
class EdgeData:
    """The data of an edge, or one copy of it: pipelined partitions exchange data through copies, which change places
    after each frame (e(1) with the writer, e(2) with the reader).

    copy: 0 if there is one only. size: elements of its buffer. spans: in every partition in which it is live.
    """

    cnn: str
    edge: DataEdge
    copy: int
    size: int
    spans: tuple[StepSpan, ...]

    @property
    def label(self) -> str:
        """The name in tables: cnn:source->target, with the copy's number in brackets."""
        number = f"({self.copy})" if self.copy else ""
        return f"{self.cnn}:{self.edge.source}->{self.edge.target}{number}"

    @property
    def home(self) -> str:
        """The partition that is visited for this data in Algorithm 8."""
        return self.spans[0].partition


@dataclass(frozen=True)
class Buffer:
    """Memory that edges share, in elements."""

    edges: tuple[EdgeData, ...]
    size: int


Sizes = Mapping[tuple[str, str, str], int]


def edge_data(app: Application, sizes: Sizes | None = None) -> tuple[EdgeData, ...]:
    """Return the data of all edges with their live intervals, ordered by partition and edge.

    A pair of pipelined partitions that an edge connects has a copy each, and so has every pipelined partition
    between them: data of several frames is in flight. Where writer and reader are not parallel there is one copy,
    which belongs to both partitions and is live in all of the CNN's partitions between them.
    sizes: of the buffers, by (cnn, source, target), in elements; without them, all of the data.
    """
    found: list[EdgeData] = []
    steps = {p.name: _steps(p) for p in app.partitions}
    for cnn in app.cnns:
        parts = app.partitions_of(cnn.name)
        for edge in cnn.edges:
            size = edge.elements if sizes is None else sizes[(cnn.name, edge.source, edge.target)]
            source, target = (app.partition_of(cnn.name, layer) for layer in (edge.source, edge.target))
            begin, end = steps[source.name][0][edge.source][0], steps[target.name][0][edge.target][1]
            if source == target:  # the writer may go on after the last read, with rows that nothing needs
                end = max(end, steps[source.name][0][edge.source][1])
                found.append(EdgeData(cnn.name, edge, 0, size, (StepSpan(source.name, begin, end),)))
                continue
            passed = parts[parts.index(source) : parts.index(target) + 1]
            spans = [StepSpan(p.name, 0, steps[p.name][1] - 1) for p in passed]
            spans[0] = StepSpan(source.name, begin, spans[0].last)
            spans[-1] = StepSpan(target.name, 0, end)
            if app.runs_with(source.name, target.name):
                found += [
                    EdgeData(cnn.name, edge, number, edge.elements, (span,)) for number, span in enumerate(spans, 1)
                ]
            else:
                found.append(EdgeData(cnn.name, edge, 0, edge.elements, tuple(spans)))
    order = {p.name: number for number, p in enumerate(app.partitions)}
    return tuple(sorted(found, key=lambda data: order[data.home]))


def _steps(partition: Partition) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the first and last step of each layer, and the number of steps."""
    found: dict[str, tuple[int, int]] = {}
    step = -1
    for step, layer in enumerate(firings(partition.schedule)):
        found[layer] = (found.get(layer, (step, step))[0], step)
    return found, step + 1


def live_together(app: Application, a: EdgeData, b: EdgeData) -> bool:
    """True if both are in memory at some time: in parallel partitions, or at a common step of one partition.

    The paper's Algorithm 8 lets data of two partitions share a buffer whenever these are not parallel. That is unsafe
    for an edge between partitions that follow each other: it is live in both, and spans say so.
    """
    for p in a.spans:
        for q in b.spans:
            if p.partition == q.partition and p.first <= q.last and q.first <= p.last:
                return True
            if app.runs_with(p.partition, q.partition):
                return True
    return False


def naive_buffers(data: Sequence[EdgeData]) -> tuple[Buffer, ...]:
    """Return a buffer for each edge and copy (Table 6.1)."""
    return tuple(Buffer((each,), each.size) for each in data)


def reuse_buffers(app: Application, data: Sequence[EdgeData], within_cnn: bool = False) -> tuple[Buffer, ...]:
    """Share buffers greedily: Algorithm 8 (Tables 6.2 and 6.3).

    Each edge, in order, takes the buffer that has to grow least and holds nothing that is live with it; of equal ones
    the first. The order of edges decides about the result.
    within_cnn: share inside of each CNN only, as the methodology that the paper compares with ([76]).
    """
    parallel = {p.name: {q.name for q in app.partitions if app.runs_with(p.name, q.name)} for p in app.partitions}
    buffers: list[_SharedBuffer] = []
    for each in data:
        # Those that need not grow, in order; then those that have to, the largest first: sorted() keeps the order.
        fits = [buffer for buffer in buffers if buffer.size >= each.size]
        grows = sorted((b for b in buffers if b.size < each.size), key=lambda buffer: -buffer.size)
        for buffer in (*fits, *grows):
            if (not within_cnn or buffer.edges[0].cnn == each.cnn) and buffer.free_for(each, parallel):
                break
        else:
            buffer = _SharedBuffer()
            buffers.append(buffer)
        buffer.add(each)
    return tuple(Buffer(tuple(buffer.edges), buffer.size) for buffer in buffers)


class _SharedBuffer:
    """A buffer while it is shared: the steps of each partition at which it is in use, in two sorted lists. No two of
    its edges are live together, so that of all spans only the neighbours of a new one can meet it."""

    def __init__(self) -> None:
        self.edges: list[EdgeData] = []
        self.size = 0
        self.used: dict[str, tuple[list[int], list[int]]] = {}

    def free_for(self, data: EdgeData, parallel: Mapping[str, set[str]]) -> bool:
        """True if the data is not live together with any here (live_together)."""
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
        """Put data here that it is free for."""
        self.edges.append(data)
        self.size = max(self.size, data.size)
        for span in data.spans:
            firsts, lasts = self.used.setdefault(span.partition, ([], []))
            at = bisect_right(firsts, span.first)
            firsts.insert(at, span.first)
            lasts.insert(at, span.last)


def total_size(buffers: Sequence[Buffer]) -> int:
    """Return the number of elements of all buffers (equation 2.7, without the size of a token)."""
    return sum(buffer.size for buffer in buffers)


def memory_cost(app: Application, buffers: Sequence[Buffer], weight_bytes: int, data_bytes: int) -> int:
    """Return the bytes of weights and buffers (equation 2.5). weight_bytes, data_bytes: of an element each."""
    weights = sum(layer.weights for cnn in app.cnns for layer in cnn.layers)
    return weights * weight_bytes + total_size(buffers) * data_bytes
