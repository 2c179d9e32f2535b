"""The resident process of `mavcg launch` runs commands of its user as they would run by themselves, or says why not."""

import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mavcg.program import launch_door, launch_server
from mavcg.program.launch_door import MAGIC, circumstances, connect, folder_path, hand_over, identity, socket_name
from mavcg.program.launch_program import write_launch_program
from mavcg.program.launch_server import start_server

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has what it needs")
SAYS_WHY = "this command does its own work"
Start = Callable[..., None]


def answer(words: list[str]) -> int:
    """Stand for `mavcg launch`: tell what a command sees, and do what its first word says."""
    if words[0] == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if words[0] == "ready":
        return 0
    if words[0] == "fault":
        raise RuntimeError("a fault")
    if words[0] == "wait":
        Path("started").write_text(str(os.getpid()))
        time.sleep(60)
    print(json.dumps([words, os.getcwd(), os.environ.get("TOLD"), os.environ.get("GONE")]), flush=True)
    return 200 if words[0] == "200" else 0


@pytest.fixture
def start(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """start(): leaves a resident process, which ends with the test."""
    monkeypatch.setenv("MAVCG_CACHE", str(here / "cache"))
    monkeypatch.delenv("MAVCG_LAUNCH_SERVER", raising=False)
    monkeypatch.setenv("GONE", "only where it starts")
    monkeypatch.setattr(launch_server, "LOOK_S", 0.02)
    monkeypatch.setattr(launch_server, "files_of_mavcg", lambda: [here / "module.py"])
    monkeypatch.setattr(launch_server, "_forget", lambda: None)  # it would clear the caches of all other tests
    (here / "module.py").write_text("")

    def begin(run: Callable[[list[str]], int] = answer) -> None:
        start_server(run)
        wait_until(lambda: hand_over(["ready"]) == 0)
        monkeypatch.delenv("GONE")

    yield begin
    monkeypatch.setenv("MAVCG_CACHE", str(here / "cache"))
    for path in Path(folder_path()).glob("*"):
        if path.suffix == ".lock":
            with open(path) as lock:  # held while it runs
                path.with_suffix("").unlink(missing_ok=True)
                fcntl.flock(lock, fcntl.LOCK_EX)


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def the_socket() -> Path:
    return Path(folder_path(), socket_name(identity()))


def test_a_command_has_its_own_folder_streams_and_environment(
    start: Start, here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    start()
    assert stat.S_IMODE(the_socket().parent.stat().st_mode) == 0o700
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    monkeypatch.setenv("TOLD", "here")
    assert [hand_over([word, "gcc", "-c", "a b.c"]) for word in ("0", "200")] == [0, 200]
    seen = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert seen == [[[word, "gcc", "-c", "a b.c"], str(here / "below"), "here", None] for word in ("0", "200")]


@pytest.mark.parametrize(("word", "status"), [("crash", None), ("fault", 1)])
def test_what_does_not_end_is_told(start: Start, capfd: pytest.CaptureFixture[str], word: str, status: object) -> None:
    start()
    assert hand_over([word]) == status
    told = capfd.readouterr().err
    assert SAYS_WHY in told if status is None else "RuntimeError: a fault" in told
    assert hand_over(["next"]) == 0


def test_a_changed_mavcg_ends_it_with_a_note(start: Start, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    start()
    (here / "module.py").write_text("changed")
    assert hand_over(["x"]) is None and f"mavcg has changed since it started; {SAYS_WHY}" in capfd.readouterr().err
    wait_until(lambda: not the_socket().exists())
    assert hand_over(["x"]) is None and capfd.readouterr().err == ""


def test_it_ends_when_nothing_comes(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_server, "IDLE_S", 0.2)
    start()
    wait_until(lambda: not the_socket().exists())


def test_a_killed_one_is_replaced(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    start()
    connection = connect(the_socket().name)
    assert not isinstance(connection, str)
    with connection:
        os.kill(launch_door.peer_of(connection)[0], signal.SIGKILL)
    wait_until(lambda: connect(the_socket().name) == "is there no more")
    assert hand_over(["x"]) is None and f"is there no more; {SAYS_WHY}" in capfd.readouterr().err
    start_server(answer)
    wait_until(lambda: hand_over(["ready"]) == 0)


@pytest.mark.parametrize("hostile", ["folder", "file", "owner", "peer"])
def test_what_others_could_have_made_is_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], hostile: str
) -> None:
    start()
    if hostile == "folder":
        the_socket().parent.chmod(0o777)
    elif hostile == "file":
        the_socket().unlink()
        the_socket().write_text("")
    elif hostile == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    else:
        monkeypatch.setattr(launch_door, "peer_of", lambda connection: (1, os.geteuid() + 1))
    assert hand_over(["x"]) is None
    told = capfd.readouterr()
    assert SAYS_WHY in told.err and "remove it" in told.err and told.out == ""


def test_what_is_no_command_changes_nothing(start: Start) -> None:
    start()
    for sent in (b"", b"GET / HTTP/1.1\r\n\r\n", MAGIC + b"\xff" * 8, MAGIC + bytes(8), MAGIC + bytes(7) + b"\1"):
        connection = connect(the_socket().name)
        assert not isinstance(connection, str)
        with connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(2) == b""
    assert hand_over(["x"]) == 0


def test_a_command_ends_with_the_process_that_wants_it(start: Start, here: Path) -> None:
    start()
    process = os.fork()
    if not process:
        hand_over(["wait"])
        os._exit(0)
    wait_until(lambda: (here / "started").exists() and bool((here / "started").read_text()))
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    worker = int((here / "started").read_text())
    wait_until(lambda: not Path(f"/proc/{worker}").exists())


@pytest.mark.parametrize("value", ["0", "off", "No"])
def test_it_can_be_switched_off(start: Start, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MAVCG_LAUNCH_SERVER", value)
    start_server(answer)
    assert socket_name(identity()) == "" and hand_over(["x"]) is None and not Path(folder_path()).exists()


def test_other_circumstances_have_another_socket(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {socket_name(identity()), socket_name("another mavcg")}
    monkeypatch.setenv("LC_ALL", "tlh")
    names.add(socket_name(identity()))
    before = os.umask(0o007)
    try:
        names.add(socket_name(identity()))
    finally:
        os.umask(before)
    monkeypatch.setenv("OTHER", "does not matter")
    assert len(names) == 4 and socket_name(identity()) in names
    assert b"Umask:" in circumstances("") and b"Max processes" in circumstances("")


@pytest.mark.long
def test_the_program_finds_what_python_left(start: Start, here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    start()
    mavcg = here / "mavcg"
    mavcg.write_text("#!/bin/sh\nexit 77\n")
    mavcg.chmod(0o755)
    write_launch_program(here / "mavcg-launch", [str(mavcg)])

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([here / "mavcg-launch", *words], capture_output=True, text=True)

    ended = run("--strict", "gcc", "-c", "x.c")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)[:2] == [["--strict", "gcc", "-c", "x.c"], str(here)]
    assert run("200", "x").returncode == 200
    ended = run("crash")
    assert ended.returncode == 77 and SAYS_WHY in ended.stderr
    the_socket().parent.chmod(0o755)
    ended = run("200", "x")
    assert ended.returncode == 77 and "remove it" in ended.stderr


@pytest.mark.long
def test_objects_are_those_of_commands_without_it(here: Path, cores: list[str], gcc: object) -> None:
    """A build whose pipes are read to their end, as by make -O, ends although the process stays."""
    hot = "int dot(const short *a, int n) { int s = 0; while (n--) s += a[n] * a[n]; return s; }\n"
    (here / "mavcg.toml").write_text(f'[build]\nhot = ["dot"]\ncores = ["{cores[0]}", "{cores[1]}"]\n')
    environment = {k: v for k, v in os.environ.items() if k != "MAVCG_LAUNCH_SERVER"}
    (here / "a.c").write_text(hot)
    made: dict[str, list[bytes]] = {"0": [], "": []}
    for off, objects in made.items():
        for number in range(2):
            cache = {"MAVCG_CACHE": str(here / f"cache{off}"), "MAVCG_LAUNCH_SERVER": off}
            command = [
                sys.executable,
                "-m",
                "mavcg.cli",
                "launch",
                "--strict",
                "gcc",
                "-O2",
                f"-DX{number}",
                "-c",
                "a.c",
            ]
            done = subprocess.run(command, capture_output=True, text=True, env=environment | cache)
            assert done.returncode == 0 and "from the cache" not in done.stderr, done
            objects.append((here / "a.o").read_bytes())
            (here / "a.o").unlink()
    assert made["0"] == made[""] and list((here / "cache/server").glob("*.lock"))
    for path in (here / "cache/server").glob("*"):
        if path.suffix != ".lock":
            path.unlink()
