"""The exact Pareto front of live peak and time of one network, by dynamic programming over its series of blocks.

A network with one input and one output is a series of cut layers, which are on every path. Between two neighbouring cut
layers lies a block: an edge, or parallel branches. A cut layer that is computed whole is a separator, and so is a block
with a layer that is computed whole: all layers before it have run, and none after it has begun. Between two separators
all layers are computed by parts and are live at once. The live peak is therefore the maximum over the regions between
neighbouring separators, the time is the sum over layers, and dominated prefixes can be dropped. In a chain every block
is an edge. For each block, all sets of layers by parts are tried.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from mavcg.apps.application import Application, Cnn, Layer, Partition, in_order
from mavcg.apps.csdf import schedule_csdf, to_csdf
from mavcg.apps.derivation import Chromosome, Derivation, Derived, phases_of
from mavcg.apps.throughput import NO_TIME, Times
from mavcg.memory.placement_search import LiveBuffer, live_peak

MOST_FIRINGS = 2_000_000  # limit of the firings of all regions together: some ten seconds
MOST_SETS = 128  # limit of the sets of a block's layers by parts


@dataclass(frozen=True)
class FrontPoint:
    """A solution of the front: live peak in the unit of the edges, modelled ms per frame, layers by parts."""

    peak: int
    ms: float
    chromosome: Chromosome


@dataclass(frozen=True)
class _Separator:
    """A separator of regions: a whole cut layer, or (block) the block before a cut layer.

    cut: number of the cut layer. parts: layers of the block that are by parts. whole_before, whole_after: the cut
    layers around the block are whole.
    """

    cut: int
    parts: frozenset[str] = frozenset()
    block: bool = False
    whole_before: bool = False
    whole_after: bool = False

    @property
    def rank(self) -> int:
        """Position in the series."""
        return 2 * self.cut - self.block


class NoExactFront(Exception):
    """Raised if the network is no such series, has too large blocks, or layers that outlast their readers."""


def derived_peak(derived: Derived) -> int:
    """Return the largest amount of live data at a step of one partition's schedule."""
    return live_peak([LiveBuffer(data.size, data.spans[0].first, data.spans[0].last + 1) for data in derived.data])


def exact_front(app: Application, times: Times, most_firings: int = MOST_FIRINGS) -> list[FrontPoint] | None:
    """Return the exact front of an application with one network in one partition, by increasing peak; None if
    unsupported.

    Unsupported: several networks or partitions; several inputs or outputs; a block with more than MOST_SETS sets of
    layers by parts; more than most_firings firings in the schedules of all regions; a layer that writes rows that no
    window reads, since it runs after all its readers and so makes regions depend on each other.
    """
    if len(app.cnns) != 1 or len(app.partitions) != 1 or app.partitions[0].fixed:
        return None
    try:
        return _Series(app, times, most_firings).front()
    except NoExactFront:
        return None


class _Series:
    def __init__(self, app: Application, times: Times, most_firings: int) -> None:
        self.app, self.cnn, self.times, self.remaining_firings = app, app.cnns[0], times, most_firings
        layers, numbers = self.cnn.layers, {layer.name: n for n, layer in enumerate(self.cnn.layers)}
        spans = [(numbers[edge.source], numbers[edge.target]) for edge in self.cnn.edges]
        sources, targets = {a for a, _ in spans}, {b for _, b in spans}
        if sources != set(range(len(layers) - 1)) or targets != set(range(1, len(layers))):
            raise NoExactFront
        self.cuts = [n for n in range(len(layers)) if not any(a < n < b for a, b in spans)]
        self.readers = {n: sorted({b for a, b in spans if a == n}) for n in range(len(layers))}

    def front(self) -> list[FrontPoint]:
        """Return the front.

        For each separator the points of everything before it are front, with and without a layer by parts, because a
        network without any keeps its own order of layers.
        """
        separators = [separator for cut in range(len(self.cuts)) for separator in self._separators(cut)]
        known: dict[_Separator | None, dict[bool, list[FrontPoint]]] = {
            None: {False: [FrontPoint(0, 0.0, frozenset())], True: []}
        }
        for target in [*separators, None]:
            extended: dict[bool, list[FrontPoint]] = {False: [], True: []}
            for source in known:
                if not any(known[source].values()) or not self._may_follow(source, target):
                    continue
                parts = self._parts_between(source, target)
                peak, ms = self._region_peak(source, target, parts), self._ms_between(source, target, parts)
                for mixed, points in known[source].items():
                    own = parts | (target.parts if target else frozenset())
                    genes = frozenset((self.cnn.name, name) for name in own)
                    extended[mixed or bool(own)] += [
                        FrontPoint(max(p.peak, peak), p.ms + ms, p.chromosome | genes) for p in points
                    ]
            known[target] = {mixed: _front(points) for mixed, points in extended.items()}
            if target is None:
                break
        whole = Derivation(self.app).derive(frozenset(), lambda app, data: ())
        layers = [self._ms(layer, False) for layer in self.cnn.layers]
        return _front([*extended[True], FrontPoint(derived_peak(whole), sum(layers), frozenset())])

    def _separators(self, cut: int) -> Iterator[_Separator]:
        """Yield the separators of the block before a cut layer, then the cut layer itself."""
        inner = self._inner(cut)
        free = [layer.name for layer in inner if layer.by_parts]
        if 2 ** len(free) > MOST_SETS:
            raise NoExactFront
        ends = [self.cnn.layers[self.cuts[number]].by_parts for number in (max(0, cut - 1), cut)]
        for count in range(len(free) + 1):
            for parts in combinations(free, count):
                if count < len(inner):  # at least one layer is whole
                    for before, after in product(*((True, False) if by_parts else (True,) for by_parts in ends)):
                        yield _Separator(cut, frozenset(parts), True, before, after)
        yield _Separator(cut)

    def _inner(self, cut: int) -> Sequence[Layer]:
        """Return the layers of the block before a cut layer."""
        return self.cnn.layers[self.cuts[cut - 1] + 1 : self.cuts[cut]] if cut else ()

    def _may_follow(self, source: _Separator | None, target: _Separator | None) -> bool:
        """True if two separators can be neighbours, with all layers between them by parts."""
        first, last = source.rank if source else -1, target.rank if target else 2 * len(self.cuts) - 1
        if first >= last:
            return False
        if source and source.block and source.whole_after != (last == first + 1):
            return False
        if target and target.block and target.whole_before != (first == last - 1):
            return False
        return all(self.cnn.layer(name).by_parts for name in self._names_between(first, last))

    def _names_between(self, first: int, last: int) -> list[str]:
        """Return the layers between two positions of the series."""
        names = []
        for rank in range(first + 1, last):
            if rank % 2:
                names += [layer.name for layer in self._inner((rank + 1) // 2)]
            else:
                names.append(self.cnn.layers[self.cuts[rank // 2]].name)
        return names

    def _parts_between(self, source: _Separator | None, target: _Separator | None) -> frozenset[str]:
        first, last = source.rank if source else -1, target.rank if target else 2 * len(self.cuts) - 1
        return frozenset(self._names_between(first, last))

    def _ms(self, layer: Layer, parts: bool) -> float:
        time = self.times.get((self.cnn.name, layer.name), NO_TIME)
        return time.by_phases(phases_of(layer, parts), 0) if time.ms else 0.0

    def _ms_between(self, source: _Separator | None, target: _Separator | None, parts: frozenset[str]) -> float:
        """Return the time of the layers after a separator, up to and including the next one."""
        own = [self._ms(self.cnn.layer(name), True) for name in sorted(parts)]
        if target and target.block:
            own += [self._ms(layer, layer.name in target.parts) for layer in self._inner(target.cut)]
        elif target:
            own.append(self._ms(self.cnn.layers[self.cuts[target.cut]], False))
        return sum(own)

    def _region_peak(self, source: _Separator | None, target: _Separator | None, between: frozenset[str]) -> int:
        """Return the live peak from one separator to the next, including the data live at either."""
        begin, end, parts = 0, self.cuts[-1], set(between)
        if source:
            begin, parts = self.cuts[source.cut - source.block], parts | source.parts
            if source.block and not source.whole_before:
                parts.add(self.cnn.layers[begin].name)
        if target:
            end, parts = self.cuts[target.cut], parts | target.parts
            if target.block and not target.whole_after:
                parts.add(self.cnn.layers[end].name)
        inside = self.cnn.layers[begin : end + 1]
        after = [self.cnn.layers[n] for n in self.readers[end]] if target and not target.block else []
        layers = {layer.name: layer for layer in (*inside, *after)}
        edges = tuple(
            edge
            for edge in self.cnn.edges
            if edge.source in layers and edge.target in layers and edge.source not in {layer.name for layer in after}
        )
        own = Cnn(self.cnn.name, tuple(layers.values()), edges)
        names = tuple(layers)
        phases = {name: phases_of(layer, name in parts) for name, layer in layers.items()}
        self.remaining_firings -= sum(phases.values())
        if self.remaining_firings < 0:
            raise NoExactFront
        graph = to_csdf(own, Partition(own.name, own.name, names, in_order(names)), phases)
        schedule = schedule_csdf(graph)
        first, last = dict[str, int](), dict[str, int]()
        for step, name in enumerate(schedule.firings):
            first.setdefault(name, step)
            last[name] = step
        sink = self.cnn.layers[end].name
        if any(last[layer.name] > last[sink] for layer in inside) or not self._separates(target, first, last):
            raise NoExactFront
        return live_peak(
            [
                LiveBuffer(
                    rows * channel.row_elements,
                    first[channel.edge.source],
                    1 + max(last[channel.edge.target], last[channel.edge.source]),
                )
                for channel, rows in zip(graph.channels, schedule.capacities, strict=True)
            ]
        )

    def _separates(self, target: _Separator | None, first: dict[str, int], last: dict[str, int]) -> bool:
        """True if everything before the block has run when the layers after it begin."""
        if not target or not target.block:
            return True
        before, after = (self.cnn.layers[self.cuts[number]].name for number in (target.cut - 1, target.cut))
        return last[before] < first[after]


def _front(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    front: list[FrontPoint] = []
    for point in sorted(points, key=lambda p: (p.peak, p.ms, sorted(p.chromosome))):
        if not front or point.ms < front[-1].ms:
            front.append(point)
    return front


def front_gap(exact: Sequence[FrontPoint], searched: Sequence[tuple[int, float]]) -> float:
    """Return the largest relative excess of live peak of searched solutions over exact ones that are as fast.

    searched: (peak, ms) of each. Infinity if the search has no solution as fast as an exact one.
    """
    gap = 0.0
    for point in exact:
        peak = min((peak for peak, ms in searched if ms <= point.ms * (1 + 1e-9)), default=float("inf"))
        gap = max(gap, peak / point.peak - 1 if point.peak else 0.0)
    return gap
