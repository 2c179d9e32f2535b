"""The table of samples that every profile reader returns, with the counted event."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mavcg.errors import ProfileError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("symbol", "object", "cpu", "core", "samples", "records")
UNKNOWN = "[unknown]"

# Events whose shares stand for run time, best first; of a file with several events one is used.
TIME_EVENTS = ("cycles", "cpu-cycles", "cpu-clock", "task-clock", "instructions", "Ir")

_PMU_EVENT = re.compile(r"(?P<pmu>[\w.-]+)/(?P<event>[^/]*)/[:\w]*")
_ARM_PMU = re.compile(r"armv\d+_(?P<family>cortex|neoverse)_(?P<model>[a-z]\d+\w*)")

# (symbol, object) of a function -> byte offset from its start -> samples there.
Offsets = Mapping[tuple[str, str], Mapping[int, float]]

# (symbol, object, cpu, core): equal samples are one row.
Key = tuple[str, str, int | None, str | None]


@dataclass(frozen=True)
class SampleTable:
    """A profile as read from a file.

    Args:
        frame: a row per (symbol, object, cpu, core) with the columns
            symbol: linkage name as recorded (or as the tool printed it), UNKNOWN for none;
            object: path or name of the file it lies in, "" when not recorded;
            cpu: Linux CPU number, Int64, missing when not recorded;
            core: core type, string, missing when not known;
            samples: float, events counted (cycles, nanoseconds of cpu-clock) or exact instruction counts;
            records: Int64, number of sampling interrupts behind the row, missing where counts are exact.
        kind: "samples" or "instructions".
        event: the event counted, such as "cycles", "cpu-clock", "Ir".
        command: the command that was profiled; "" if the file does not name it.
        notes: messages from reading the file.
        offsets: positions of samples in their functions, in the units of `samples`; empty when the file has none.
    """

    frame: "pd.DataFrame"
    kind: str
    event: str
    command: str = ""
    notes: tuple[str, ...] = ()
    offsets: Offsets = field(default_factory=dict)


def split_event(name: str) -> tuple[str, str | None]:
    """Return an event without its modifiers, and the core type if the counter's name contains it.

    `cycles:u` -> cycles; `cpu_core/cycles/` -> cycles on cpu_core; `armv8_cortex_a55/cycles/` -> cycles on cortex-a55.
    On a machine with two core types perf opens an event once per type; both count as one event here.
    """
    pmu = _PMU_EVENT.fullmatch(name)
    if pmu is None:
        return re.sub(r":[a-zA-Z]+$", "", name), None
    arm = _ARM_PMU.fullmatch(pmu["pmu"])
    if arm is not None:
        return pmu["event"], f"{arm['family']}-{arm['model']}"
    if pmu["pmu"] in ("cpu_core", "cpu_atom"):
        return pmu["event"], pmu["pmu"]
    return (pmu["event"], None) if not pmu["event"].startswith(("event=", "config=")) else (name, None)


@dataclass
class Tally:
    """Sums of samples per event while a reader reads its file.

    Args:
        rows: event -> key -> [samples, records].
        offsets: event -> function -> offset in bytes -> samples.
    """

    rows: dict[str, dict[Key, list[float]]] = field(default_factory=dict)
    offsets: dict[str, dict[tuple[str, str], dict[int, float]]] = field(default_factory=dict)

    def add(self, event: str, key: Key, samples: float, records: float, offset: int | None = None) -> None:
        """Add a sample, or a line that stands for several samples.

        Args:
            offset: bytes from the function's start; None if unknown.
        """
        symbol, object_, cpu, core = key
        sums = self.rows.setdefault(event, {}).setdefault((symbol or UNKNOWN, object_, cpu, core), [0.0, 0.0])
        sums[0] += samples
        sums[1] += records
        if offset is not None and symbol:
            by_offset = self.offsets.setdefault(event, {}).setdefault((symbol, object_), {})
            by_offset[offset] = by_offset.get(offset, 0.0) + samples

    def reading(self, location: str, kind: str, command: str = "", notes: Iterable[str] = ()) -> SampleTable:
        """Return the table of the event whose shares stand for run time.

        Raises: ProfileError when nothing was counted.
        """
        totals = {event: sum(value[0] for value in rows.values()) for event, rows in self.rows.items()}
        events = [event for event, total in totals.items() if total > 0]
        if not events:
            raise no_samples(location)
        best = min(events, key=lambda e: (TIME_EVENTS.index(e) if e in TIME_EVENTS else len(TIME_EVENTS), -totals[e]))
        left_out = sorted(set(events) - {best})
        more = [f"shares are of event {best}; {', '.join(left_out)} left out"] if left_out else []
        frame = sample_frame(self.rows[best], kind)
        return SampleTable(frame, kind, best, command, (*notes, *more), self.offsets.get(best, {}))


def sample_frame(rows: dict[Key, list[float]], kind: str = "samples") -> "pd.DataFrame":
    """Make the table of COLUMNS from summed rows; for exact counts, the column `records` has no values."""
    import pandas as pd

    keys = list(rows)
    exact = kind != "samples"
    return pd.DataFrame(
        {
            "symbol": pd.array([key[0] for key in keys], dtype="string"),
            "object": pd.array([key[1] for key in keys], dtype="string"),
            "cpu": pd.array([key[2] for key in keys], dtype="Int64"),
            "core": pd.array([key[3] for key in keys], dtype="string"),
            "samples": [float(value[0]) for value in rows.values()],
            "records": pd.array([None if exact else round(value[1]) for value in rows.values()], dtype="Int64"),
        }
    )


def no_samples(location: str) -> ProfileError:
    """Return the error for a profile that holds no samples, with the most likely remedies."""
    return ProfileError(
        f"{location}: no samples; let the program run longer (a second or more), raise --frequency, or count "
        f"instructions exactly: mavcg profile --with callgrind -- COMMAND"
    )
