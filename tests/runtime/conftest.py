"""Builds the C programs of programs/ with the runtime of a core set, and runs them."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from mavcg.hardware.core import Core
from mavcg.runtime.amalgamation import SOURCES, write_unit
from mavcg.runtime.build import runtime_object
from mavcg.runtime.coreset import CoreSet, table_text
from mavcg.toolchain.target import Target, host_target
from mavcg.toolchain.zig import run_tool, run_zig

PROGRAMS = Path(__file__).parent / "programs"

Build = Callable[..., Path]
Run = Callable[..., subprocess.CompletedProcess[str]]


def plain_core(name: str) -> Core:
    """A core of the host's architecture that needs nothing but its baseline and that nothing recognises."""
    arch = host_target().arch
    return Core(name, arch, "out", "x86-64" if arch == "x86_64" else "generic", "made up for a test")


@pytest.fixture(scope="session")
def two_cores() -> CoreSet:
    """Cores a (id 2) and b (id 3) of the host's architecture, which only MAVCG_CPU_MAP can name."""
    return CoreSet((plain_core("a"), plain_core("b")))


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build(program, core_set, ...): compile a program with the core set's runtime object, as a user's link does."""
    made: dict[object, Path] = {}

    def build(
        program: str,
        core_set: CoreSet,
        all_cores: Mapping[str, Core] | None = None,
        target: Target | None = None,
        flags: Sequence[str] = (),
    ) -> Path:
        target = target or host_target()
        key = (program, core_set.tag, target, tuple(flags))
        if key not in made:
            folder = tmp_path_factory.mktemp(Path(program).stem)
            runtime = runtime_object(core_set, all_cores or {}, target, folder)
            arguments = ["-target", target.zig_name, *common_flags(core_set), *flags, "-fno-sanitize=all"]
            arguments += [str(PROGRAMS / program), str(runtime), "-o", str(folder / "program")]
            run_zig("cc", arguments, f"building {program}")
            made[key] = folder / "program"
        return made[key]

    return build


@pytest.fixture(scope="session")
def build_whole(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build_whole(program, core_set, ...): compile a program and the runtime with gcc, with any macros or checks."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    made: dict[object, Path] = {}

    def build_whole(
        program: str,
        core_set: CoreSet,
        all_cores: Mapping[str, Core] | None = None,
        flags: Sequence[str] = (),
        runtime: Sequence[str] = ("runtime",),
        needs: Mapping[str, Sequence[int]] | None = None,
    ) -> Path:
        table = table_text(core_set, all_cores or {}, needs)
        key = (program, table, tuple(flags), tuple(runtime))
        if key in made:
            return made[key]
        folder = tmp_path_factory.mktemp(Path(program).stem)
        (folder / "mavcg_core_table.h").write_text(table)
        sources = [str(PROGRAMS / program), *(str(write_unit(name, folder)) for name in runtime)]
        # Libraries are built with -O2 by zig, as in `build`; here half of that time is saved.
        command = ["gcc", *common_flags(core_set), "-O1", f"-I{folder}", *flags, *sources]
        run_tool([*command, "-o", str(folder / "program")], f"building {program}")
        made[key] = folder / "program"
        return made[key]

    return build_whole


def common_flags(core_set: CoreSet) -> list[str]:
    return [
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-O2",
        "-pthread",
        f"-DSET={core_set.tag}",
        f"-I{SOURCES}",
        f"-I{PROGRAMS}",
    ]


@pytest.fixture
def run() -> Run:
    """run(command, **environment): the finished process; MAVCG_ variables of the outside are not handed on.
    seconds: after which a process counts as one that hangs."""

    def run(
        *command: str | Path, check: bool = True, seconds: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("MAVCG_")}
        done = subprocess.run(
            [str(part) for part in command], env=outside | environment, capture_output=True, text=True, timeout=seconds
        )
        if done.returncode == 77:
            pytest.skip(f"this machine does not let the program run: {done.stderr.strip()}")
        assert not check or done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        return done

    return run


@pytest.fixture
def board(tmp_path: Path) -> Callable[..., Path]:
    """board(present, midrs, cpuinfo): a folder with a board's /sys and /proc; None leaves a file out."""

    def board(present: str | None = None, midrs: Mapping[int, int] | None = None, cpuinfo: str | None = None) -> Path:
        root = tmp_path / f"board{len(list(tmp_path.iterdir()))}"
        cpus = root / "sys/devices/system/cpu"
        cpus.mkdir(parents=True)
        if present is not None:
            (cpus / "present").write_text(present + "\n")
        for cpu, midr in (midrs or {}).items():
            folder = cpus / f"cpu{cpu}/regs/identification"
            folder.mkdir(parents=True)
            (folder / "midr_el1").write_text(f"0x{midr:016x}\n")
        if cpuinfo is not None:
            (root / "proc").mkdir()
            (root / "proc/cpuinfo").write_text(cpuinfo)
        return root

    return board
