"""Implements the steps of `mavcg auto`: profiles the program, builds its library, measures its versions."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.core import GENERIC
from mavcg.program.auto_rounds import BuiltLibrary, DroppedVersion, MeasuredGains, Progress, VersionGain
from mavcg.program.build_values import BuildResult, NothingToVersion
from mavcg.program.buildfile import BuildFile, ProjectFile
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.measure_versions import MeasureOptions, NoVersionRan, measure
from mavcg.program.measurements import Measurement, as_gain, merge_measurements, save_measurements
from mavcg.program.perf_runs import LIBRARY_VARIABLE, CpuGroup, PerfRuns, library_variables
from mavcg.program.profiling.record import RecordOptions, describe_exit
from mavcg.program.program import build_program
from mavcg.program.project_commands import PROFILING, run_command
from mavcg.program.report_words import tuning_line
from mavcg.program.request import DEFAULT_THRESHOLD_PERCENT, make_request
from mavcg.program.unmodelled_versions import is_unknown, unmodelled_remark
from mavcg.program.version_choice import Gains, VersionChoice
from mavcg.program.version_symbols import VersionedLibrary, read_library

if TYPE_CHECKING:
    from mavcg.program.profiling.profile import Profile

_STDERR = 2


@dataclass(frozen=True)
class AutoRequest:
    """The request of one `mavcg auto`.

    Args:
        project: the whole mavcg.toml.
        build: its [build] table, merged with the command line's options.
        jobs: number of compilers that run at a time; None for the default.
        runs: rounds of measurements.
        frequency_hz, event: as in RecordOptions.
    """

    project: ProjectFile
    build: BuildFile
    jobs: int | None = None
    runs: int = MeasureOptions().runs
    frequency_hz: int = RecordOptions().frequency_hz
    event: str | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """The program with its arguments; () if mavcg.toml names none."""
        return self.project.profile.command if self.project.profile else ()

    @property
    def threshold(self) -> float:
        """Share of the run over which a function is hot, 0..1. Raises: MavcgError if it is not a percentage."""
        percent = DEFAULT_THRESHOLD_PERCENT if self.build.threshold is None else self.build.threshold
        if not 0 <= percent <= 100:
            raise MavcgError(f"--threshold {percent:g}: is not a share in percent; give 0 to 100, such as 5")
        return percent / 100


@dataclass(frozen=True)
class AutoMachine:
    """The machine on which the program runs.

    Args:
        runs: how programs run there.
        groups: its CPUs by core type, as far as this process may use them; () if versions cannot run.
        why_not: the reason why the library cannot run there, so that the model decides; else "".
        board: its CPU numbers by core type; None if all are alike. A function may be hot on one core type alone.
    """

    runs: PerfRuns
    groups: tuple[CpuGroup, ...]
    why_not: str = ""
    board: Board | None = None

    @property
    def description(self) -> str:
        """The machine and the CPUs on which versions are measured, or the reason why they are not."""
        cpus = sorted({cpu for group in self.groups for cpu in group.cpus})
        return self.why_not or (self.runs.describe(cpus) if cpus else "the machine has none of the library's cores")


@dataclass
class ProgramSteps:
    """The auto_rounds.AutoSteps for the program of a mavcg.toml.

    Args:
        say: called with messages for the user.
    """

    request: AutoRequest
    machine: AutoMachine
    progress: Progress = lambda message: None
    say: Callable[[str], None] = lambda message: None
    measurements: tuple[Measurement, ...] = ()
    _shown: "tuple[HotSymbol, ...] | None" = field(default=None, repr=False)

    def profile(self, library: Path | None) -> Sequence[HotSymbol]:
        """Profile the program, as AutoSteps.profile.

        If the library cannot run, one profile of the program without it is used in all rounds.
        """
        if self._shown is not None:
            return self._shown
        hot_functions = self._hot(self._record(library), library)
        if self.machine.why_not:
            self._shown = hot_functions
        return hot_functions

    def build(self, hot: Sequence[HotSymbol], gains: Gains, keep_slower: bool) -> BuiltLibrary:
        """Build the library, as AutoSteps.build."""
        file = replace(self.request.build, measurements=None, hot=(), profile=None)
        try:
            request, _ = make_request(file, self.request.project.folder, self.request.jobs, hot)
            keep = keep_slower and not self.machine.why_not
            limits = replace(request.limits, by_model=request.limits.by_model and not keep)
            result = build_program(replace(request, gains=gains, limits=limits), self.progress)
        except NothingToVersion:
            return BuiltLibrary(None, left={symbol.given_name: "not in the input" for symbol in hot})
        for line in result.notes:
            self.say(line)
        return built_library(result, request.limits.by_model)

    def measure(self, built: BuiltLibrary) -> MeasuredGains | None:
        """Measure all versions of the library whose core the machine has, as AutoSteps.measure.

        The result is kept for the file that [build] measurements names. Raises: NoVersionRan, and as `measure`.
        """
        if self.machine.why_not or built.library is None:
            return None
        try:
            versions = read_library(built.library)
        except MavcgError:
            return MeasuredGains({})  # one version for all cores
        groups = tuple(group for group in self.machine.groups if group.core in versions.cores)
        if not groups:
            return None
        self.say(
            f"measuring {self.request.runs} runs as generic and as {', '.join(group.core for group in groups)} each"
        )
        self._relink(built.library)
        options = MeasureOptions(self.request.runs, self.request.frequency_hz, self.request.event)
        try:
            runs = self._runs(built.library)
            measured = measure(versions, groups, self.request.command, options, self.progress, runs)
        except NoVersionRan as error:
            raise NoVersionRan(f"{error}; {_how_to_use(built.library)}") from error
        gains = {
            (f.measurement.function, f.group.core): as_gain(f.measurement) for f in measured.findings if not f.why_not
        }
        self.measurements = merge_measurements(
            self.measurements, [f.measurement for f in measured.findings if not f.why_not]
        )
        if self.request.build.measurements:
            save_measurements(self.measurements, self.request.project.folder / self.request.build.measurements)
        return MeasuredGains(
            {at: gain for at, gain in gains.items() if gain is not None},
            {(f.measurement.function, f.group.core): f.why_not for f in measured.findings if f.why_not},
            measured.notes,
        )

    def _record(self, library: Path | None) -> "Profile":
        """Return the program's profile: a new recording, or, without a command, the profile that mavcg.toml names."""
        from mavcg.program.profiling.load import load_profile
        from mavcg.program.profiling.profile import profile_of
        from mavcg.program.profiling.symbols import with_linkage_names

        request, project = self.request, self.request.project
        if not request.command:
            return load_profile(project.folder / (request.build.profile or project.profile_name))
        self._relink(library)
        options = RecordOptions(request.frequency_hz, request.event, program_stdout=_STDERR)
        runs = self._runs(library)
        runs.check(request.command)
        recording = runs.record(request.command, options)
        if recording.exit_status:
            self.say(
                f"{request.command[0]} ended with {describe_exit(recording.exit_status)}; the profile is of the run "
                "up to there: see that it did the work that matters"
            )
        return profile_of(with_linkage_names(recording.reading, ()), self.machine.board, request.command[0])

    def _hot(self, profile: "Profile", library: Path | None) -> tuple[HotSymbol, ...]:
        from mavcg.program.profiling.ranking import hot

        folded = profile if library is None else count_to_functions(profile, _versions_of(library))
        by_name: dict[str, HotSymbol] = {}
        for function in hot(folded, self.request.threshold):
            why = f"{function.share:.1%} of the run"
            symbol = HotSymbol(
                function.symbol, share=function.share, named_by_user=False, why=why, object=function.object
            )
            by_name.setdefault(function.symbol, symbol)
        return tuple(by_name.values())

    def _relink(self, library: Path | None) -> None:
        """Run profile.build, which builds the program, with the library if there is one."""
        table, project = self.request.project.profile, self.request.project
        if table is None or not table.build:
            return
        self.progress(f"building the program: {' '.join(table.build)}")
        variables = library_variables(library.absolute() if library and not self.machine.why_not else None)
        variables[PROFILING] = (
            "1"  # if the build uses mavcg launch, its objects get no versions in addition to the library's
        )
        run_command(table.build, project.folder, f"{project.path}: profile.build", _STDERR, variables)

    def _runs(self, library: Path | None) -> PerfRuns:
        return self.machine.runs.using(self.request.project.folder, None if self.machine.why_not else library)


def detected_board(name: str, target: str, cpus: Iterable[tuple[int, str | None]]) -> Board | None:
    """Return a machine's CPU numbers by core type, unknown cores as generic; None if all CPUs are alike."""
    by_core: dict[str, list[int]] = {}
    for cpu, core in cpus:
        by_core.setdefault(core or GENERIC, []).append(cpu)
    clusters = tuple(Cluster(core, tuple(numbers)) for core, numbers in by_core.items())
    return Board(name, "as detected", target, clusters) if len(clusters) > 1 else None


def built_library(result: BuildResult, by_model: bool) -> BuiltLibrary:
    """Return the result of a build in the form that the rounds use.

    Args:
        by_model: True if the model may drop versions.
    """
    given_names = {symbol.name: symbol.given_name for symbol in result.hot}
    versions, dropped, useless = [], [], set()
    for module in result.modules:
        for choice in module.choices:
            for version in choice.versions[1:]:
                if version.level_of:
                    continue  # for machines that hide an extension: none of them is measured
                if version.dropped:
                    dropped.append(DroppedVersion(choice.function, version.label, version.dropped))
                    continue
                tuning = module.tunings.get((choice.function, version.label))
                line = tuning_line(tuning.as_json()) if tuning else ""
                needs = module.needs.get((choice.function, version.body), ())
                remark = _model_remark(version, line) or unmodelled_remark(version, needs)
                versions.append(VersionGain(choice.function, version.label, None, remark))
                has_nothing = result.target.arch == "x86_64" and is_unknown(version) and not needs
                if by_model and (version.verdict.would_drop if version.verdict else has_nothing):
                    useless.add((choice.function, version.label))
    left = {symbol.given_name: "not in the input" for symbol in result.not_found}
    left |= {given_names.get(name, name): why for module in result.modules for name, why in module.refused.items()}
    renamed = {name: given for name, given in given_names.items() if name != given}
    return BuiltLibrary(result.output, tuple(versions), tuple(dropped), left, frozenset(useless), renamed)


def _model_remark(version: VersionChoice, line: str) -> str:
    if version.nearly_equal:
        return f"runs the version of {version.body}: {version.nearly_equal}"
    if version.shares_body_with:
        return f"same machine code as {version.shares_body_with}"
    if version.verdict and (version.verdict.is_slower or not line):
        return version.verdict.why
    return line


def count_to_functions(profile: "Profile", library: VersionedLibrary | None) -> "Profile":
    """Return the profile with samples of versions, dispatchers and copied helpers attributed to their functions."""
    import pandas as pd

    if library is None:
        return profile
    labels = {label for _, label in library.symbols.values()} | {"slow"}

    def function(symbol: str) -> str:
        if symbol in library.symbols:
            return library.symbols[symbol][0]
        stem, _, label = symbol.rpartition(".")
        return stem if label in labels and (symbol in library.copies or stem in library.code_labels) else symbol

    names = [function(str(symbol)) for symbol in profile.frame["symbol"]]
    return replace(profile, frame=profile.frame.assign(symbol=pd.array(names, dtype="string")))


def _versions_of(library: Path) -> VersionedLibrary | None:
    with suppress(MavcgError):
        return read_library(library)
    return None  # one version for all cores


def _how_to_use(library: Path) -> str:
    return (
        f"let profile.build link the program with {library} (${LIBRARY_VARIABLE} names it there), or let "
        "profile.command load it: docs/auto.md"
    )
