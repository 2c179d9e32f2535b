"""One package of the corpus by one compiler: as it is, and under `mavcg launch` with the profile of its own work."""

import hashlib
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bench.corpus.packages import Package, unpack
from bench.corpus.ways import Way, environment, processors, ways, write_tools
from mavcg.errors import MavcgError
from mavcg.files.child_python import commands_folder
from mavcg.files.scratch import scratch_folder

SECONDS = 1800  # that a command may take
THRESHOLD = 2.0  # percent of the time that makes a function hot
ROUNDS = 5  # of times, interleaved
_GROWTH = re.compile(r"growth (?P<percent>-?\d+) % \((?P<before>\d+) to (?P<after>\d+) bytes")
EQUAL = "equal"


@dataclass(frozen=True)
class Built:
    """A package built in a folder. cpu_s: user and system time of all processes. log: what the build printed."""

    folder: Path
    environment: Mapping[str, str]
    cpu_s: float
    log: str


@dataclass(frozen=True)
class Row:
    """The outcome of a package by a way.

    verdict: EQUAL if both builds' programs give the same bytes on all processors, and the package's own tests pass;
    else what differs or failed, or "not tried: " and why. files: objects with versions. bytes_before, bytes_after:
    their code. plain_s, launch_s: CPU time of the builds. gain: the work's time without versions over that with them,
    None where not measured.
    """

    package: str
    version: str
    way: str
    verdict: str
    files: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    plain_s: float = 0.0
    launch_s: float = 0.0
    gain: float | None = None


class _Failed(Exception):
    """A command of a package failed; the text says which and how."""


def try_package(package: Package, way: Way, folder: Path, data: Path, timed: bool) -> Row:
    """Build a package twice and compare. folder: the package's, with its profile once that is made. data: the inputs.
    timed: also measure the work."""
    version = ""
    try:
        with scratch_folder("corpus") as scratch:
            version = unpack(package, scratch / "plain")
            shutil.copytree(scratch / "plain", scratch / "launch", symlinks=True)
            profile = folder / "profile.json"
            if not profile.exists():
                _profile(package, profile, data)
            plain = _build(package, way, scratch / "plain", data, None)
            config = scratch / "mavcg.toml"
            hot = f'[build]\nprofile = "{profile}"\nthreshold = {THRESHOLD}\n'
            config.write_text(hot + way.target, encoding="utf-8")
            launched = _build(package, way, scratch / "launch", data, config)
            (folder / f"{way.name}.log").write_text(launched.log, encoding="utf-8")
            verdict = _compare(package, way, plain, launched)
            gain = _gain(package, plain, launched) if timed and not way.arm and verdict == EQUAL else None
    except MavcgError as error:
        return Row(package.source, version, way.name, f"not tried: {error}")
    except _Failed as error:
        return Row(package.source, version, way.name, str(error))
    grown = list(_GROWTH.finditer(launched.log))
    return Row(
        package.source,
        version,
        way.name,
        verdict,
        files=len(grown),
        bytes_before=sum(int(match["before"]) for match in grown),
        bytes_after=sum(int(match["after"]) for match in grown),
        plain_s=round(plain.cpu_s, 1),
        launch_s=round(launched.cpu_s, 1),
        gain=gain,
    )


def _profile(package: Package, path: Path, data: Path) -> None:
    """Write the profile of a package's work on this machine. An emulator cannot be profiled, so builds for AArch64 take
    their hot functions from here, too."""
    with scratch_folder("corpus") as scratch:
        unpack(package, scratch / "plain")
        built = _build(package, next(iter(ways().values())), scratch / "plain", data, None)
        command = [str(commands_folder() / "mavcg"), "profile", "--board", "host", "-o", str(path), "--", "sh", "-c"]
        _run(shlex.join([*command, package.work]), built, "profile")


def _build(package: Package, way: Way, folder: Path, data: Path, config: Path | None) -> Built:
    """Build a package. config: the mavcg.toml of `mavcg launch`; None: the compiler alone."""
    tools, out = folder.with_name(f"{folder.name}-tools"), folder.with_name(f"{folder.name}-out")
    write_tools(way, tools, launched=config is not None)
    out.mkdir()
    more = {"DATA": str(data), "OUT": str(out)} | ({"MAVCG_CONFIG": str(config)} if config else {})
    variables = environment(way, tools, more)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    built = Built(folder, variables, 0.0, "")
    log = _run(package.build, built, "build").decode(errors="replace")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return replace(built, cpu_s=spent, log=log)


def _compare(package: Package, way: Way, plain: Built, launched: Built) -> str:
    """Run the work of both builds on each processor, then the package's tests. Returns: the verdict."""
    right = _work(package, plain, processors(way)[0])
    for processor in processors(way):
        if _work(package, launched, processor) != right:
            return f"differs {processor.get('QEMU_CPU', 'here')}"
    if package.check and not way.arm:
        _run(package.check, plain, "check of the plain build")
        _run(package.check, launched, "check")
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
    for _ in range(ROUNDS):
        for built, taken in zip((plain, launched), times, strict=True):
            started = time.perf_counter()
            _run(package.work, built, "work")
            taken.append(time.perf_counter() - started)
    return round(statistics.median(times[0]) / statistics.median(times[1]), 3)


def _run(command: str, built: Built, what: str, more: Mapping[str, str] | None = None) -> bytes:
    """Run a command of a shell. Returns: its output, for a build with that to stderr. Raises: _Failed."""
    both = subprocess.STDOUT if what == "build" else subprocess.PIPE
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
        raise _Failed(f"{what}: more than {SECONDS} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise _Failed(f"{what}: status {done.returncode}: {(lines or ['no message'])[-1][:160]}")
    return done.stdout
