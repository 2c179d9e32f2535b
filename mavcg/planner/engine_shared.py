"""How finely work is claimed whose rows share a reading of the weights: one-kernel Winograd on unequal cores.

Each claim reads all weights. A few claims as large as can be are right for two or four cores that are alike, and a step
is cut so where nothing is planned for it (lowering.task_rows). Where cores differ, half of a layer in the hands of a
slow one keeps all others waiting: smaller claims pay there, as far as reading the weights more often takes no longer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.accelerator import Accelerator
from mavcg.kernels.primitives.winograd_spec import Winograd
from mavcg.lowering import task_rows
from mavcg.planner.board_machine import CORES_THAT_FILL_MEMORY
from mavcg.planner.claims import shared_ns
from mavcg.planner.engine_parts import UNSURE
from mavcg.tile_plan import least_claim_rows

# Of the rows that share a reading, what part a claim has at least: of 36 tiles 6, a register tile's pixels.
LEAST_PART = 6
MANY_CLAIMS = 64  # there are enough of them then, whatever the cores
GAIN = 0.97  # of the time: what smaller claims must be below, with all cores
NO_LATER = 1.01  # and what they may take with the fastest type's cores alone


@dataclass(frozen=True)
class Team:
    """Cores that work on a layer together: of each type one core, and how many there are."""

    cores: tuple[Accelerator, ...]
    counts: tuple[int, ...]

    @property
    def each(self) -> list[Accelerator]:
        """Every core by itself, those of a type one after the other."""
        return [core for core, count in zip(self.cores, self.counts, strict=True) for _ in range(count)]

    @property
    def fastest(self) -> "Team":
        """The cores of the fastest type alone."""
        number = max(range(len(self.cores)), key=lambda n: self.cores[n].peak_gmac_per_s)
        return Team((self.cores[number],), (self.counts[number],))


def shared_claim(spec: Winograd, clusters: Mapping[str, Accelerator], counts: Mapping[str, int]) -> int:
    """Rows that a thread claims at least, where these are fewer than the even claims of a step by itself; 0: they stay.

    All cores of the board must end sooner, and those of the fastest type alone no later: a library is run with either.
    clusters, counts: by the version's label. Cores of one type keep the even claims, which were measured.
    """
    there = [label for label, count in counts.items() if count]
    even, _ = task_rows(spec)
    if len(there) < 2 or not spec.rows or even * MANY_CLAIMS <= spec.rows:
        return 0
    everyone = Team(tuple(clusters[label] for label in there), tuple(counts[label] for label in there))
    least = max(least_claim_rows(spec), -(-spec.shared_rows // LEAST_PART))
    sizes = dict.fromkeys(-(-spec.rows // number) for number in range(2, MANY_CLAIMS + 1))
    all_ns, fastest_ns = ends_ns(spec, even, everyone), ends_ns(spec, even, everyone.fastest)
    best, so_far = 0, math.inf
    for claim in sizes:
        if not least <= claim < even:
            continue
        both = ends_ns(spec, claim, everyone), ends_ns(spec, claim, everyone.fastest)
        if both[0] < GAIN * all_ns and both[1] <= NO_LATER * fastest_ns and both[0] * both[1] < so_far:
            best, so_far = claim, both[0] * both[1]
    return best


def ends_ns(spec: Winograd, claim: int, team: Team) -> float:
    """When a layer ends that is claimed in so many rows or more, or when the last weights are read, if that is later.

    The mean over UNSURE and over either end of the cores as the caller, as engine_parts.over_ideal. Cores compute at
    their peak, and none waits for what it reads longer than that takes it alone.
    """
    tiles, each = spec.tiles, team.each
    weight_bytes = tiles.planes * tiles.panels * tiles.panel_bytes
    told = [spec.work / 2 / core.peak_gmac_per_s / spec.rows for core in each]
    readings = max(1, -(-spec.rows // min(claim, spec.shared_rows)))
    reading = [reading_ns(weight_bytes, core) * readings / spec.rows for core in each]
    found = []
    for other in UNSURE:
        rows_ns = [
            max(one * (other if core % 2 else 1.0), read)
            for core, (one, read) in enumerate(zip(told, reading, strict=True))
        ]
        for way in (slice(None), slice(None, None, -1)):
            found.append(shared_ns(spec.rows, claim, rows_ns[way], [0.0] * len(each), told[way]))
    return max(sum(found) / len(found), readings * _together_ns(weight_bytes, each))


def reading_ns(size: int, core: Accelerator) -> float:
    """What so many bytes take a core that reads them over and over, alone: from the nearest level that holds them."""
    return max((size / level.bandwidth_gb_per_s for level in core.levels if level.shared_bytes < size), default=0.0)


def _together_ns(size: int, cores: Sequence[Accelerator]) -> float:
    """What a reading takes of the memory of all: of a few cores, where no cache holds that much."""
    if any(core.levels[-1].shared_bytes >= size for core in cores):
        return 0.0
    fastest = max(core.levels[-1].bandwidth_gb_per_s for core in cores)
    return size / (min(CORES_THAT_FILL_MEMORY, len(cores)) * fastest)
