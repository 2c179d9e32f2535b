"""Cores that compute a layer together."""

from collections.abc import Mapping
from dataclasses import dataclass

from mavcg.hardware.core_model import CoreModel


@dataclass(frozen=True)
class CoreTeam:
    """Core types that compute a layer together: one core of each, and the number of cores of each."""

    cores: tuple[CoreModel, ...]
    counts: tuple[int, ...]

    @property
    def all_cores(self) -> list[CoreModel]:
        """Each core once for every core of its type, the cores of a type next to each other."""
        return [core for core, count in zip(self.cores, self.counts, strict=True) for _ in range(count)]

    @property
    def fastest(self) -> "CoreTeam":
        """The cores of the fastest type alone."""
        number = max(range(len(self.cores)), key=lambda n: self.cores[n].peak_gmac_per_s)
        return CoreTeam((self.cores[number],), (self.counts[number],))


def core_team(cores: Mapping[str, CoreModel], counts: Mapping[str, int]) -> CoreTeam:
    """Return the team of the core types that are present. cores, counts: by the version's label."""
    present = [label for label, count in counts.items() if count]
    return CoreTeam(tuple(cores[label] for label in present), tuple(counts[label] for label in present))
