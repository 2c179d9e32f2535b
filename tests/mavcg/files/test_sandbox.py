"""`mavcg.sandbox`: a process of the caller's, confined when it asks for it and not before."""

import os
import socket
import tempfile
import threading
from functools import partial
from pathlib import Path

import pytest

import mavcg
from mavcg.errors import MavcgError
from mavcg.files import sandbox as module
from mavcg.files.sandbox import confinement, missing_parts, sandbox
from tests.mavcg.files.confined_child import in_confined_child, outcome


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder that is not in the temporary folder, which may always be written to."""
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("MAVCG_CACHE", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return home


def test_a_confined_process_writes_where_it_said(outside: Path) -> None:
    (outside / "results").mkdir()

    def work() -> dict[str, str]:
        held = mavcg.sandbox([outside / "results"])
        assert (held.files, held.network) == (True, False)
        assert confinement() == held
        actions = {
            "home": lambda: (outside / ".profile").write_text("x"),
            "results": lambda: (outside / "results/y").write_text("x") and 0,
            "temporary": lambda: Path(tempfile.gettempdir(), "t").write_text("x") and 0,
            "cache": lambda: (outside / ".cache/mavcg/entry").write_text("x") and 0,
            "compiler's cache": lambda: (outside / ".cache/zig/entry").write_text("x") and 0,
            "socket": lambda: socket.socket(),
        }
        return {name: outcome(action) for name, action in actions.items()}

    came = in_confined_child(work)

    assert [name for name, what in came.items() if what != "done"] == ["home", "socket"]
    assert not (outside / ".profile").exists()


def test_each_confinement_narrows_those_before(outside: Path) -> None:
    (outside / "a").mkdir()
    (outside / "b").mkdir()

    def work() -> list[str]:
        sandbox([outside / "a", outside / "b"])
        sandbox([outside / "b"])
        sandbox([outside])
        return [outcome(partial(os.mkdir, outside / name / "x")) for name in ("a", "b")]

    assert in_confined_child(work) == ["EACCES", "done"]


def test_with_the_network(outside: Path) -> None:
    def work() -> str:
        assert sandbox(network=True).network
        return outcome(lambda: socket.socket().close())

    assert in_confined_child(work) == "done"


def test_a_process_with_threads_is_refused(outside: Path) -> None:
    """Landlock holds for the thread that asks and what it starts: another one would write as before."""

    def work() -> str:
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        try:
            sandbox()
        except MavcgError as error:
            return str(error)
        finally:
            end.set()
            thread.join()
        return outcome(lambda: (outside / "x").write_text("x") and 0)

    assert (
        in_confined_child(work) == "sandbox: this process has 2 threads already; confine it before it starts the second"
    )


def test_a_system_without_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "landlock_version", lambda: 0)
    monkeypatch.setattr(module, "knows_filters", lambda: False)

    assert missing_parts(network=True) == ["Landlock (Linux 5.19 and later)"]
    with pytest.raises(
        MavcgError, match=r"no Landlock \(.*\) and no filters of system calls \(seccomp\); require=False"
    ):
        sandbox()


def test_nothing_is_confined_unasked() -> None:
    """A program that uses mavcg as a library writes and connects as before, whatever it builds or loads."""
    assert confinement() is None
    socket.socket().close()
    assert os.access(Path.home(), os.W_OK)
