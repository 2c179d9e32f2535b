"""Times a library's versions on the cores of this machine: a program runs pinned, in turn as generic and as the core.

MAVCG_CPU_MAP tells the library what every CPU is. So one binary runs either version on the same CPUs, and nothing but
the version differs between the two runs of a round.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mavcg.core import GENERIC
from mavcg.cpu_list import cpus_text
from mavcg.errors import MavcgError
from mavcg.profiling.reading import Reading
from mavcg.profiling.record import RecordOptions, describe_exit
from mavcg.program_road.measurements import MIN_SAMPLES, Measurement
from mavcg.program_road.perf_runs import PerfRuns, Place, RunsHere
from mavcg.program_road.version_symbols import VersionedLibrary
from mavcg.runtime.binding import DetectedCpu


class NoVersionRan(MavcgError):
    """The program ran, and none of the library's versions was seen in it."""


DEFAULT_RUNS = 5  # rounds, each of a generic and an own run
# Of a function's samples in a run, how many may lie in other versions than the one that was told to run.
_STRAY_SHARE = 0.05
# Helpers that are copied into versions count to no function; from this share of a run on that is worth saying.
_COPIES_SHARE = 0.05

Progress = Callable[[str], None]


def places(library: VersionedLibrary, found: Sequence[DetectedCpu], allowed: frozenset[int]) -> tuple[Place, ...]:
    """Where the library's versions can be measured. found: the machine; allowed: CPUs that this process may use.

    Raises: MavcgError when there is no such CPU, with what there is.
    """
    usable = {
        core: tuple(cpu.cpu for cpu in found if cpu.core == core and cpu.cpu in allowed) for core in library.cores
    }
    chosen = tuple(Place(core, cpus) for core, cpus in usable.items() if cpus)
    if chosen:
        return chosen
    here: dict[str, list[int]] = {}
    for cpu in found:
        here.setdefault((cpu.core or "of no known core") + (" not allowed here" * (cpu.cpu not in allowed)), []).append(
            cpu.cpu
        )
    has = "; ".join(f"{cpus_text(cpus)} {what}" for what, cpus in here.items())
    raise MavcgError(
        f"{library.path}: has versions for {', '.join(library.cores)}, and this machine has none of them ({has}); "
        "measure on a machine that has one, or say what its CPUs are: MAVCG_CPU_MAP=0-3=CORE"
    )


@dataclass(frozen=True)
class MeasureOptions:
    """runs: rounds of a generic and an own run for each core; frequency_hz, event: as in RecordOptions."""

    runs: int = DEFAULT_RUNS
    frequency_hz: int = RecordOptions().frequency_hz
    event: str | None = None


@dataclass(frozen=True)
class Finding:
    """One function on one core: what was counted, and why no gain can be told from it, or ""."""

    place: Place
    measurement: Measurement
    why_not: str


@dataclass(frozen=True)
class Measured:
    """findings: by core, then by time. notes: what a user should know about the runs."""

    findings: tuple[Finding, ...]
    event: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Run:
    """One run: by function and label of the version that ran, its time in event counts and its samples."""

    times: Mapping[tuple[str, str], float]
    samples: Mapping[tuple[str, str], int]
    total: float
    copies: float
    event: str
    exit_status: int

    def time(self, function: str) -> float:
        return sum(time for (name, _), time in self.times.items() if name == function)


@dataclass
class _Rounds:
    """What is gathered at one place."""

    generic: list[_Run] = field(default_factory=list)
    own: list[_Run] = field(default_factory=list)


def measure(
    library: VersionedLibrary,
    chosen: Sequence[Place],
    command: Sequence[str],
    options: MeasureOptions,
    progress: Progress = lambda message: None,
    runs: PerfRuns | None = None,
) -> Measured:
    """Run the command `runs` times as generic and as the core on each place's CPUs, under perf, and count.

    The program's standard output is thrown away. A first run that is not counted finds the event to sample (the clock
    where there are no counters), fills caches, and shows that the program works. runs: who runs it; this machine.
    Raises: ProfileError when the program cannot be run or loads none of the versions; ToolError when perf cannot
    sample.
    """
    runs = runs or RunsHere()
    runs.check(command)
    total = 1 + 2 * options.runs * len(chosen)
    with open(os.devnull, "wb") as nowhere:
        recording = RecordOptions(options.frequency_hz, options.event, program_stdout=nowhere.fileno())
        progress(f"run 1 of {total}, to warm up")
        first = _run(library, chosen[0], GENERIC, command, recording, runs)
        if not first.samples:
            ended = f" ({command[0]} ended with {describe_exit(first.exit_status)})" if first.exit_status else ""
            raise NoVersionRan(
                f"{library.path}: none of its versions was seen to run{ended}; give a command that loads this very "
                "file and is busy in it for a second"
            )
        recording = replace(recording, event=first.event)
        gathered = {place: _Rounds() for place in chosen}
        number = 1
        for turn in range(options.runs):
            for place, rounds in gathered.items():
                # Each goes first in every other round: what changes with time (clock, heat) favours neither.
                for label in (GENERIC, place.core) if turn % 2 == 0 else (place.core, GENERIC):
                    number += 1
                    progress(f"run {number} of {total}, as {label} on {cpus_text(place.cpus)}")
                    (rounds.generic if label == GENERIC else rounds.own).append(
                        _run(library, place, label, command, recording, runs)
                    )
    findings = [
        _finding(library, function, place, rounds, first.event, runs.words(place.cpus))
        for place, rounds in gathered.items()
        for function in library.functions_for(place.core)
    ]
    findings.sort(key=lambda f: (chosen.index(f.place), -f.measurement.generic_share))
    return Measured(tuple(findings), first.event, _notes(library, command, first, gathered))


def _run(
    library: VersionedLibrary, place: Place, label: str, command: Sequence[str], options: RecordOptions, runs: PerfRuns
) -> _Run:
    recording = runs.record(command, options, place.cpus, label)
    return _count(library, recording.reading, recording.exit_status)


def _count(library: VersionedLibrary, reading: Reading, exit_status: int) -> _Run:
    times: dict[tuple[str, str], float] = {}
    samples: dict[tuple[str, str], int] = {}
    copies = total = 0.0
    rows = zip(*(reading.frame[name] for name in ("symbol", "samples", "records")), strict=True)
    for symbol, time, records in rows:
        total += float(time)
        version = library.symbols.get(str(symbol))
        if version is not None:
            times[version] = times.get(version, 0.0) + float(time)
            samples[version] = samples.get(version, 0) + int(records)
        elif symbol in library.copies:
            copies += float(time)
    return _Run(times, samples, total, copies, reading.event, exit_status)


def _finding(
    library: VersionedLibrary, function: str, place: Place, rounds: _Rounds, event: str, machine: str
) -> Finding:
    counted = [_samples(function, runs) for runs in (rounds.generic, rounds.own)]
    whole = sum(run.total for run in rounds.generic)
    measurement = Measurement(
        function,
        place.core,
        event,
        tuple(run.time(function) for run in rounds.generic),
        tuple(run.time(function) for run in rounds.own),
        sum(counted[0].values()),
        sum(counted[1].values()),
        sum(run.time(function) for run in rounds.generic) / whole if whole else 0.0,
        machine,
    )
    for label, by_label in ((GENERIC, counted[0]), (place.core, counted[1])):
        strays = {other: n for other, n in by_label.items() if other not in library.same_code(function, label)}
        if sum(strays.values()) > _STRAY_SHARE * sum(by_label.values()):
            most = max(strays, key=lambda other: strays[other])
            return Finding(place, measurement, f"told to run as {label}, it ran its version for {most}")
    if measurement.too_few:
        few = f"{measurement.generic_samples} samples as generic, {measurement.own_samples} as {place.core}"
        return Finding(place, measurement, f"{few}: {MIN_SAMPLES} of each are needed")
    return Finding(place, measurement, "")


def _samples(function: str, runs: Sequence[_Run]) -> dict[str, int]:
    found: dict[str, int] = {}
    for run in runs:
        for (name, label), samples in run.samples.items():
            if name == function:
                found[label] = found.get(label, 0) + samples
    return found


def _notes(
    library: VersionedLibrary, command: Sequence[str], first: _Run, gathered: Mapping[Place, _Rounds]
) -> tuple[str, ...]:
    notes = []
    runs = [first, *(run for rounds in gathered.values() for run in (*rounds.generic, *rounds.own))]
    failed = {run.exit_status for run in runs} - {0}
    if failed:
        ends = ", ".join(describe_exit(status) for status in sorted(failed))
        notes.append(
            f"{command[0]} ended with {ends}; what it did up to there was measured: see that this is what matters"
        )
    copies = max(run.copies / run.total for run in runs if run.total)
    if copies > _COPIES_SHARE:
        notes.append(
            f"up to {copies:.0%} of a run lay in helpers that are copied into versions; their time counts to no "
            "function, so a gain may come from them being inlined or not"
        )
    missing = [core for core in library.cores if core not in {place.core for place in gathered}]
    if missing:
        notes.append(f"not measured, as this machine has none: {', '.join(missing)}")
    return tuple(notes)
