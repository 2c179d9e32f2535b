"""Environments of the benches: made once though several processes ask at once, and made anew after a failure."""

import threading
import venv
from pathlib import Path

import pytest

from bench import environments
from bench.environments import READY, drop_environment, environment
from mavcg.errors import MavcgError


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Calls of pip, which is replaced by one that installs nothing, as the environment by an empty one."""
    calls: list[tuple[str, ...]] = []

    def create(home: Path, with_pip: bool) -> None:
        assert with_pip
        (home / "bin").mkdir(parents=True)

    def pip(*arguments: str, python: str) -> None:
        calls.append(arguments)
        if "no-such-package" in arguments:
            raise MavcgError("pip install no-such-package: failed")
        Path(python).write_text("made\n")

    monkeypatch.setattr(venv, "create", create)
    monkeypatch.setattr(environments, "pip", pip)
    return calls


def test_it_is_made_once_by_many(tmp_path: Path, installs: list[tuple[str, ...]]) -> None:
    texts = []

    def use() -> None:
        with environment(tmp_path / "e", "1", ["numpy"]) as python:
            texts.append(python.read_text())

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert texts == ["made\n"] * 8
    assert installs == [("install", "numpy")]


def test_other_contents_make_it_anew(tmp_path: Path, installs: list[tuple[str, ...]]) -> None:
    for contents in ("1", "2", "2"):
        with environment(tmp_path / "e", contents, ["numpy"]):
            pass

    assert len(installs) == 2


def test_a_failure_leaves_nothing_that_looks_ready(tmp_path: Path, installs: list[tuple[str, ...]]) -> None:
    with pytest.raises(MavcgError, match="no-such-package"), environment(tmp_path / "e", "1", ["no-such-package"]):
        pass
    assert not (tmp_path / "e" / READY).exists()

    with environment(tmp_path / "e", "1", ["numpy"]) as python:
        assert python.exists()


def test_it_is_dropped_where_it_is_large(tmp_path: Path, installs: list[tuple[str, ...]]) -> None:
    home = tmp_path / "e"
    with environment(home, "1", ["numpy"]):
        pass

    drop_environment(home, largest_bytes=1000)
    assert home.exists()
    drop_environment(home, largest_bytes=3)
    assert not home.exists()
    drop_environment(home, largest_bytes=3)
