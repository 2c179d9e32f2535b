"""Measures a library's versions: the program runs pinned to a core type's CPUs, alternately with both versions.

MAVCG_CPU_MAP sets the core type that the library assumes for every CPU. So the same binary runs the generic version or
the core's own on the same CPUs, and the two runs of a round differ in nothing but the version.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC
from mavcg.hardware.cpu_list import cpus_text
from mavcg.program.measurements import MIN_SAMPLES, Measurement
from mavcg.program.perf_runs import CpuGroup, PerfRuns, RunsHere
from mavcg.program.profiling.record import RecordOptions, describe_exit
from mavcg.program.profiling.sample_table import SampleTable
from mavcg.program.version_symbols import VersionedLibrary
from mavcg.runtime.binding import DetectedCpu


class NoVersionRan(MavcgError):
    """Raised if the program ran without any of the library's versions."""


DEFAULT_RUNS = 5  # rounds, each with a run of the generic version and a run of the core's own
# Maximum fraction of a function's samples in a run that may be in other versions than the intended one.
_STRAY_SHARE = 0.05
# Samples in helpers copied into versions count for no function; above this share of a run, a note says so.
_COPIES_SHARE = 0.05

Progress = Callable[[str], None]


def measurable_groups(
    library: VersionedLibrary, cpus: Sequence[DetectedCpu], allowed: frozenset[int]
) -> tuple[CpuGroup, ...]:
    """Return the CPUs on which the library's versions can be measured.

    Args:
        cpus: the CPUs of the machine.
        allowed: numbers of the CPUs that this process may use.
    Raises: MavcgError if there is no such CPU; it lists the machine's CPUs.
    """
    usable = {core: tuple(cpu.cpu for cpu in cpus if cpu.core == core and cpu.cpu in allowed) for core in library.cores}
    chosen = tuple(CpuGroup(core, numbers) for core, numbers in usable.items() if numbers)
    if chosen:
        return chosen
    here: dict[str, list[int]] = {}
    for cpu in cpus:
        here.setdefault((cpu.core or "of no known core") + (" not allowed here" * (cpu.cpu not in allowed)), []).append(
            cpu.cpu
        )
    has = "; ".join(f"{cpus_text(numbers)} {kind}" for kind, numbers in here.items())
    raise MavcgError(
        f"{library.path}: has versions for {', '.join(library.cores)}, and this machine has none of them ({has}); "
        "measure on a machine that has one, or name the core types of its CPUs: MAVCG_CPU_MAP=0-3=CORE"
    )


@dataclass(frozen=True)
class MeasureOptions:
    """Options of a measurement.

    Args:
        runs: rounds per core, each with a run of the generic version and a run of the core's own.
        frequency_hz, event: as in RecordOptions.
    """

    runs: int = DEFAULT_RUNS
    frequency_hz: int = RecordOptions().frequency_hz
    event: str | None = None


@dataclass(frozen=True)
class VersionFinding:
    """The measurement of one function on one core.

    Args:
        measurement: the counted times and samples.
        why_not: the reason why no gain can be stated; else "".
    """

    group: CpuGroup
    measurement: Measurement
    why_not: str


@dataclass(frozen=True)
class LibraryMeasurements:
    """All measurements of a library.

    Args:
        findings: ordered by core, then by time.
        event: the counted event.
        notes: messages about the runs.
    """

    findings: tuple[VersionFinding, ...]
    event: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _CountedRun:
    """One run of the program.

    Args:
        times: (function, label of the version) -> event count.
        samples: (function, label of the version) -> number of samples.
        total, copies: event counts of the whole run, and of helpers copied into versions.
    """

    times: Mapping[tuple[str, str], float]
    samples: Mapping[tuple[str, str], int]
    total: float
    copies: float
    event: str
    exit_status: int

    def time(self, function: str) -> float:
        return sum(time for (name, _), time in self.times.items() if name == function)


@dataclass
class _PairedRuns:
    """The runs on a group of CPUs: with the generic version, and with the core's own."""

    generic: list[_CountedRun] = field(default_factory=list)
    own: list[_CountedRun] = field(default_factory=list)


def measure(
    library: VersionedLibrary,
    chosen: Sequence[CpuGroup],
    command: Sequence[str],
    options: MeasureOptions,
    progress: Progress = lambda message: None,
    runs: PerfRuns | None = None,
) -> LibraryMeasurements:
    """Run the command under perf with the generic version and with the core's own, `options.runs` times on each group.

    The program's standard output is discarded. A first run, which is not counted, chooses the event to sample (a clock
    if there are no counters), fills caches, and shows that the program works.
    Args:
        chosen: the CPUs to measure on, one group per core type.
        runs: the machine that runs the program; None for this one.
    Raises: ProfileError if the program cannot be run; NoVersionRan if it runs none of the versions; ToolError if perf
    cannot sample.
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
        gathered = {group: _PairedRuns() for group in chosen}
        number = 1
        for round_number in range(options.runs):
            for group, rounds in gathered.items():
                # The order alternates between rounds, so that drift (clock, heat) does not favour a version.
                for label in (GENERIC, group.core) if round_number % 2 == 0 else (group.core, GENERIC):
                    number += 1
                    progress(f"run {number} of {total}, as {label} on {cpus_text(group.cpus)}")
                    (rounds.generic if label == GENERIC else rounds.own).append(
                        _run(library, group, label, command, recording, runs)
                    )
    findings = [
        _finding(library, function, group, rounds, first.event, runs.describe(group.cpus))
        for group, rounds in gathered.items()
        for function in library.functions_for(group.core)
    ]
    findings.sort(key=lambda f: (chosen.index(f.group), -f.measurement.generic_share))
    return LibraryMeasurements(tuple(findings), first.event, _notes(library, command, first, gathered))


def _run(
    library: VersionedLibrary,
    group: CpuGroup,
    label: str,
    command: Sequence[str],
    options: RecordOptions,
    runs: PerfRuns,
) -> _CountedRun:
    recording = runs.record(command, options, group.cpus, label)
    return _count(library, recording.reading, recording.exit_status)


def _count(library: VersionedLibrary, reading: SampleTable, exit_status: int) -> _CountedRun:
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
    return _CountedRun(times, samples, total, copies, reading.event, exit_status)


def _finding(
    library: VersionedLibrary, function: str, group: CpuGroup, rounds: _PairedRuns, event: str, machine: str
) -> VersionFinding:
    counted = [_samples(function, runs) for runs in (rounds.generic, rounds.own)]
    whole = sum(run.total for run in rounds.generic)
    measurement = Measurement(
        function,
        group.core,
        event,
        tuple(run.time(function) for run in rounds.generic),
        tuple(run.time(function) for run in rounds.own),
        sum(counted[0].values()),
        sum(counted[1].values()),
        sum(run.time(function) for run in rounds.generic) / whole if whole else 0.0,
        machine,
    )
    for label, by_label in ((GENERIC, counted[0]), (group.core, counted[1])):
        strays = {stray: n for stray, n in by_label.items() if stray not in library.same_code(function, label)}
        if sum(strays.values()) > _STRAY_SHARE * sum(by_label.values()):
            most = max(strays, key=lambda stray: strays[stray])
            return VersionFinding(group, measurement, f"set to run as {label}, it ran its version for {most}")
    if measurement.too_few:
        few = f"{measurement.generic_samples} samples as generic, {measurement.own_samples} as {group.core}"
        return VersionFinding(group, measurement, f"{few}: {MIN_SAMPLES} of each are needed")
    return VersionFinding(group, measurement, "")


def _samples(function: str, runs: Sequence[_CountedRun]) -> dict[str, int]:
    by_label: dict[str, int] = {}
    for run in runs:
        for (name, label), samples in run.samples.items():
            if name == function:
                by_label[label] = by_label.get(label, 0) + samples
    return by_label


def _notes(
    library: VersionedLibrary, command: Sequence[str], first: _CountedRun, gathered: Mapping[CpuGroup, _PairedRuns]
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
    missing = [core for core in library.cores if core not in {group.core for group in gathered}]
    if missing:
        notes.append(f"not measured, as this machine has none: {', '.join(missing)}")
    return tuple(notes)
