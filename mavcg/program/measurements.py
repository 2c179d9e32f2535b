"""Reads and writes measured times of versions: the JSON file that `mavcg measure` writes and `mavcg build` reads.

Source: uarch-codegen paper, chapter 3.2.3: every version is profiled on its core, and those without a gain are removed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole
from mavcg.program.profiling.profile_file import clean_text
from mavcg.program.version_choice import Gain, Gains

FORMAT = "mavcg-measurements"
VERSION = 1
# N sampling interrupts have a standard error of about sqrt(N), a tenth at 100; fewer are not used.
MIN_SAMPLES = 100

_AGAIN = "measure again with mavcg measure -o"


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

    function: str
    core: str
    event: str
    generic: tuple[float, ...]
    own: tuple[float, ...]
    generic_samples: int
    own_samples: int
    generic_share: float
    machine: str = ""

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


def as_gain(measurement: Measurement) -> Gain | None:
    """Return a measurement as a gain for version_choice; None if it has too few samples."""
    fraction, spread = measurement.gain, measurement.spread
    if fraction is None or spread is None:
        return None
    runs = f"{len(measurement.own)} runs, {spread[0]:+.1%} to {spread[1]:+.1%}"
    return Gain(fraction, ", ".join(filter(None, ["measured", runs, measurement.machine])))


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
    document = {"format": FORMAT, "version": VERSION, "measurements": [_entry(m) for m in measurements]}
    write_whole(path, json.dumps(document, indent=1) + "\n")


def _entry(m: Measurement) -> dict[str, Any]:
    return {
        "function": m.function,
        "core": m.core,
        "machine": m.machine,
        "event": m.event,
        "generic": list(m.generic),
        "own": list(m.own),
        "generic_samples": m.generic_samples,
        "own_samples": m.own_samples,
        "generic_share": m.generic_share,
    }


def load_measurements(path: Path) -> tuple[Measurement, ...]:
    """Read the entries of a file. Raises: MavcgError with file and entry for a file that cannot be used."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        remedy = "make it with mavcg measure -o, or build without measurements first"
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise MavcgError(f"{path}: not a whole JSON file ({error}); {_AGAIN}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise MavcgError(f"{path}: JSON, but its format is not {FORMAT}; give a file of mavcg measure -o")
    if document.get("version") != VERSION:
        raise MavcgError(
            f"{path}: measurements version {document.get('version')!r}, this mavcg reads {VERSION}; {_AGAIN}"
        )
    entries = document.get("measurements")
    if not isinstance(entries, list):
        raise MavcgError(f"{path}: measurements is not a list; {_AGAIN}")
    by_version: dict[tuple[str, str], Measurement] = {}
    for number, entry in enumerate(entries):
        location = f"{path}: measurements[{number}]"
        measurement = _measurement(entry, location)
        if (measurement.function, measurement.core) in by_version:
            raise MavcgError(
                f"{location}: {measurement.function} on {measurement.core} occurs twice; keep one of the entries"
            )
        by_version[measurement.function, measurement.core] = measurement
    return tuple(by_version.values())


def _measurement(entry: Any, location: str) -> Measurement:
    if not isinstance(entry, dict):
        raise MavcgError(f"{location}: is not an object; {_AGAIN}")
    generic, own = _times(entry, "generic", location), _times(entry, "own", location)
    if len(generic) != len(own):
        raise MavcgError(f"{location}: {len(generic)} generic times and {len(own)} own ones; {_AGAIN}")
    share = _number(entry.get("generic_share"), f"{location}: generic_share", 1.0)
    return Measurement(
        function=_text(entry, "function", location),
        core=_text(entry, "core", location),
        event=_text(entry, "event", location),
        generic=generic,
        own=own,
        generic_samples=_count(entry, "generic_samples", location),
        own_samples=_count(entry, "own_samples", location),
        generic_share=share,
        machine=_text(entry, "machine", location),
    )


def _times(entry: Mapping[str, Any], name: str, location: str) -> tuple[float, ...]:
    value = entry.get(name)
    if not isinstance(value, list) or not value:
        raise MavcgError(f"{location}: {name} is {_figure_text(value)}, not a list of times; {_AGAIN}")
    return tuple(_number(item, f"{location}: {name}[{i}]", 1e30) for i, item in enumerate(value))


def _number(value: Any, location: str, limit: float) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value <= limit:  # nan is in no range
        raise MavcgError(f"{location}: is {_figure_text(value)}, not a number from 0 to {limit:g}; {_AGAIN}")
    return float(value)


def _count(entry: Mapping[str, Any], name: str, location: str) -> int:
    value = entry.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise MavcgError(f"{location}: {name} is {_figure_text(value)}, not a count; {_AGAIN}")
    return value


def _text(entry: Mapping[str, Any], name: str, location: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or (not value and name != "machine"):
        raise MavcgError(f"{location}: {name} is {_figure_text(value)}, not a text; {_AGAIN}")
    return clean_text(value)


def _figure_text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
