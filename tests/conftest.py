"""Golden texts, IR of small sources, small programs built with versions: what the tests of several folders share."""

import fcntl
import gc
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest
from hypothesis import HealthCheck, Phase, settings

import tests.one_worker  # noqa: F401  before what takes its default from there

# isort: split
from mavcg.profiles.load import cores_for
from mavcg.program.build_values import BuildRequest, BuildResult
from mavcg.program.hot_symbols import parse_hot
from mavcg.program.program import build_program
from mavcg.program.sources.compile_commands import CompileUnit, read_command
from mavcg.program.sources.to_ir import compile_to_ir
from mavcg.program.version_choice import Gains, VersionLimits
from mavcg.toolchain.codegen import canonical
from mavcg.toolchain.target import Target, host_target, parse_target
from mavcg.toolchain.zig import run_zig
from scripts.floors import tenant_of_test
from tests.cpu_seconds import CpuSeconds
from tests.machine import QEMU

GOLDEN = Path(__file__).parent / "golden"
ARM = parse_target("aarch64-linux-musl")
NO_SHRINKING = (Phase.explicit, Phase.generate)  # phases of a test that builds a library for each example


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what tests print as the new golden texts")
    parser.addoption(
        "--core", action="store_true", help="leave out the tests of tenants, as scripts/floors.toml has them"
    )
    parser.addoption("--cpu", action="store_true", help="print which folders and files took most CPU time")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --core, collect nothing of the tenants' folders."""
    return True if config.getoption("--core") and tenant_of_test(collection_path) else None


def pytest_configure(config: pytest.Config) -> None:
    """The fast suite tries the same input every time, and less where a test names no number; the long one more."""
    os.environ.setdefault("MAVCG_LAUNCH_SERVER", "0")  # no process stays
    # As in mavcg.cli: graphs, IR and syntax trees are many objects that stay, and Python looks through them too often.
    gc.set_threshold(300_000)
    # No test fails because the machine is busy; what one example leaves in a folder, the next one writes anew.
    shared = [HealthCheck.function_scoped_fixture]
    settings.register_profile("any", deadline=None, suppress_health_check=shared)
    settings.register_profile("same", settings.get_profile("any"), derandomize=True, max_examples=6)
    settings.load_profile("same" if is_fast(config) else "any")
    if is_fast(config):
        # Hypothesis parses all modules of the product for their constants, again after each import, and draws one value
        # of twenty from them: for six examples, which then depend on what other tests have imported. The long suite
        # has them.
        providers = import_module("hypothesis.internal.conjecture.providers")
        pytest.MonkeyPatch().setattr(providers, "_get_local_constants", lambda: providers.Constants(), raising=False)
    if config.getoption("--cpu"):
        config.pluginmanager.register(CpuSeconds(config, Path(zig_cache()), time.time()), "cpu seconds")
    config.addinivalue_line("markers", "spread(times=1): the fast suite runs a few of its copies, with every value")
    config.addinivalue_line("markers", "sample(copies): the fast suite runs so many of its copies, evenly spaced")


def is_fast(config: pytest.Config) -> bool:
    """Whether it is the fast suite that runs."""
    return str(config.getoption("markexpr")) == "not long"


# Folders and files that take longest: they run first, so that no worker has one of them left when the others are done.
# One file of those that share the BLAS library, so that no worker waits while the other builds it.
SLOW_FIRST = (
    "tests/mavcg/model/blas/test_products.py",
    "tests/pipelines/",
    "tests/runtime/engine/",
    "tests/examples/",
    "tests/mavcg/cli/",
    "tests/mavcg/accelerators/commands/",
    "tests/mavcg/apps/commands/",
    "tests/mavcg/lab/commands/",
    "tests/runtime/",
    "tests/mavcg/lab/runners/",
    "tests/mavcg/program/",
    "tests/mavcg/model/",
    "tests/mavcg/objects/",
    "tests/passes/",
    "tests/profiles/test_facts.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """The fast suite makes no copies of tests that are long with every value, a third of all copies."""
    if not is_fast(collector.config) or not isinstance(getattr(obj, "pytestmark", None), list):
        return None
    return [] if any(mark.name == "long" for mark in obj.pytestmark) else None  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the copies of spread and sampled tests that the fast suite leaves out as long; put slow folders first."""
    rank = lru_cache(rank_of)  # a file has thousands of items
    items.sort(key=lambda item: rank(item.nodeid.partition("::")[0]))
    for name, choose in (("spread", copies_with_every_value), ("sample", copies_evenly_spaced)):
        copies: dict[str, list[pytest.Function]] = {}
        for item in items:
            if isinstance(item, pytest.Function) and item.get_closest_marker(name) and not is_long(item):
                copies.setdefault(item.nodeid.partition("[")[0], []).append(item)
        for those in copies.values():
            marker = those[0].get_closest_marker(name)
            kept = choose(those, int(marker.args[0]) if marker and marker.args else 1)
            for number, item in enumerate(those):
                if number not in kept:
                    item.add_marker(pytest.mark.long)


def rank_of(file: str) -> int:
    """Return the index of the entry of SLOW_FIRST that a test file belongs to; len(SLOW_FIRST) if there is none."""
    return next((number for number, folder in enumerate(SLOW_FIRST) if file.startswith(folder)), len(SLOW_FIRST))


def copies_with_every_value(copies: Sequence[pytest.Function], times: int) -> set[int]:
    """Choose copies of a test that hold every value of every parameter so many times, one by one: always the first of
    those with most values that are still too rare."""
    values = [[(name, repr(value)) for name, value in item.callspec.params.items()] for item in copies]
    lacking = {value: min(times, sum(value in each for each in values)) for one in values for value in one}
    left = list(range(len(copies)))
    while any(lacking.values()):
        best = max(left, key=lambda number: (sum(lacking[value] > 0 for value in values[number]), -number))
        left.remove(best)
        for value in values[best]:
            lacking[value] = max(0, lacking[value] - 1)
    return set(range(len(copies))) - set(left)


def copies_evenly_spaced(copies: Sequence[pytest.Function], count: int) -> set[int]:
    """Choose `count` copies of a test from the first to the last."""
    last = len(copies) - 1
    return {last * number // max(1, count - 1) for number in range(count)} if count <= last else set(range(last + 1))


def pytest_collection_finish() -> None:
    """Keep what collecting made out of the garbage collector's passes: it lives as long as the process."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """After a file's last test, keep what its tests left in caches out of the passes too.

    A process that has run some hundred tests takes more than a second for a pass over all of it, and emulators and
    sessions of other runtimes are ended by passes.
    """
    torn_down = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return torn_down


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which code of ours this machine cannot run, so that a green suite does not say more than it has seen."""
    for path, why in paths_not_run().items():
        terminalreporter.write_line(f"not run here: {path} ({why})")


def paths_not_run() -> dict[str, str]:
    """Code for instruction sets and tools that this machine does not have, and what runs it instead, if anything."""
    left = {}
    if platform.machine() == "x86_64":
        features = llvm.get_host_cpu_features()
        bochs = "emulated by Bochs" if shutil.which("bochs") else "and Bochs is not installed"
        for name, needed in (("AVX-512", "avx512bw"), ("VNNI", "avx512vnni")):
            if not features.get(needed):
                left[f"{name} on silicon"] = f"the CPU lacks {needed}; {bochs}"
    if QEMU is None:
        left["AArch64 programs"] = "qemu-user-static is not installed"
    if shutil.which("qemu-system-aarch64") is None:
        left["a booted arm64 kernel"] = "qemu-system-arm is not installed"
    for tool, what in (("perf", "recording with perf"), ("valgrind", "recording with callgrind")):
        if shutil.which(tool) is None:
            left[what] = f"{tool} is not installed"
    return left


def x86_core_of_this_machine() -> str:
    """A core whose instructions this x86 machine has all of, so that its version runs: not every one has AMD's."""
    features = llvm.get_host_cpu_features()
    if features.get("sse4a") and features.get("vaes"):
        return "znver3"
    return "skylake" if features.get("adx") and features.get("clflushopt") else "haswell"


def is_long(item: pytest.Item) -> bool:
    """Whether only the long suite runs it."""
    return item.get_closest_marker("long") is not None


def examples(long: int, fast: int) -> int:
    """How many of them hypothesis tries: max_examples=examples(long, fast)."""
    return fast if settings().derandomize else long


def zig_cache() -> str:
    """The folder of ziglang's support libraries, for tests that move the user's cache folder: making them anew takes
    half a minute."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return os.environ.get("ZIG_GLOBAL_CACHE_DIR") or str(Path(home) / "zig")


class Golden:
    """What a test printed when its author last looked: compare with ==; --update-golden writes it anew."""

    def __init__(self, path: Path, update: bool) -> None:
        self.path = path
        self.update = update

    def __eq__(self, printed: object) -> bool:
        if self.update:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(str(printed))
        assert self.path.is_file(), f"{self.path} is not there: look at the text, then run with --update-golden"
        return self.path.read_text() == str(printed)

    def __repr__(self) -> str:
        return self.path.read_text() if self.path.is_file() else "(no golden text yet)"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The text of tests/golden/<module>/<test>.txt."""
    name = str(request.node.name).replace("/", "_")
    return Golden(GOLDEN / request.path.stem / f"{name}.txt", bool(request.config.getoption("--update-golden")))


@contextmanager
def folder_of_all_workers(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """A folder that the processes which run the tests share, locked: the first fills it, the others find it filled."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


EDGE_APP = Path(__file__).parents[1] / "examples/edge_app"


@pytest.fixture(scope="session")
def edge_app_objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder of examples/edge_app with the objects of its C++ files, by g++ -O1: seconds of headers, once for
    all workers. Whoever copies it has make compile the kernels only."""
    if not shutil.which("g++") or not shutil.which("make"):
        pytest.skip("needs g++ and make")
    with folder_of_all_workers(tmp_path_factory, "edge_app_objects") as folder:
        objects = [str(folder / f"{path.stem}.o") for path in EDGE_APP.glob("*.cpp")]
        make = ["make", "-s", "-C", str(EDGE_APP), f"BUILD={folder}", "CXXFLAGS=-O1"]
        subprocess.run([*make, *objects], check=True, capture_output=True)
    return folder


def unit_of(source: Path, flags: Sequence[str] = ("-O2",)) -> CompileUnit:
    """A source as ziglang compiles it: its headers are there for every target."""
    driver = "cc" if source.suffix == ".c" else "c++"
    command = [sys.executable, "-m", "ziglang", driver, *flags, "-c", str(source)]
    unit = read_command(command, source.parent)
    assert isinstance(unit, CompileUnit), unit
    return unit


Ir = Callable[..., str]


@pytest.fixture(scope="session")
def ir(tmp_path_factory: pytest.TempPathFactory) -> Ir:
    """ir(source, suffix=".c", target=..., flags=...): the unoptimised IR of a C or C++ text, as LLVM prints it."""
    folder = tmp_path_factory.mktemp("ir")

    def ir(source: str, suffix: str = ".c", target: Target = ARM, flags: Sequence[str] = ("-O2",)) -> str:
        # The name is in the IR: the same for the same text, so that golden texts hold.
        path = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:8]}{suffix}"
        path.write_text(source)
        text = canonical(compile_to_ir(unit_of(path, flags), target).text)
        return text.replace(str(path), path.name)

    return ir


@dataclass(frozen=True)
class Built:
    """A program whose hot functions have versions, and the same program without any."""

    program: Path
    plain: Path
    results: tuple[BuildResult, ...]
    target: Target

    def run(self, core: str | None = None, trace: bool = False, plain: bool = False, **more: str) -> str:
        """What it prints when it takes every CPU for `core`; with trace: what it prints to stderr."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAVCG_")}
        environment |= {"MAVCG_CPU_MAP": f"*={core}"} if core else {}
        environment |= {"MAVCG_TRACE": "1"} if trace else {}
        emulator = [str(QEMU), "-cpu", "max"] if self.target.arch != host_target().arch else []
        command = [*emulator, str(self.plain if plain else self.program)]
        done = subprocess.run(command, env=environment | more, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"exit status {done.returncode}: {done.stdout[-400:]} {done.stderr[-800:]}"
        return done.stderr if trace else done.stdout

    def versions_run(self, core: str) -> dict[str, str]:
        """Function -> the version that ran, as MAVCG_TRACE=1 tells."""
        lines = [line.split() for line in self.run(core, trace=True).splitlines()]
        return {words[1]: words[2] for words in lines if words[0] == "mavcg:"}


BuildVersions = Callable[..., Built]


@pytest.fixture(scope="session")
def build_versions(tmp_path_factory: pytest.TempPathFactory) -> BuildVersions:
    """build_versions(files, hot, cores, ...): build a program of several C and C++ files, some with versions.

    files: name -> text. versioned: the names of those that mavcg builds; None: all but main.*. hot: as --hot.
    together: one object of all versioned files, or one each, as `mavcg launch` makes them. plain_flags: for what zig
    compiles, where its driver spells them in its own way.
    """

    def build_versions(
        files: Mapping[str, str],
        hot: str,
        cores: Sequence[str],
        target: Target | None = None,
        flags: Sequence[str] = ("-O2",),
        versioned: Sequence[str] | None = None,
        together: bool = True,
        limits: VersionLimits | None = None,
        gains: Gains | None = None,
        plain_flags: Sequence[str] | None = None,
        **request: Any,
    ) -> Built:
        target = target or host_target()
        if target.arch != host_target().arch and QEMU is None:
            pytest.skip("qemu-aarch64 is not installed")
        folder = tmp_path_factory.mktemp("built")
        for name, text in files.items():
            (folder / name).write_text(text)
        names = [n for n in files if not n.startswith("main.") and not n.endswith(".h")]
        names = names if versioned is None else list(versioned)
        rest = [n for n in files if n not in names and not n.endswith(".h")]
        wanted = BuildRequest(
            folder / "versions.o",
            target,
            cores_for(list(cores)),
            parse_hot(hot),
            limits=limits or VersionLimits(by_model=False),
            gains=gains or {},
            code_flags=("-fPIC", "-ffunction-sections"),
            workers=1,
            **request,
        )
        groups = [names] if together else [[name] for name in names]
        results = []
        for number, group in enumerate(groups):
            hot_here = wanted.hot if together else tuple(replace(h, named_by_user=False) for h in wanted.hot)
            units = tuple(unit_of(folder / name, flags) for name in group)
            one = replace(wanted, output=folder / f"versions{number}.o", units=units, hot=hot_here)
            results.append(build_program(one))
        objects = [str(result.output) for result in results]
        link_flags = ["-target", target.zig_name, "-fno-sanitize=all", "-w", f"-I{folder}"]
        link_flags += flags if plain_flags is None else plain_flags
        link_flags += ["-static"] if "musl" in target.system else []
        tool = "c++" if any(name.endswith(".cpp") for name in files) else "cc"
        others = [str(folder / name) for name in rest]
        run_zig(tool, [*link_flags, *others, *objects, "-lm", "-o", str(folder / "program")], "linking", folder)
        sources = sorted([*rest, *names])
        options = [flag for flag in link_flags if not flag.startswith("-I")]
        key = (target, tool, *options, "", *sources, "", *sorted(files.items()))
        if key not in plain:  # the same program, with versions made in several ways
            to_link = [str(folder / name) for name in sources]
            run_zig(tool, [*link_flags, *to_link, "-lm", "-o", str(folder / "plain")], "linking", folder)
            plain[key] = folder / "plain"
        return Built(folder / "program", plain[key], tuple(results), target)

    plain: dict[Hashable, Path] = {}
    return build_versions


@pytest.fixture(scope="session")
def perf() -> str:
    """perf, where it is installed and may record."""
    path = shutil.which("perf")
    if path is None:
        pytest.skip("perf is not installed")
    tried = subprocess.run(
        [path, "record", "-q", "-e", "cpu-clock", "-o", os.devnull, "--", "true"], capture_output=True
    )
    if tried.returncode:
        pytest.skip(f"perf may not record here: {tried.stderr.decode(errors='replace').strip()[:200]}")
    return path
