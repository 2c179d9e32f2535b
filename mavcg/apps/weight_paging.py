"""Paging of an application's weights by its schedule: which of them are in memory in which phase, within a limit.

A library's weights are pages of its file, which the kernel maps when they are first read. Phases that follow each other
are *groups*, whose weights take at most half of the limit. When a group begins, the engine releases the pages of all
other weights but the next group's, maps the group's own, and has the kernel read those of the next group from the file
meanwhile: of the same network, or, in its last group, of the network that follows in the application's order.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mavcg.apps.application_file import ApplicationFile
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.specs.model_program import PagedWeights

# Granule of pages: where a page is read that is not mapped, Linux maps those of its 64 KiB that are in memory, too
# (fault_around_bytes); it is also the largest base page. GRANULE of csrc/engine_paging.c.
GRANULE = 1 << 16
# Time to map a granule whose pages the kernel has in memory, to release it, and of the misses that follow: measured on
# a virtual Zen 3, 4.9 ms for 22.0 MB and 3.3 ms for 11.2 MB in a run of each of three networks.
GRANULE_MS = 0.017

Range = tuple[int, int]
Ranges = tuple[Range, ...]


@dataclass(frozen=True)
class WeightPaging:
    """The pages of each network's phases.

    pages: of each network, in the order of its phases; empty where all weights stay. resident_bytes: of weights at most
    in memory at a time. paged_bytes: of weights that a run of each network, one after the other, maps anew.
    """

    limit_bytes: int
    resident_bytes: int
    paged_bytes: int
    pages: tuple[tuple[PagedWeights, ...], ...]

    @property
    def time_ms(self) -> float:
        """Predicted time that paging adds to a run of each network."""
        return self.paged_bytes / GRANULE * GRANULE_MS


@dataclass(frozen=True)
class _PhaseGroup:
    network: int
    phase: int  # the first
    ranges: Ranges


def plan_paging(file: ApplicationFile, networks: Sequence[Plan], pool_bytes: int, limit: int) -> WeightPaging:
    """Plan which weights are in memory in which phase of each network.

    networks: with their constants in one pool of pool_bytes. Raises: MavcgError naming the layer whose weights alone
    exceed the limit, in bytes.
    """
    if pool_bytes <= limit:
        return WeightPaging(limit, pool_bytes, 0, ((),) * len(networks))
    groups = [group for number, plan in enumerate(networks) for group in _groups(number, plan, limit)]
    for group in groups:
        if _resident(group.ranges) > limit:
            program = networks[group.network].program
            layer = program.steps[program.phases[group.phase].step if program.phases else group.phase].name
            raise MavcgError(
                f"{file.path}: weights_resident = {limit} bytes: the layer '{layer}' of network '{program.name}' takes "
                f"{_resident(group.ranges)} bytes of weights at a time; raise "
                'weights_resident, or store them in fewer bits by weights = "int8"'
            )
    most = 0
    pages: list[list[PagedWeights]] = [[] for _ in networks]
    for group, following in zip(groups, [*groups[1:], groups[0]], strict=True):
        both = _merge_ranges((*group.ranges, *following.ranges))
        prefetched = following.ranges if _resident(both) <= limit else ()
        kept = both if prefetched else group.ranges
        most = max(most, _resident(kept))
        advised = {"release": tuple(_others(kept, pool_bytes)), "map": group.ranges, "prefetch": prefetched}
        for advice, ranges in advised.items():
            pages[group.network] += [PagedWeights(group.phase, begin, end, advice) for begin, end in ranges]
    return WeightPaging(
        limit,
        most,
        sum(end - begin for group in groups for begin, end in group.ranges),
        tuple(map(tuple, pages)),
    )


def _groups(number: int, plan: Plan, limit: int) -> Iterator[_PhaseGroup]:
    """Yield the groups of a network's phases; a loop is in one group."""
    first, ranges = 0, Ranges()
    for phase, own in _sections(plan):
        both = _merge_ranges((*ranges, *own))
        if ranges and own and _resident(both) > limit // 2:
            yield _PhaseGroup(number, first, ranges)
            first, both = phase, _merge_ranges(own)
        ranges = both
    yield _PhaseGroup(number, first, ranges)


def _sections(plan: Plan) -> Iterator[tuple[int, Ranges]]:
    """Yield the first phase and the weights of each phase that no loop repeats, and of each outermost loop."""
    phases = plan.program.phases or plan.program.steps
    after = 0
    for number in range(len(phases)):
        if number < after:
            continue
        after = max([loop.end for loop in plan.program.loops if loop.begin == number], default=number + 1)
        operands = [operand for inner in phases[number:after] for operand in inner.operands]
        begins = [operand.offset for operand in operands if operand.base == "constants"]
        yield number, tuple(_constant_at(plan, begin) for begin in dict.fromkeys(begins))


def _constant_at(plan: Plan, offset: int) -> Range:
    """Return the first and the last byte, exclusive, of the constant in which an operand begins."""
    places = plan.memory.constants
    place = places[bisect_right(places, offset, key=lambda constant: constant.offset) - 1]
    return place.offset, place.offset + place.constant.nbytes


def _merge_ranges(ranges: Sequence[Range]) -> Ranges:
    """Return ranges in order, with those that lie in the same or in neighbouring granules as one."""
    merged: list[Range] = []
    for begin, end in sorted(ranges):
        if merged and begin - merged[-1][1] <= 2 * GRANULE:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return tuple(merged)


def _resident(ranges: Ranges) -> int:
    """Return the bytes that may be in memory with these ranges, wherever granules begin, and both ends of the pool."""
    return sum(end - begin + 2 * GRANULE for begin, end in ranges) + 2 * GRANULE


def _others(ranges: Ranges, pool_bytes: int) -> Iterator[Range]:
    """Yield what lies between ranges, before the first and after the last."""
    at = 0
    for begin, end in ranges:
        if begin > at:
            yield at, begin
        at = end
    if at < pool_bytes:
        yield at, pool_bytes
