"""Paging of an application's weights by its schedule: which of them are in memory in which phase, within a limit.

A library's weights are pages of its file, which the kernel maps when they are first read. Phases that follow each other
are *groups*. While a group computes, a thread of the engine releases the pages of the group before, and maps those of
the next one: of the same network, or, in its last group, of the network that follows in the application's order. So the
weights of two groups are in memory at a time, and those that are *kept* in all phases. The smaller the groups, the more
weights are kept; the plan has the sizes with which a run maps the fewest bytes, calls of the system counted as bytes.
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
# What a call of the system costs, as bytes that are mapped. A release interrupts the other CPU: on an Intel Xeon
# with AMX (sapphirerapids), virtual, it takes 20 us, where a granule takes 5 us to map and to release, 2 us if its
# pages are one folio of the page cache (2026-12-01, d39b10fe); on the Zen 3 a granule takes 17.
_CALL_BYTES = 6 * GRANULE
_LARGEST = 2  # sections that are kept first, at most
_SIZE_STEPS = 32  # group sizes are multiples of limit / 32, up to half

Range = tuple[int, int]
Ranges = tuple[Range, ...]


@dataclass(frozen=True)
class WeightPaging:
    """The pages of each network's phases.

    pages: of each network, in the order of its phases; empty where all weights stay. resident_bytes: of weights at most
    in memory at a time. kept_bytes: of those that stay in memory. paged_bytes: of weights that a run of each network,
    one after the other, maps anew.
    """

    limit_bytes: int
    resident_bytes: int
    kept_bytes: int
    paged_bytes: int
    pages: tuple[tuple[PagedWeights, ...], ...]

    @property
    def time_ms(self) -> float:
        """Predicted time of paging in a run of each network, beside the computation if there are two threads."""
        return self.paged_bytes / GRANULE * GRANULE_MS


@dataclass(frozen=True)
class _PagedPhases:
    """Consecutive phases of a network with the weights that they read.

    A section, which is a phase outside loops or an outermost loop, or a group of sections. phase: the first.
    """

    network: int
    phase: int
    ranges: Ranges


@dataclass(frozen=True)
class _PhaseGroups:
    """The groups of all networks, in the application's order, and the weights that are kept beside them."""

    groups: tuple[_PagedPhases, ...]
    kept: Ranges

    def pairs(self) -> Iterator[tuple[_PagedPhases, _PagedPhases]]:
        """Yield each group with the following one."""
        return zip(self.groups, (*self.groups[1:], self.groups[0]), strict=True)

    def following(self, number: int) -> _PagedPhases:
        return self.groups[(number + 1) % len(self.groups)]

    def is_mapped_ahead(self, number: int, limit: int) -> bool:
        """Return True if the weights of a group and of the following one may be in memory together."""
        return _resident(self.ranges_in(number, ahead=True)) <= limit

    def ranges_in(self, number: int, ahead: bool) -> Ranges:
        """Return the weights in memory while a group computes, those of the following one mapped ahead or not."""
        following = self.following(number).ranges if ahead else ()
        return _merge_ranges((*self.kept, *self.groups[number].ranges, *following))

    @property
    def paged_bytes(self) -> int:
        return sum(_bytes(group.ranges) for group in self.groups)

    def cost(self, limit: int) -> float:
        """Return what a run of each network maps, in bytes, those twice that are not mapped ahead, and calls."""
        late = sum(
            _bytes(self.following(n).ranges) for n in range(len(self.groups)) if not self.is_mapped_ahead(n, limit)
        )
        calls = sum(1 + len(group.ranges) for group in self.groups)
        return self.paged_bytes + late + calls * _CALL_BYTES


def plan_paging(file: ApplicationFile, networks: Sequence[Plan], pool_bytes: int, limit: int) -> WeightPaging:
    """Plan which weights are in memory in which phase of each network.

    networks: with their constants in one pool of pool_bytes. Raises: MavcgError naming the layer whose weights alone
    exceed the limit, in bytes.
    """
    if pool_bytes <= limit:
        return WeightPaging(limit, pool_bytes, pool_bytes, 0, ((),) * len(networks))
    sections = [section for number, plan in enumerate(networks) for section in _sections(number, plan)]
    for section in sections:
        if _resident(section.ranges) > limit:
            program = networks[section.network].program
            layer = program.steps[program.phases[section.phase].step if program.phases else section.phase].name
            raise MavcgError(
                f"{file.path}: weights_resident = {limit} bytes: the layer '{layer}' of network '{program.name}' takes "
                f"{_resident(section.ranges)} bytes of weights at a time; raise "
                'weights_resident, or store them in fewer bits by weights = "int8"'
            )
    sizes = [limit * part // _SIZE_STEPS for part in range(1, _SIZE_STEPS // 2 + 1)]
    tried = [_make_groups(sections, (), size) for size in sizes]  # within the limit, as each section is
    for size in sizes:
        for largest in range(_LARGEST + 1):
            tried += _with_kept(sections, size, largest, limit)
    best = min((each for each in tried if _most(each, limit) <= limit), key=lambda each: each.cost(limit))
    return WeightPaging(
        limit,
        _most(best, limit),
        _bytes(best.kept),
        best.paged_bytes,
        tuple(tuple(_pages_of(best, number, pool_bytes, limit)) for number in range(len(networks))),
    )


def _with_kept(sections: Sequence[_PagedPhases], size: int, largest: int, limit: int) -> Iterator[_PhaseGroups]:
    """Yield groups of at most so many bytes, and beside any two of them as many weights that are kept as fit.

    largest: number of the largest sections that are kept first, so that no group needs room for them.
    """
    by_size = sorted(sections, key=lambda each: -_bytes(each.ranges))
    first = _merge_ranges([each for section in by_size[:largest] for each in section.ranges])
    pairs = _make_groups(sections, first, size).pairs()
    # Room for the largest pair, or for two groups of that size: some larger sections may be among those that are kept.
    for room in {max(_resident(_merge_ranges((*a.ranges, *b.ranges))) for a, b in pairs), 2 * size}:
        for order in (by_size, sections, sections[::-1]):  # in the latter, weights that are kept lie side by side
            kept = first
            for section in order:
                more = _merge_ranges((*kept, *section.ranges))
                if _resident(more) + room <= limit:
                    kept = more
            yield _make_groups(sections, kept, size)


def _make_groups(sections: Sequence[_PagedPhases], kept: Ranges, size: int) -> _PhaseGroups:
    """Return the groups of all networks, each of consecutive sections of one network, of at most `size` bytes, without
    the weights that are kept."""
    groups: list[_PagedPhases] = []
    network, first, ranges = 0, 0, Ranges()
    for section in sections:
        own = tuple(each for each in section.ranges if not _is_within(each, kept))
        both = _merge_ranges((*ranges, *own))
        if section.network != network or (ranges and own and _resident(both) > size):
            groups.append(_PagedPhases(network, first, ranges))
            first, both = section.phase, _merge_ranges(own)
        network, ranges = section.network, both
    return _PhaseGroups((*groups, _PagedPhases(network, first, ranges)), kept)


def _most(plan: _PhaseGroups, limit: int) -> int:
    """Return the bytes of weights that are in memory at most."""
    return max(_resident(plan.ranges_in(n, plan.is_mapped_ahead(n, limit))) for n in range(len(plan.groups)))


def _pages_of(plan: _PhaseGroups, network: int, pool_bytes: int, limit: int) -> Iterator[PagedWeights]:
    """Yield what a network's run does with pages.

    Its first group may follow any network, and maps its own weights, too; so does a group that was not mapped ahead.
    """
    mapped = False
    for number, group in enumerate(plan.groups):
        if group.network != network:
            continue
        ahead = plan.is_mapped_ahead(number, limit)
        others = tuple(_others(plan.ranges_in(number, ahead), pool_bytes))
        advised: dict[str, Sequence[Range]] = {}
        if not mapped:
            advised = {"release": others, "map": group.ranges}
        elif ahead:
            before = plan.ranges_in(number - 1, ahead=True)
            advised = {"release_beside": tuple(_near(others, before))}
        if ahead:
            advised["map"] = (*advised.get("map", ()), *plan.following(number).ranges)
        for advice, ranges in advised.items():
            yield from (PagedWeights(group.phase, begin, end, advice) for begin, end in ranges)
        mapped = ahead


def _sections(number: int, plan: Plan) -> Iterator[_PagedPhases]:
    """Yield the phases of a network that no loop repeats, and each outermost loop, with the weights that they read."""
    phases = plan.program.phases or plan.program.steps
    after = 0
    for phase in range(len(phases)):
        if phase < after:
            continue
        after = max([loop.end for loop in plan.program.loops if loop.begin == phase], default=phase + 1)
        operands = [operand for inner in phases[phase:after] for operand in inner.operands]
        begins = [operand.offset for operand in operands if operand.base == "constants"]
        yield _PagedPhases(number, phase, tuple(_constant_at(plan, begin) for begin in dict.fromkeys(begins)))


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


def _is_within(own: Range, ranges: Ranges) -> bool:
    return any(begin <= own[0] and own[1] <= end for begin, end in ranges)


def _bytes(ranges: Ranges) -> int:
    return sum(end - begin for begin, end in ranges)


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


def _near(ranges: Ranges, others: Ranges) -> Iterator[Range]:
    """Yield the parts of ranges that lie in others, or within a granule of them."""
    for begin, end in ranges:
        for first, last in others:
            low, high = max(begin, first - GRANULE), min(end, last + GRANULE)
            if low < high:
                yield low, high
