"""Ranks functions by samples, hottest first, and chooses those worth a version per core."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mavcg.program.profiling.clonable import is_nameless, why_not_clonable
from mavcg.program.profiling.demangle import base_symbol, demangle
from mavcg.program.profiling.profile import Profile
from mavcg.program.profiling.sample_table import UNKNOWN

DEFAULT_THRESHOLD = 0.05  # the share of the run from which on a function is hot

# Minimum of samples for a core type's shares to count: a share of 5 % then has a standard deviation of 2.2 points.
MIN_CORE_RECORDS = 100


@dataclass(frozen=True)
class RankedFunction:
    """One function of the ranking.

    Args:
        symbol: linkage name without the suffixes of parts, clones and versions; a demangled name if the profiler
            printed that and no binary has the linkage name.
        demangled: its readable name.
        samples: events or instructions counted.
        share: of all samples, those of the kernel and of unknown functions included, 0..1.
        share_by_core: core type -> share of that core type's samples; empty if no sample names its core.
        clonable: True if it can have a version per core.
        why_not: the reason if it cannot; else "".
    """

    symbol: str
    demangled: str
    object: str
    samples: float
    share: float
    share_by_core: Mapping[str, float]
    clonable: bool
    why_not: str


def rank(profile: Profile) -> tuple[RankedFunction, ...]:
    """Rank all functions with samples, hottest first, then by name."""
    totals: dict[tuple[str, str], float] = {}
    by_core: dict[tuple[str, str], dict[str, float]] = {}
    core_totals = _core_sums(profile, "samples")
    frame = profile.frame.assign(core=profile.frame["core"].fillna(""))
    columns = (frame[column] for column in ("symbol", "object", "core", "samples"))
    for symbol, object_, core, samples in zip(*columns, strict=True):
        key = (UNKNOWN if is_nameless(symbol) else base_symbol(symbol), str(object_))
        totals[key] = totals.get(key, 0.0) + samples
        if core:
            cores = by_core.setdefault(key, {})
            cores[core] = cores.get(core, 0.0) + samples
    total = profile.total
    ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        _function(
            key, samples, total, {c: by_core.get(key, {}).get(c, 0.0) / t for c, t in core_totals.items() if t > 0}
        )
        for key, samples in ordered
        if samples > 0
    )


def hot(
    profile: Profile, threshold: float = DEFAULT_THRESHOLD, max_functions: int | None = None
) -> tuple[RankedFunction, ...]:
    """Choose the functions worth a version per core: the hottest first, while their shares are over the threshold.

    A function is over the threshold if its share of all samples is, or its share of the samples of a core type with at
    least MIN_CORE_RECORDS samples: it may pay to have a version for a core type that does little of the whole work.
    Kernel, unnamed and library functions are never chosen, but their samples count in the total.

    Args:
        threshold: 0..1, exclusive.
        max_functions: None for no limit.
    Source: Park et al., flow of figure 3.2: "continues onto the next function in the list if its share in runtime is
    higher than a threshold".
    """
    trusted = trusted_cores(profile)
    over = (f for f in rank(profile) if f.clonable and is_over(f, threshold, trusted))
    return tuple(over)[: max_functions if max_functions is None else max(0, max_functions)]


def is_over(function: RankedFunction, threshold: float, trusted: frozenset[str]) -> bool:
    """True if a function's share of all samples, or of those of one trusted core type, is over the threshold."""
    return function.share > threshold or any(
        share > threshold for core, share in function.share_by_core.items() if core in trusted
    )


def trusted_cores(profile: Profile) -> frozenset[str]:
    """Return the core types with enough samples for their shares to be meaningful."""
    return frozenset(core for core, n in _core_sums(profile, "records").items() if n >= MIN_CORE_RECORDS)


def _core_sums(profile: Profile, column: str) -> dict[str, float]:
    sums = profile.frame.dropna(subset=["core"]).groupby("core")[column].sum()
    return {str(core): float(value) for core, value in sums.items()}


def _function(key: tuple[str, str], samples: float, total: float, shares: dict[str, float]) -> RankedFunction:
    symbol, object_ = key
    why_not = why_not_clonable(symbol, object_)
    return RankedFunction(
        symbol, demangle(symbol), object_, samples, samples / total, MappingProxyType(shares), not why_not, why_not
    )
