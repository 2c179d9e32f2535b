"""Joint arena of an application: an offset for each edge's data in one memory, instead of whole shared buffers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from mavcg.apps.application import Application
from mavcg.apps.buffers import EdgeData, live_together
from mavcg.apps.derivation import Derived
from mavcg.apps.running_together import partition_cliques
from mavcg.apps.token_simulator import Ring, greedy_rings
from mavcg.memory.instance_file import first_fit
from mavcg.memory.placement_search import LiveBuffer, SearchLimits, live_peak, search_placement
from mavcg.memory.shared_placement import place_together

NODES = 20_000  # limit of the search: well below a second for most applications


@dataclass(frozen=True)
class JointArena:
    """An arena with all data of an application.

    rings: location of each edge's data. size: of the arena. lower_bound: smallest size possible with partitions that
    run together in separate ranges. times: live interval [begin, end) of each data on one axis, for pictures.
    """

    rings: dict[EdgeData, Ring]
    size: int
    lower_bound: int
    times: dict[EdgeData, tuple[int, int]]

    @property
    def optimal(self) -> bool:
        """True if no such arena is smaller, which is proven."""
        return self.size == self.lower_bound


@dataclass(frozen=True)
class _Range:
    """A separate range of memory: offsets of its data, its extent, and a lower bound of the extent."""

    offsets: dict[EdgeData, int]
    extent: int
    bound: int


def plan_joint_arena(derived: Derived, nodes: int = NODES) -> JointArena:
    """Place all data, in at most the memory of Algorithm 8's shared buffers.

    Partitions that run together share nothing: each has its own range, planned by itself. Partitions that never run
    together follow each other in time. Data between partitions that are not parallel is live in both.
    """
    app = derived.app
    group = _groups(app)
    lengths = {p.name: _length(derived, p.name) for p in app.partitions}
    by_partition: dict[str, list[EdgeData]] = {p.name: [] for p in app.partitions}
    alone: list[EdgeData] = []
    for data in derived.data:
        home = data.spans[0].partition
        linked = len(group[home]) > 1
        (by_partition[home] if linked and len(data.spans) == 1 else alone).append(data)
    starts, time = {}, 0
    for members in dict.fromkeys(group[p.name] for p in app.partitions):
        for name in members:
            starts[name] = time
        time += max(lengths[name] for name in members)
    times = {d: _on_axis(d, starts, lengths, group) for d in derived.data}
    ranges: list[tuple[_Range, int, int]] = []
    for members in dict.fromkeys(group[p.name] for p in app.partitions):
        begin, end = starts[members[0]], starts[members[0]] + max(lengths[name] for name in members)
        own = {name: _range_of(by_partition[name], nodes) for name in members if by_partition[name]}
        across = [d for d in alone if len(members) > 1 and {span.partition for span in d.spans} <= set(members)]
        if len(partition_cliques(app, members)) > 1 and own:
            alone = [d for d in alone if d not in across]
            ranges.append((_shared_ranges(app, own, across), begin, end))
        else:
            ranges += [(range_, begin, end) for range_ in own.values()]
    buffers = [LiveBuffer(d.size, *times[d]) for d in alone]
    buffers += [LiveBuffer(range_.extent, begin, end) for range_, begin, end in ranges]
    placed = search_placement(buffers, first_fit(buffers), SearchLimits(nodes))
    rings = {d: Ring(offset, d.size) for d, offset in zip(alone, placed.offsets, strict=False)}
    for (range_, _, _), offset in zip(ranges, placed.offsets[len(alone) :], strict=True):
        rings |= {d: Ring(offset + at, d.size) for d, at in range_.offsets.items()}
    least = [LiveBuffer(range_.bound, begin, end) for range_, begin, end in ranges]
    exact = all(range_.extent == range_.bound for range_, _, _ in ranges)
    bound = placed.lower_bound if exact else live_peak([*buffers[: len(alone)], *least])
    greedy = sum(buffer.size for buffer in derived.buffers)
    if placed.extent > greedy:
        return JointArena(greedy_rings(derived), greedy, min(bound, greedy), times)
    return JointArena(rings, placed.extent, bound, times)


def _range_of(data: Sequence[EdgeData], nodes: int) -> _Range:
    """Place the data of one partition that no other partition accesses."""
    steps = [LiveBuffer(d.size, d.spans[0].first, d.spans[0].last + 1) for d in data]
    placed = search_placement(steps, first_fit(steps), SearchLimits(nodes))
    return _Range(dict(zip(data, placed.offsets, strict=True)), placed.extent, placed.lower_bound)


def _shared_ranges(app: Application, ranges: Mapping[str, _Range], across: Sequence[EdgeData]) -> _Range:
    """Place the ranges of linked partitions; those that never run together may share memory.

    across: data between them.
    """
    names, sizes = [*ranges], [*(range_.extent for range_ in ranges.values()), *(d.size for d in across)]
    together = {frozenset((a, b)) for a, b in combinations(range(len(names)), 2) if app.runs_with(names[a], names[b])}
    for number, data in enumerate(across, len(names)):
        # All data of a partition in which this data is live counts as live with it.
        homes = [span.partition for span in data.spans]
        together |= {
            frozenset((number, position))
            for position, name in enumerate(names)
            if any(home == name or app.runs_with(home, name) for home in homes)
        }
        together |= {
            frozenset((number, position))
            for position, later in enumerate(across[number - len(names) + 1 :], number + 1)
            if live_together(app, data, later)
        }
    placed = place_together(sizes, together)
    offsets = dict(zip(across, placed.offsets[len(names) :], strict=True))
    for range_, offset in zip(ranges.values(), placed.offsets, strict=False):
        offsets |= {d: offset + at for d, at in range_.offsets.items()}
    exact = placed.optimal and not across and all(range_.extent == range_.bound for range_ in ranges.values())
    cliques = partition_cliques(app, names)
    bound = max(sum(ranges[name].bound for name in clique) for clique in cliques)
    return _Range(offsets, placed.extent, placed.extent if exact else bound)


def _groups(app: Application) -> dict[str, tuple[str, ...]]:
    """Return for each partition the group linked to it by running at the same time, directly or through others."""
    groups: dict[str, tuple[str, ...]] = {}
    for partition in app.partitions:
        if partition.name not in groups:
            group = [partition.name]
            for name in group:
                group += [p.name for p in app.partitions if app.runs_with(name, p.name) and p.name not in group]
            groups |= dict.fromkeys(group, tuple(group))
    return groups


def _length(derived: Derived, partition: str) -> int:
    last = [span.last for data in derived.data for span in data.spans if span.partition == partition]
    return max(last, default=0) + 1


def _on_axis(
    data: EdgeData, starts: dict[str, int], lengths: dict[str, int], group: dict[str, tuple[str, ...]]
) -> tuple[int, int]:
    """Return the data's live interval on the common axis.

    The whole group's time for data between parallel partitions.
    """
    begins, ends = [], []
    for span in data.spans:
        start, members = starts[span.partition], group[span.partition]
        together = len(members) > 1 and len(data.spans) > 1
        begins.append(start if together else start + span.first)
        ends.append(start + (max(lengths[name] for name in members) if together else span.last + 1))
    return min(begins), max(ends)
