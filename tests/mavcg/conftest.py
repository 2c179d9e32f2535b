"""The command line in process, and small things to build with it on the machine that tests."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mavcg.cli.app import run
from mavcg.hosts.host import host_board
from mavcg.toolchain.target import host_target
from tests.conftest import folder_of_all_workers
from tests.mavcg.children import is_open, may_connect, watched_children, watched_sockets
from tests.mavcg.paper_setups import paper_convolutions, paper_layers, setups, small_array

__all__ = ("paper_convolutions", "paper_layers", "setups", "small_array")  # fixtures of several folders

# Two cores of this machine's architecture; one of the other.
CORES: tuple[str, ...]
FOREIGN: str
CORES, FOREIGN = {
    "x86_64": (("haswell", "znver3"), "cortex-a55"),
    "aarch64": (("cortex-a55", "cortex-a76"), "haswell"),
}.get(host_target().arch, ((), ""))

KERNEL = """\
int dot(const short *a, const short *b, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
int cool(int x) { return x + 1; }
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it said."""

    status: int
    stdout: str
    stderr: str


Mavcg = Callable[..., Ended]


@pytest.fixture
def mavcg(capfd: pytest.CaptureFixture[str]) -> Mavcg:
    """mavcg("build", ...): one command line, run in this process."""

    def mavcg(*arguments: str | Path) -> Ended:
        capfd.readouterr()
        words = [str(argument) for argument in arguments]
        with watched_children() as children, watched_sockets() as sockets:
            status = run(words)
        said = capfd.readouterr()
        assert "Traceback" not in said.err
        # A user's own Python may be named: mavcg launch python.
        assert not [command for command in children if is_open(command) and command[0] not in words]
        assert may_connect(words) or not sockets
        return Ended(status, said.out, said.err)

    return mavcg


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("MAVCG_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MAVCG_LAUNCH_SERVER", "0")  # no process stays
    return tmp_path


@pytest.fixture
def shell(here: Path) -> Callable[[str], "subprocess.CompletedProcess[str]"]:
    """shell("mavcg profile && mavcg build"): a line as a user types it, in the current folder, `mavcg` on its PATH."""
    folder = Path(sys.executable).parent
    if not (folder / "mavcg").is_file():  # run from a checkout that is not installed
        folder = here.parent / f"{here.name}-bin"
        folder.mkdir()
        (folder / "mavcg").write_text(f'#!/bin/sh\nexec {sys.executable} -m mavcg.cli "$@"\n')
        (folder / "mavcg").chmod(0o755)
    variables = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

    def shell(line: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["sh", "-c", line], env=variables, capture_output=True, text=True, timeout=300)

    return shell


@pytest.fixture
def kernel(here: Path) -> Path:
    """kernel.c in the current folder: dot, worth a version, and cool, not."""
    (here / "kernel.c").write_text(KERNEL)
    return here / "kernel.c"


@pytest.fixture(scope="session")
def cores() -> tuple[str, str]:
    """Names of two cores of this machine's architecture."""
    if not CORES:
        pytest.skip("versions are made for AArch64 and x86-64 only")
    return CORES[0], CORES[1]


@pytest.fixture(scope="session")
def known_host() -> None:
    """A machine whose cores `--board host` knows."""
    if not host_board().clusters:
        pytest.skip("no core of this machine is known, so --board host has nothing to make versions for")


@pytest.fixture(scope="session")
def gcc() -> tuple[str, str]:
    """gcc and g++."""
    if not shutil.which("gcc") or not shutil.which("g++"):
        pytest.skip("needs gcc and g++")
    return "gcc", "g++"


def execute(*command: str | Path, cwd: Path | None = None, **environment: str) -> Ended:
    """Run a program; MAVCG_ variables of the outside are not handed on."""
    outside: Mapping[str, str] = {n: v for n, v in os.environ.items() if not n.startswith("MAVCG_")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**outside, "MAVCG_LAUNCH_SERVER": "0", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def run_program() -> Callable[..., Ended]:
    """run_program(command.., cwd=, NAME=value): see execute."""
    return execute


@pytest.fixture(scope="session")
def tiny_onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiny.onnx: image N,4,6,6, N free -> convolution, relu -> y; relu of another -> z."""
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(3)
    weights = {"w": rng.standard_normal((5, 4, 3, 3)), "b": rng.standard_normal(5)}
    nodes = [
        onnx.helper.make_node("Conv", ["image", "w", "b"], ["c"], name="first", pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Relu", ["c"], ["y"]),
        onnx.helper.make_node("Relu", ["other"], ["z"]),
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "tiny",
        [value("image", 1, ["N", 4, 6, 6]), value("other", 1, [2, 3])],
        [value("y", 1, ["N", 5, 6, 6]), value("z", 1, [2, 3])],
        [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    path = tmp_path_factory.mktemp("tiny") / "tiny.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.fixture(scope="session")
def tiny_library(tiny_onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libtiny.so of tiny.onnx with one core's version beside generic, built once for all workers; build.json beside it
    is what the build said."""
    if not CORES:
        pytest.skip("libraries are made for AArch64 and x86-64 only")
    with folder_of_all_workers(tmp_path_factory, "tiny_library") as folder:
        out = folder / "libtiny.so"
        if not (folder / "build.json").exists():
            command = [sys.executable, "-m", "mavcg.cli", "build", str(tiny_onnx), "--cores", CORES[1], "-o", str(out)]
            done = subprocess.run([*command, "--threads", "2", "--json"], capture_output=True, text=True, check=True)
            (folder / "build.json").write_text(done.stdout)
    return out


FAKE_BENCH = Path(__file__).parent / "lab" / "runners" / "fake_bench.py"


@dataclass(frozen=True)
class FakeBench:
    """A program that prints what measuring programs print; fake_bench.py says what it can be told to do wrong."""

    folder: Path

    def does(self, *faults: str) -> None:
        (self.folder / "faults").write_text("".join(f"{fault}\n" for fault in faults))

    def of(self, jobs: int) -> Path:
        """The program, with so many jobs."""
        path = self.folder / f"bench-{jobs}"
        words = shlex.join([sys.executable, "-I", "-S", str(FAKE_BENCH), str(self.folder), str(jobs)])
        path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        return path

    @property
    def calls(self) -> list[dict[str, str]]:
        """Its options, call by call."""
        lines = (self.folder / "calls").read_text().splitlines() if (self.folder / "calls").exists() else []
        return [dict(zip(line.split()[::2], line.split()[1::2], strict=True)) for line in lines]


@pytest.fixture
def fake_bench(tmp_path: Path) -> FakeBench:
    """One that does nothing wrong."""
    made = FakeBench(tmp_path / "fake_bench")
    made.folder.mkdir()
    made.does()
    return made
