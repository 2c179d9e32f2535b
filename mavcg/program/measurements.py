"""Reads and writes measured times of versions: the JSON file that `mavcg measure` writes and `mavcg build` reads.

Source: uarch-codegen paper, chapter 3.2.3: every version is profiled on its core, and those without a gain are removed.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from statistics import median, stdev
from typing import Annotated

from msgspec import Meta

from mavcg.files.decode import read_json
from mavcg.files.whole_file import write_whole
from mavcg.program.version_choice import Gain, Gains

FORMAT = "mavcg-measurements"
VERSION = 1
# N sampling interrupts have a standard error of about sqrt(N), a tenth at 100; fewer are not used.
MIN_SAMPLES = 100
_SPREAD_ROUNDS = 3  # from which on rounds show a spread
# 97.5 % quantiles of Student's distribution, for 3 rounds and more; then of the median of normal numbers over their
# median absolute deviation, of 400,000 samples. More than 11 rounds take those of 11.
_STUDENT = (4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
_BY_DEVIATION = (18.45, 4.84, 4.26, 2.66, 2.49, 1.93, 1.86, 1.56, 1.54)
_MEDIAN_ERROR = 1.2533  # standard error of the median of normal numbers over that of their mean

_AGAIN = "measure again with mavcg measure -o"
Name = Annotated[str, Meta(min_length=1, description="a text")]
Samples = Annotated[int, Meta(ge=0, lt=1 << 53, description="a count")]
Times = Annotated[tuple[Annotated[float, Meta(ge=0, le=1e30)], ...], Meta(min_length=1, description="a list of times")]


@dataclass(frozen=True)
class Measurement:
    """Times of a function on CPUs of one core type, with the generic version and with the core's own.

    Args:
        function: its linkage name.
        generic, own: the function's time in each round with either version, in units of `event` (nanoseconds of
            cpu-clock, or cycles); the two runs of a round follow each other.
        generic_samples, own_samples: sampling interrupts in all rounds together.
        generic_share: the function's share of the run time with the generic version, 0..1.
        machine: description of the machine, for messages; "" if unknown.
    """

    function: Name
    core: Name
    event: Name
    generic: Times
    own: Times
    generic_samples: Samples
    own_samples: Samples
    generic_share: Annotated[float, Meta(ge=0, le=1)]
    machine: str = ""

    def __post_init__(self) -> None:
        if len(self.generic) != len(self.own):
            raise ValueError(f"{len(self.generic)} generic times and {len(self.own)} own ones; {_AGAIN}")

    @property
    def too_few(self) -> bool:
        """True if there are too few samples to state a gain."""
        return min(self.generic_samples, self.own_samples) < MIN_SAMPLES or not median(self.generic) > 0

    @property
    def gain(self) -> float | None:
        """Fraction of the generic version's time that the own version saves, by medians; None with too few samples."""
        return None if self.too_few else 1 - median(self.own) / median(self.generic)

    @property
    def spread(self) -> tuple[float, float] | None:
        """Smallest and largest gain of a round, as fractions; None with too few samples."""
        rounds = [1 - own / generic for own, generic in zip(self.own, self.generic, strict=True) if generic > 0]
        return None if self.too_few or not rounds else (min(rounds), max(rounds))

    @property
    def noise(self) -> float | None:
        """Gain that chance alone may show, as a fraction: about one time in thirty; None with too few samples.

        The larger of two: that of the rounds' quotients, and that of sampling, by the number of interrupts. Of the
        rounds, the smaller of two estimates: one by their standard deviation, which few rounds do not underrate, and
        one by their median absolute deviation, which a wild round does not raise.
        """
        if self.too_few:
            return None
        quotients = [own / generic for own, generic in zip(self.own, self.generic, strict=True) if generic > 0]
        middle, number = median(quotients), len(quotients)
        sampled = sqrt((1 - self.generic_share) * (1 / self.generic_samples + 1 / self.own_samples))
        rounds = 0.0
        if number >= _SPREAD_ROUNDS:
            at = min(number - _SPREAD_ROUNDS, len(_STUDENT) - 1)
            by_deviation = _BY_DEVIATION[at] * median([abs(q - middle) for q in quotients])
            rounds = min(_MEDIAN_ERROR * _STUDENT[at] * stdev(quotients) / sqrt(number), by_deviation)
        return max(rounds, 2 * middle * sampled)


def as_gain(measurement: Measurement) -> Gain | None:
    """Return a measurement as a gain for version_choice; None if it has too few samples."""
    fraction, spread = measurement.gain, measurement.spread
    if fraction is None or spread is None:
        return None
    runs = f"{len(measurement.own)} runs, {spread[0]:+.1%} to {spread[1]:+.1%}"
    how = ", ".join(filter(None, ["measured", runs, measurement.machine]))
    before, after = median(measurement.generic), median(measurement.own)
    return Gain(fraction, how, measurement.noise or 0.0, before, after, measurement.event)


def read_measurements(path: Path) -> Gains:
    """Read the gains of a file of measurements, by (function, core).

    Raises: MavcgError with file and entry for a file that cannot be used.
    """
    gains = {(m.function, m.core): as_gain(m) for m in load_measurements(path)}
    return {key: gain for key, gain in gains.items() if gain is not None}


def merge_measurements(old: Sequence[Measurement], new: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Merge old and new entries; a new entry replaces the old one of its function and core.

    New entries without a gain do not replace old ones. Entries of other cores stay; so do those of dropped versions,
    which cannot be measured any more.
    """
    entries = {(m.function, m.core): m for m in (*old, *(m for m in new if not m.too_few))}
    return tuple(entries[key] for key in sorted(entries))


def save_measurements(measurements: Sequence[Measurement], path: Path) -> None:
    """Write the file atomically. Raises: MavcgError if it cannot be written."""
    document = {"format": FORMAT, "version": VERSION, "measurements": [asdict(m) for m in measurements]}
    write_whole(path, json.dumps(document, indent=1) + "\n")


def load_measurements(path: Path) -> tuple[Measurement, ...]:
    """Read the entries of a file. Raises: MavcgError with file and entry for a file that cannot be used."""
    document = read_json(path, "give a file of mavcg measure -o").of_format(FORMAT, VERSION)
    entries = document._replace(remedy=_AGAIN).decode(_File).measurements
    by_version: dict[tuple[str, str], Measurement] = {}
    for number, entry in enumerate(entries):
        if (entry.function, entry.core) in by_version:
            twice = f"{entry.function} on {entry.core} occurs twice"
            raise document.fault(f"measurements[{number}]", twice, "keep one of the entries")
        by_version[entry.function, entry.core] = entry
    return tuple(by_version.values())


@dataclass(frozen=True)
class _File:
    measurements: tuple[Measurement, ...]
