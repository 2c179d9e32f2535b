"""The exact front of live peak against time of a network that is a chain, by dynamic programming.

Layers by parts that follow each other form a run. While it lasts, its input and output are in memory and rings of rows
between its layers; a layer that is computed whole has its input and output there. So the live peak of a chain is the
largest of its runs and whole layers, its time the sum of theirs, and prefixes that are beaten in both can be dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.apps.application import Application, Cnn, DataEdge, Partition, in_order
from mavcg.apps.derivation import Chromosome, Derivation, Derived, phases_of
from mavcg.apps.throughput import NO_TIME, Times
from mavcg.memory.placement_search import LiveBuffer, live_peak

MOST_LAYERS = 24  # of a chain: every run of its layers is scheduled once


@dataclass(frozen=True)
class ChainPoint:
    """A solution of the front: live peak in the edges' unit, modelled ms of a frame, layers by parts."""

    peak: int
    ms: float
    chromosome: Chromosome


def is_chain(cnn: Cnn) -> bool:
    """True if each layer reads the one before it alone."""
    names = [layer.name for layer in cnn.layers]
    return sorted((e.source, e.target) for e in cnn.edges) == sorted(zip(names, names[1:], strict=False))


def leaves_rows(cnn: Cnn, edge: DataEdge) -> bool:
    """True if the last rows of the data are written by parts and not read by parts."""
    target, window = cnn.layer(edge.target), edge.window or cnn.layer(edge.target).window
    both = target.by_parts and cnn.layer(edge.source).by_parts
    return both and (target.out_rows - 1) * window.stride - window.pad + window.rows < edge.rows


def derived_peak(derived: Derived) -> int:
    """Return the largest sum of data in memory at a step of one partition's schedule."""
    return live_peak([LiveBuffer(data.size, data.spans[0].first, data.spans[0].last + 1) for data in derived.data])


def chain_front(app: Application, times: Times) -> list[ChainPoint] | None:
    """Return the front of an application of one chain in one partition, by increasing peak; None for any other.

    None also for more than MOST_LAYERS, and where windows leave rows unread: their writer then runs on after all
    others, so that runs depend on each other.
    """
    if len(app.cnns) != 1 or len(app.partitions) != 1 or app.partitions[0].fixed or not is_chain(app.cnns[0]):
        return None
    if any(leaves_rows(app.cnns[0], edge) for edge in app.cnns[0].edges):
        return None
    cnn, count = app.cnns[0], len(app.cnns[0].layers)
    if count > MOST_LAYERS:
        return None

    def ms(number: int, parts: bool) -> float:
        layer = cnn.layers[number]
        time = times.get((cnn.name, layer.name), NO_TIME)
        return time.by_phases(phases_of(layer, parts), 0) if time.ms else 0.0

    # Points of each prefix: of those that end with a layer as a whole, or a run, which no run may follow.
    whole: list[list[ChainPoint]] = [[ChainPoint(0, 0.0, frozenset())]]
    parts: list[list[ChainPoint]] = [[]]
    for end in range(1, count + 1):
        size = _run_peak(cnn, end - 1, end, frozenset())
        before = _front([*whole[end - 1], *parts[end - 1]])
        whole.append([ChainPoint(max(p.peak, size), p.ms + ms(end - 1, False), p.chromosome) for p in before])
        runs = []
        for begin in range(end - 1, -1, -1):
            if not cnn.layers[begin].by_parts:
                break
            genes = frozenset((cnn.name, layer.name) for layer in cnn.layers[begin:end])
            peak, time = _run_peak(cnn, begin, end, genes), sum(ms(number, True) for number in range(begin, end))
            runs += [ChainPoint(max(p.peak, peak), p.ms + time, p.chromosome | genes) for p in whole[begin]]
        parts.append(_front(runs))
    return _front([*whole[count], *parts[count]])


def _run_peak(cnn: Cnn, begin: int, end: int, genes: Chromosome) -> int:
    """Return the live peak of layers begin to before end, with their neighbours as whole layers."""
    layers = cnn.layers[max(0, begin - 1) : end + 1]
    names = {layer.name for layer in layers}
    edges = tuple(edge for edge in cnn.edges if edge.source in names and edge.target in names)
    own = Cnn(cnn.name, layers, edges)
    order = tuple(layer.name for layer in layers)
    return derived_peak(Derivation(Application((own,), (Partition(cnn.name, cnn.name, order, in_order(order)),)))
                        .derive(genes, lambda app, data: ()))  # fmt: skip


def _front(points: Sequence[ChainPoint]) -> list[ChainPoint]:
    kept: list[ChainPoint] = []
    for point in sorted(points, key=lambda p: (p.peak, p.ms, sorted(p.chromosome))):
        if not kept or point.ms < kept[-1].ms:
            kept.append(point)
    return kept


def front_gap(exact: Sequence[ChainPoint], searched: Sequence[tuple[int, float]]) -> float:
    """Return by how much more live peak searched solutions (peak, ms) need at most, as a share, than exact ones no
    faster; infinite where there is no solution as fast."""
    gap = 0.0
    for point in exact:
        peak = min((peak for peak, ms in searched if ms <= point.ms * (1 + 1e-9)), default=float("inf"))
        gap = max(gap, peak / point.peak - 1 if point.peak else 0.0)
    return gap
