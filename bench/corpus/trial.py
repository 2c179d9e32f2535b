"""One package of the corpus by one compiler: as it is, under `mavcg launch` with the profile of its own work, and with
objects of `mavcg build`."""

import datetime
import hashlib
import itertools
import math
import os
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.corpus.packages import Package, unpack
from bench.corpus.rows import EQUAL, NO_VERSIONS, NOT_TRIED, Row
from bench.corpus.ways import BUILD, LAUNCH, PLAIN, Way, environment, processors, ways_of, write_tools
from bench.record import commit
from mavcg.errors import MavcgError
from mavcg.files import store
from mavcg.files.child_python import commands_folder
from mavcg.files.scratch import scratch_folder
from mavcg.objects.inspection import loaded_bytes, notes
from mavcg.program.launch_log import VARIABLE, read_log

SECONDS = 7200  # that a command may take: builds for seven cores on a machine that others load
THRESHOLD = 2.0  # percent of the time that makes a function hot
REPEATED_S, MOST_REPEATED = 1.0, 200  # CPU seconds of work that is profiled or measured
ROUNDS = 5  # of times, interleaved
BUILDING = "build"  # what a command does whose messages are its output
FAULT = "a fault of mavcg"  # in the line of `mavcg launch` about one
OBJECTS = "objects"  # file in a trial's folder: paths of objects for `mavcg build`, within the package's
_GROWTH = re.compile(r"growth (?P<percent>-?\d+) % \((?P<before>\d+) to (?P<after>\d+) bytes")
# What `mavcg launch` says of an object, in one line or in a line for each part.
_KEPT_AS_IT_IS = re.compile(
    r"^mavcg: (?P<why>(?:(?!\nmavcg: ).)*?)(?:;|\n) *growth [^;\n]*(?:;|\n) *the compiler's own object stays$",
    re.MULTILINE | re.DOTALL,
)
# Lines of compilers, linkers, CMake and configure scripts about an error; make's own line follows what failed.
_ERROR = re.compile(r"\berror(\[\w+\])?:|^CMake Error|\bundefined (reference|symbol)", re.IGNORECASE)
_MAKES = re.compile(r"^(g?make|ninja)(\[\d+\])?: ")


@dataclass(frozen=True)
class Built:
    """A package built in a folder. cpu_s: user and system time of all processes. log: what the build printed."""

    folder: Path
    environment: Mapping[str, str]
    cpu_s: float
    log: str


@dataclass(frozen=True)
class Trial:
    """Folders of a package's trial: the one with its builds, the one of its profile and logs, the inputs."""

    scratch: Path
    folder: Path
    data: Path
    timed: bool

    @property
    def log(self) -> Path:
        """The log of objects that got versions under `mavcg launch`."""
        return self.scratch / "launched.log"


class Failed(Exception):
    """A command of a package failed, or `mavcg build` made none of its objects; the text says which and how."""


def try_package(package: Package, way: Way, folder: Path, data: Path, timed: bool) -> Row:
    """Build a package as it is, under `mavcg launch` and with objects of `mavcg build`, and compare.

    folder: the package's, with its profile once that is made; the builds' logs go there. data: the inputs. timed: also
    measure builds and work.
    """
    row = Row(package.source, "", way.name, "", date=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}", commit=commit())
    try:
        with scratch_folder("corpus") as scratch:
            row = replace(row, version=unpack(package, scratch / "plain"))
            for tool in (LAUNCH, BUILD):
                shutil.copytree(scratch / "plain", scratch / tool, symlinks=True)
            profile = folder / "profile.json"
            hot = f'[build]\nprofile = "{profile}"\nthreshold = {THRESHOLD}\n'
            (scratch / "mavcg.toml").write_text(hot + way.target, encoding="utf-8")
            return _tried(package, way, Trial(scratch, folder, data, timed), row)
    except MavcgError as error:
        return replace(row, verdict=f"{NOT_TRIED}{error}")
    except Failed as error:
        return replace(row, verdict=str(error))


def _tried(package: Package, way: Way, trial: Trial, row: Row) -> Row:
    """Build a package that is unpacked thrice, and compare the programs; returns its row. Raises: Failed."""
    plain = _build(package, way, trial, PLAIN)
    if not (profile := trial.folder / "profile.json").exists():
        if way == ways_of(package)[0]:
            _profile(package, plain, profile)
        else:
            _profile_elsewhere(package, profile, trial)
    right = _work(package, plain, processors(way)[0])
    if package.check and not way.arm:
        _run(package.check, plain, "check of the plain build")
    launched = _build(package, way, trial, LAUNCH)
    # A makefile may name an object by way of another folder: programs/../lib/lz4hc.o.
    logged = {os.path.relpath(Path(entry.object).resolve(), launched.folder.resolve()) for entry in read_log(trial.log)}
    objects = sorted({*logged, *package.objects})
    (trial.scratch / OBJECTS).write_text("".join(f"{path}\n" for path in objects), encoding="utf-8")
    grown = [(int(match["before"]), int(match["after"])) for match in _GROWTH.finditer(launched.log)]
    grown += [(unchanged, unchanged) for path in package.objects if (unchanged := loaded_bytes(launched.folder / path))]
    row = replace(
        row,
        verdict=_compare(package, way, right, launched),
        files=len(logged),
        bytes_before=sum(before for before, _ in grown),
        bytes_after=sum(after for _, after in grown),
    )
    if trial.timed:
        row = replace(row, plain_s=round(plain.cpu_s, 1), launch_s=round(launched.cpu_s, 1))
        row = replace(row, gain=_gain(package, plain, launched) if not way.arm and row.verdict == EQUAL else None)
    if not objects:
        return replace(row, verdict=f"{NO_VERSIONS}{why_no_versions(launched.log)}") if row.verdict == EQUAL else row
    try:
        built = _build(package, way, trial, BUILD)
        refuse_compilers_own(built.folder, objects)
        verdict = _compare(package, way, right, built)
    except Failed as error:
        return replace(row, build_verdict=str(error))
    code = sum(loaded_bytes(built.folder / path) for path in objects)
    return replace(row, build_verdict=verdict, build_bytes=code)


def refuse_compilers_own(folder: Path, objects: Sequence[str]) -> None:
    """Raise Failed if `mavcg build` did not make one of these objects, of which equal outputs would say nothing.

    folder: of a build with BUILD. objects: paths within it.
    """
    own = [path for path in objects if not (folder / path).is_file() or not notes(folder / path)]
    if own:
        raise Failed(f"{BUILD}: {len(own)} of {len(objects)} objects are not by mavcg build: {own[0]}")


def why_no_versions(log: str) -> str:
    """Return what `mavcg launch` said of the first object whose hot functions got no versions, from a build's log."""
    found = _KEPT_AS_IT_IS.search(log)
    if not found:
        return "no object defines a hot function"
    head, *parts = map(str.strip, found["why"].splitlines())
    return f"{head} {'; '.join(parts)}".strip()[:160]


def _profile(package: Package, built: Built, path: Path) -> None:
    """Write the profile of a package's work by a build for this machine, without versions."""
    command = [str(commands_folder() / "mavcg"), "profile", "--board", "host", "-o", str(path), "--", "sh", "-c"]
    _run(shlex.join([*command, repeated(package.work, _work_cpu_s(package, built))]), built, "profile")


def _profile_elsewhere(package: Package, path: Path, trial: Trial) -> None:
    """The same by a build of its own. An emulator cannot be profiled, so builds for AArch64 take their hot functions
    from here, too."""
    with scratch_folder("corpus") as scratch:
        unpack(package, scratch / PLAIN)
        built = _build(package, ways_of(package)[0], replace(trial, scratch=scratch), PLAIN)
        _profile(package, built, path)


def repeated(work: str, cpu_s: float) -> str:
    """Return a command that does the work over and over, with OUT empty, for a second that a profile has samples of.

    cpu_s: CPU time of the work.
    """
    rounds = min(MOST_REPEATED, math.ceil(REPEATED_S / max(cpu_s, 0.001)))
    return f"for round in $(seq {max(1, rounds)}); do rm -f $OUT/*; (\n{work.strip()}\n) > /dev/null || exit; done"


def _work_cpu_s(package: Package, built: Built) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _work(package, built, {})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _build(package: Package, way: Way, trial: Trial, tool: str) -> Built:
    """Build a package in the trial's folder of this name, by the compiler alone, LAUNCH or BUILD. Raises: Failed, also
    for a build that met a fault of mavcg, which leaves the compiler's object."""
    folder = trial.scratch / tool
    tools, out = folder.with_name(f"{tool}-tools"), folder.with_name(f"{tool}-out")
    write_tools(way, tools, tool)
    out.mkdir()
    more = {"DATA": str(trial.data), "OUT": str(out)}
    if tool != PLAIN:
        trial.log.touch()
        more |= {"MAVCG_CONFIG": str(trial.scratch / "mavcg.toml"), VARIABLE: str(trial.log)}
        if trial.timed:  # what earlier trials left in the user's cache would take no time
            more |= {store.VARIABLE: str(trial.scratch / "cache")}
        more |= {"CORPUS_FOLDER": str(folder), "CORPUS_OBJECTS": str(trial.scratch / OBJECTS)}
    variables = environment(way, tools, more)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    built = Built(folder, variables, 0.0, "")
    log = _run(package.build, built, BUILDING).decode(errors="replace")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (trial.folder / f"{way.name}-{tool}.log").write_text(log, encoding="utf-8")
    if fault := next((line for line in log.splitlines() if FAULT in line), ""):
        raise Failed(f"{tool}: {fault.strip()[:160]}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return replace(built, cpu_s=spent, log=log)


def _compare(package: Package, way: Way, right: str, built: Built) -> str:
    """Run the work of a build on each processor, then the package's tests. Returns: the verdict. right: a digest."""
    for processor in processors(way):
        if _work(package, built, processor) != right:
            return f"differs {processor.get('QEMU_CPU', 'here')}"
    if package.check and not way.arm:
        _run(package.check, built, "check")
    return EQUAL


def _work(package: Package, built: Built, processor: Mapping[str, str]) -> str:
    """Return a digest of all that the work prints and writes."""
    out = Path(built.environment["OUT"])
    for path in out.iterdir():
        path.unlink()
    digest = hashlib.sha256(_run(package.work, built, "work", processor))
    for path in sorted(out.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _gain(package: Package, plain: Built, launched: Built) -> float:
    """Return the median time of the work without versions over that with them, in interleaved rounds."""
    times: tuple[list[float], list[float]] = ([], [])
    work = repeated(package.work, _work_cpu_s(package, plain))
    for _ in range(ROUNDS):
        for built, taken in zip((plain, launched), times, strict=True):
            started = time.perf_counter()
            _run(work, built, "work")
            taken.append(time.perf_counter() - started)
    return round(statistics.median(times[0]) / statistics.median(times[1]), 3)


def _run(command: str, built: Built, what: str, more: Mapping[str, str] | None = None) -> bytes:
    """Run a command of a shell. Returns: its output, for a build with that to stderr. Raises: Failed."""
    both = subprocess.STDOUT if what == BUILDING else subprocess.PIPE
    variables = {**built.environment, **(more or {})}
    try:
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=built.folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=both,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{what}: more than {SECONDS} s") from None
    if done.returncode:
        said = first_error((done.stderr or done.stdout).decode(errors="replace"))
        raise Failed(f"{what}: status {done.returncode}: {said[:160]}")
    return done.stdout


def first_error(log: str) -> str:
    """Return the first line about an error in the output of a command that failed; else the last before make's own line
    about it, or the last."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    if found := next((line for line in lines if _ERROR.search(line) and not _MAKES.search(line)), ""):
        return found
    before = itertools.takewhile(lambda line: not (_MAKES.search(line) and "***" in line), lines)
    return [*(lines[-1:] or ["no message"]), *before][-1]
