"""Several sshd on loopback, each a board with behaviour of its own; a network to be tuned on them."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mavcg.lab.runners import bench_run
from mavcg.lab.runners.bench_program import BenchProgram
from mavcg.lab.runners.shell_runner import FOLDER_VARIABLE
from mavcg.lab.runners.ssh import COMMAND_VARIABLE
from mavcg.lab.tuning import measured_core
from mavcg.toolchain.target import host_target
from tests.mavcg.lab.fleet.instant_boards import facts_by_files
from tests.mavcg.lab.runners.loopback import Sshd, make_sshd

FAKE = Path(__file__).with_name("fake_board.py")
Built = Callable[..., BenchProgram]


def own_core() -> tuple[str, int] | None:
    """This machine's last core and its CPU, by the files that a runner elsewhere reads."""
    return next(((cpu.core, cpu.cpu) for cpu in reversed(facts_by_files().cpus) if cpu.core), None)


@dataclass(frozen=True)
class LoopbackBoard:
    """A board: a server, and the folder that tells its programs how to behave."""

    name: str
    server: Sshd
    folder: Path

    def does(self, *lines: str) -> None:
        """Set its behaviour; fake_board.py says what there is."""
        (self.folder / "behaviour").write_text("".join(f"{line}\n" for line in lines))

    @property
    def calls(self) -> int:
        """How many programs it ran."""
        path = self.folder / "calls"
        return len(path.read_text().splitlines()) if path.exists() else 0


@dataclass(frozen=True)
class LoopbackFleet:
    """Boards, and the folder of the file that lists them."""

    boards: tuple[LoopbackBoard, ...]
    path: Path

    def write(self, *lines: str) -> None:
        """Write the fleet's file: these lines, then the boards."""
        boards = [
            f'[[board]]\nname = "{board.name}"\ntype = "desk"\nrunner = "{board.server.name}"' for board in self.boards
        ]
        self.path.write_text("\n".join([*lines, *boards, ""]))

    @property
    def option(self) -> str:
        """The fleet as --runner takes it."""
        return f"fleet:{self.path}"


@pytest.fixture
def fleet_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], LoopbackFleet]]:
    """Starts so many servers; the board "desk" is of this machine's core, and costs are the test's own."""
    core = own_core()
    if core is None:
        pytest.skip("this machine's core is none of ours")
    profiles = tmp_path / "profiles" / "boards"
    profiles.mkdir(parents=True)
    (profiles / "desk.toml").write_text(
        f'name = "desk"\nsoc = "a desk"\ntarget = "{host_target().arch}-linux-gnu.2.17"\nsource = "a test"\n'
        f'[[clusters]]\ncore = "{core[0]}"\ncpus = "0-{core[1]}"\n'
    )
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path / "profiles"))
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(bench_run, "WAITS_S", (0.0,))
    started: list[Sshd] = []

    def start(count: int) -> LoopbackFleet:
        boards = []
        for number in range(count):
            folder = tmp_path / f"board-{number}"
            folder.mkdir()
            server = make_sshd(folder, {"SetEnv": f"BOARD_FOLDER={folder}"})
            server.start()
            assert server.process is not None
            (folder / "sshd").write_text(str(server.process.pid))
            started.append(server)
            boards.append(LoopbackBoard(f"desk-{number}", server, folder))
            boards[-1].does()
        hosts = tmp_path / "known_hosts"
        hosts.write_text("".join((board.folder / "known_hosts").read_text() for board in boards))
        config = ["Host *", "IdentitiesOnly yes", "StrictHostKeyChecking yes", f"UserKnownHostsFile {hosts}"]
        config += ["GlobalKnownHostsFile /dev/null", *(f"IdentityFile {board.folder / 'key'}" for board in boards)]
        (tmp_path / "ssh_config").write_text("\n".join(config) + "\n")
        monkeypatch.setenv(COMMAND_VARIABLE, shlex.join(["ssh", "-F", str(tmp_path / "ssh_config")]))
        made = LoopbackFleet(tuple(boards), tmp_path / "fleet.toml")
        made.write()
        return made

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def fake_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that print figures in place of measuring them: 100 us for the first job seen, 110 for the next, .."""
    micros: dict[Any, float] = {}

    def build(jobs: Sequence[Any], machine: Any, core: Any, target: Any, folder: Path, *rest: Any) -> BenchProgram:
        times = [micros.setdefault(str(job), 100.0 + 10 * len(micros)) for job in jobs]
        path = folder / "bench"
        words = shlex.join([sys.executable, "-I", "-S", str(FAKE), ",".join(f"{each:g}" for each in times)])
        path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        return BenchProgram(path, len(times))

    monkeypatch.setattr(measured_core, "build_program", build)
