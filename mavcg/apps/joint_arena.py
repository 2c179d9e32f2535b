"""Data of a whole application at offsets in one memory, in place of whole buffers that are shared."""

from dataclasses import dataclass

from mavcg.apps.application import Application
from mavcg.apps.buffers import EdgeData
from mavcg.apps.derivation import Derived
from mavcg.apps.token_simulator import Ring, greedy_rings
from mavcg.memory.instance_file import first_fit
from mavcg.memory.placement_search import LiveBuffer, SearchLimits, live_peak, search_placement

NODES = 20_000  # of the search: well below a second for most applications


@dataclass(frozen=True)
class JointArena:
    """rings: where each edge's data lies. size: of the arena; lower_bound: no arena is smaller that keeps partitions
    that run together in separate ranges. times: when data is live, as [begin, end) on one axis, for pictures."""

    rings: dict[EdgeData, Ring]
    size: int
    lower_bound: int
    times: dict[EdgeData, tuple[int, int]]

    @property
    def optimal(self) -> bool:
        """True if it is proven that no such arena is smaller."""
        return self.size == self.lower_bound


def plan_joint_arena(derived: Derived, nodes: int = NODES) -> JointArena:
    """Place all data; never in more memory than the shared buffers of Algorithm 8 take.

    Partitions that run together share nothing: each has a range of its own, planned by itself. What takes turns is laid
    out one after the other in time. Data between partitions that are not parallel is live over both.
    """
    app = derived.app
    group = _groups(app)
    lengths = {p.name: _length(derived, p.name) for p in app.partitions}
    inside: dict[str, list[EdgeData]] = {p.name: [] for p in app.partitions}
    alone: list[EdgeData] = []
    for data in derived.data:
        home = data.spans[0].partition
        linked = len(group[home]) > 1
        (inside[home] if linked and len(data.spans) == 1 else alone).append(data)
    starts, now = {}, 0
    for members in dict.fromkeys(group[p.name] for p in app.partitions):
        for name in members:
            starts[name] = now
        now += max(lengths[name] for name in members)
    times = {d: _on_axis(d, starts, lengths, group) for d in derived.data}
    buffers, owners = [LiveBuffer(d.size, *times[d]) for d in alone], list[EdgeData | str](alone)
    own: dict[str, tuple[dict[EdgeData, int], int, int]] = {}
    for name, data_of in inside.items():
        if data_of:
            steps = [LiveBuffer(d.size, d.spans[0].first, d.spans[0].last + 1) for d in data_of]
            found = search_placement(steps, first_fit(steps), SearchLimits(nodes))
            own[name] = dict(zip(data_of, found.offsets, strict=True)), found.extent, found.lower_bound
            end = starts[name] + max(lengths[n] for n in group[name])
            buffers.append(LiveBuffer(found.extent, starts[name], end))
            owners.append(name)
    placed = search_placement(buffers, first_fit(buffers), SearchLimits(nodes))
    rings: dict[EdgeData, Ring] = {}
    for owner, offset in zip(owners, placed.offsets, strict=True):
        if isinstance(owner, EdgeData):
            rings[owner] = Ring(offset, owner.size)
        else:
            rings |= {d: Ring(offset + at, d.size) for d, at in own[owner][0].items()}
    least = [
        LiveBuffer(own[o][2] if isinstance(o, str) else o.size, b.first, b.end)
        for o, b in zip(owners, buffers, strict=True)
    ]
    exact = all(extent == bound for _, extent, bound in own.values())
    bound = placed.lower_bound if exact else live_peak(least)
    greedy = sum(buffer.size for buffer in derived.buffers)
    if placed.extent > greedy:
        return JointArena(greedy_rings(derived), greedy, min(bound, greedy), times)
    return JointArena(rings, placed.extent, bound, times)


def _groups(app: Application) -> dict[str, tuple[str, ...]]:
    """Return for each partition those that are linked to it by running together, itself included."""
    found: dict[str, tuple[str, ...]] = {}
    for partition in app.partitions:
        if partition.name not in found:
            group = [partition.name]
            for name in group:
                group += [p.name for p in app.partitions if app.runs_with(name, p.name) and p.name not in group]
            found |= dict.fromkeys(group, tuple(group))
    return found


def _length(derived: Derived, partition: str) -> int:
    last = [span.last for data in derived.data for span in data.spans if span.partition == partition]
    return max(last, default=0) + 1


def _on_axis(
    data: EdgeData, starts: dict[str, int], lengths: dict[str, int], group: dict[str, tuple[str, ...]]
) -> tuple[int, int]:
    """Return the time from the data's first step to its last; all of a group's time where partitions run together."""
    begins, ends = [], []
    for span in data.spans:
        start, members = starts[span.partition], group[span.partition]
        together = len(members) > 1 and len(data.spans) > 1
        begins.append(start if together else start + span.first)
        ends.append(start + (max(lengths[name] for name in members) if together else span.last + 1))
    return min(begins), max(ends)
