"""Takes the steps of `mavcg auto`: profiles and measures a program with a library that is built anew each time."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.board import Board, Cluster
from mavcg.core import GENERIC
from mavcg.errors import MavcgError
from mavcg.profiling.record import RecordOptions, describe_exit
from mavcg.program_road.buildfile import BuildFile, ProjectFile
from mavcg.program_road.choosing import Gains, Kept
from mavcg.program_road.commands import PROFILING, run_command
from mavcg.program_road.hot import HotSymbol
from mavcg.program_road.measurements import Measurement, as_gain, merged, save_measurements
from mavcg.program_road.measuring import MeasureOptions, NoVersionRan, measure
from mavcg.program_road.perf_runs import LIBRARY_VARIABLE, PerfRuns, Place, library_variables
from mavcg.program_road.program import BuildResult, NothingToVersion, build_program
from mavcg.program_road.report import tuning_line
from mavcg.program_road.request import DEFAULT_THRESHOLD_PERCENT, make_request
from mavcg.program_road.rounds import Built, Dropped, MeasuredGains, Progress, Version
from mavcg.program_road.version_symbols import VersionedLibrary, read_library

if TYPE_CHECKING:
    from mavcg.profiling.profile import Profile

_STDERR = 2


@dataclass(frozen=True)
class Question:
    """What `mavcg auto` is to do.

    project: the whole mavcg.toml. build: its [build] table with the command line's options. jobs: compilers at a time.
    runs: rounds of measuring; frequency_hz, event: as in RecordOptions.
    """

    project: ProjectFile
    build: BuildFile
    jobs: int | None = None
    runs: int = MeasureOptions().runs
    frequency_hz: int = RecordOptions().frequency_hz
    event: str | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """The program with its arguments; () where there is none."""
        return self.project.profile.command if self.project.profile else ()

    @property
    def threshold(self) -> float:
        """Share of the run over which a function is hot, 0..1."""
        percent = DEFAULT_THRESHOLD_PERCENT if self.build.threshold is None else self.build.threshold
        if not 0 <= percent <= 100:
            raise MavcgError(f"--threshold {percent:g}: is not a share in percent; give 0 to 100, such as 5")
        return percent / 100


@dataclass(frozen=True)
class Where:
    """The machine on which the program runs.

    runs: how it runs there. places: its CPUs by core type, for those that this process may use; none where versions
    cannot run. why_not: why the library cannot be run there, so that the model has the last word, or "". board: its CPU
    numbers by core type where there are several, so that a function may be hot on one of them alone.
    """

    runs: PerfRuns
    places: tuple[Place, ...]
    why_not: str = ""
    board: Board | None = None

    @property
    def words(self) -> str:
        """The machine and the CPUs on which versions are measured, or why none is."""
        cpus = sorted({cpu for place in self.places for cpu in place.cpus})
        return self.why_not or (self.runs.words(cpus) if cpus else "the machine has none of the library's cores")


@dataclass
class ProgramSteps:
    """rounds.Steps for the program of a mavcg.toml. say: hears what people should know."""

    question: Question
    where: Where
    progress: Progress = lambda message: None
    say: Callable[[str], None] = lambda message: None
    measurements: tuple[Measurement, ...] = ()
    _shown: "tuple[HotSymbol, ...] | None" = field(default=None, repr=False)

    def profile(self, library: Path | None) -> Sequence[HotSymbol]:
        """As Steps. Where the library cannot run one profile of the program as it is counts for all rounds."""
        if self._shown is not None:
            return self._shown
        found = self._hot(self._recorded(library), library)
        if self.where.why_not:
            self._shown = found
        return found

    def build(self, hot: Sequence[HotSymbol], gains: Gains, keep_slower: bool) -> Built:
        """As Steps."""
        file = replace(self.question.build, measurements=None, hot=(), profile=None)
        try:
            request, _ = make_request(file, self.question.project.folder, self.question.jobs, hot)
            keep = keep_slower and not self.where.why_not
            limits = replace(request.limits, drop_slower=request.limits.drop_slower and not keep)
            result = build_program(replace(request, gains=gains, limits=limits), self.progress)
        except NothingToVersion:
            return Built(None, left={symbol.asked: "not in the input" for symbol in hot})
        for line in result.notes:
            self.say(line)
        return built_of(result, request.limits.drop_slower)

    def measure(self, built: Built) -> MeasuredGains | None:
        """As Steps: every version of the library whose core is there. Samples are kept for [build] measurements."""
        if self.where.why_not or built.library is None:
            return None
        try:
            versions = read_library(built.library)
        except MavcgError:
            return MeasuredGains({})  # one body for all cores
        places = tuple(place for place in self.where.places if place.core in versions.cores)
        if not places:
            return None
        self.say(
            f"measuring {self.question.runs} runs as generic and as {', '.join(place.core for place in places)} each"
        )
        self._relink(built.library)
        options = MeasureOptions(self.question.runs, self.question.frequency_hz, self.question.event)
        try:
            runs = self._runs(built.library)
            found = measure(versions, places, self.question.command, options, self.progress, runs)
        except NoVersionRan as error:
            raise NoVersionRan(f"{error}; {_how_to_use(built.library)}") from error
        gains = {
            (f.measurement.function, f.place.core): as_gain(f.measurement) for f in found.findings if not f.why_not
        }
        self.measurements = merged(self.measurements, [f.measurement for f in found.findings if not f.why_not])
        if self.question.build.measurements:
            save_measurements(self.measurements, self.question.project.folder / self.question.build.measurements)
        return MeasuredGains(
            {at: gain for at, gain in gains.items() if gain is not None},
            {(f.measurement.function, f.place.core): f.why_not for f in found.findings if f.why_not},
            found.notes,
        )

    def _recorded(self, library: Path | None) -> "Profile":
        """The program's profile: recorded now, or, where it names no command, the one that the file names."""
        from mavcg.profiling.load import load_profile
        from mavcg.profiling.profile import profile_of
        from mavcg.profiling.symbols import with_linkage_names

        question, project = self.question, self.question.project
        if not question.command:
            return load_profile(project.folder / (question.build.profile or project.profile_name))
        self._relink(library)
        options = RecordOptions(question.frequency_hz, question.event, program_stdout=_STDERR)
        runs = self._runs(library)
        runs.check(question.command)
        recording = runs.record(question.command, options)
        if recording.exit_status:
            self.say(
                f"{question.command[0]} ended with {describe_exit(recording.exit_status)}; the profile is of the run "
                "up to there: see that it did the work that matters"
            )
        return profile_of(with_linkage_names(recording.reading, ()), self.where.board, question.command[0])

    def _hot(self, profile: "Profile", library: Path | None) -> tuple[HotSymbol, ...]:
        from mavcg.profiling.ranking import hot

        folded = profile if library is None else of_functions(profile, _versions_of(library))
        by_name: dict[str, HotSymbol] = {}
        for function in hot(folded, self.question.threshold):
            why = f"{function.share:.1%} of the run"
            symbol = HotSymbol(
                function.symbol, share=function.share, named_by_user=False, why=why, object=function.object
            )
            by_name.setdefault(function.symbol, symbol)
        return tuple(by_name.values())

    def _relink(self, library: Path | None) -> None:
        """Run profile.build, which makes the program, with the library where there is one that it can use."""
        table, project = self.question.project.profile, self.question.project
        if table is None or not table.build:
            return
        self.progress(f"building the program: {' '.join(table.build)}")
        told = library_variables(library.absolute() if library and not self.where.why_not else None)
        told[PROFILING] = "1"  # where the build is launched by mavcg, objects get no versions beside the library's
        run_command(table.build, project.folder, f"{project.path}: profile.build", _STDERR, told)

    def _runs(self, library: Path | None) -> PerfRuns:
        return self.where.runs.using(self.question.project.folder, None if self.where.why_not else library)


def board_of(name: str, target: str, cpus: Iterable[tuple[int, str | None]]) -> Board | None:
    """A machine's CPU numbers by core type, those of unknown cores as generic; None where all are alike."""
    by_core: dict[str, list[int]] = {}
    for cpu, core in cpus:
        by_core.setdefault(core or GENERIC, []).append(cpu)
    clusters = tuple(Cluster(core, tuple(numbers)) for core, numbers in by_core.items())
    return Board(name, "as detected", target, clusters) if len(clusters) > 1 else None


def built_of(result: BuildResult, drop_slower: bool) -> Built:
    """What rounds need to know of a build. drop_slower: whether the user lets the model drop versions at all."""
    asked = {symbol.name: symbol.asked for symbol in result.hot}
    versions, dropped, slower = [], [], set()
    for module in result.modules:
        for choice in module.choices:
            for kept in choice.kept[1:]:
                if kept.dropped:
                    dropped.append(Dropped(choice.function, kept.label, kept.dropped))
                    continue
                tuning = module.tunings.get((choice.function, kept.label))
                line = tuning_line(tuning.as_json()) if tuning else ""
                versions.append(Version(choice.function, kept.label, None, _model_words(kept, line)))
                if drop_slower and kept.slower is not None and kept.slower.is_over_error:
                    slower.add((choice.function, kept.label))
    left = {symbol.asked: "not in the input" for symbol in result.not_found}
    left |= {asked.get(name, name): why for module in result.modules for name, why in module.refused.items()}
    others = {name: word for name, word in asked.items() if name != word}
    return Built(result.output, tuple(versions), tuple(dropped), left, frozenset(slower), others)


def _model_words(kept: Kept, line: str) -> str:
    if kept.shares_body_with:
        return f"same machine code as {kept.shares_body_with}"
    return kept.slower.why if kept.slower else line


def of_functions(profile: "Profile", library: VersionedLibrary | None) -> "Profile":
    """The profile with the samples of versions, dispatchers and copied helpers counted to the functions they are of."""
    import pandas as pd

    if library is None:
        return profile
    labels = {label for _, label in library.symbols.values()} | {"slow"}

    def function(symbol: str) -> str:
        if symbol in library.symbols:
            return library.symbols[symbol][0]
        stem, _, label = symbol.rpartition(".")
        return stem if label in labels and (symbol in library.copies or stem in library.bodies) else symbol

    names = [function(str(symbol)) for symbol in profile.frame["symbol"]]
    return replace(profile, frame=profile.frame.assign(symbol=pd.array(names, dtype="string")))


def _versions_of(library: Path) -> VersionedLibrary | None:
    with suppress(MavcgError):
        return read_library(library)
    return None  # one body for all cores


def _how_to_use(library: Path) -> str:
    return (
        f"let profile.build link the program with {library} (${LIBRARY_VARIABLE} names it there), or let "
        "profile.command load it: docs/auto.md"
    )
