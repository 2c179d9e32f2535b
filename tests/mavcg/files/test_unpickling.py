"""Pickles that name other functions than the allowed ones do not run, whoever reads them, in any thread."""

import io
import os
import pickle
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from mavcg.files.forked_worker import FORKS, ForkedWorker
from mavcg.files.unpickling import RefusedPickle, only_names, own_pickles

ALLOWED = frozenset({"fractions:Fraction"})


class Bomb:
    """A pickle of it makes a folder when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_runs_nothing_that_is_not_allowed(tmp_path: Path, protocol: int) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "made"), protocol)
    with only_names(ALLOWED):
        assert pickle.loads(pickle.dumps([1, "a", {2: "b"}], protocol)) == [1, "a", {2: "b"}]
        with pytest.raises(RefusedPickle, match="posix:mkdir"):
            pickle.loads(bomb)
        with pytest.raises(RefusedPickle):
            pickle._Unpickler(io.BytesIO(bomb)).load()
    assert not (tmp_path / "made").exists()


def test_allowed_names_load_and_outside_of_it_all_names_do(tmp_path: Path) -> None:
    with only_names(ALLOWED | {"copyreg:_reconstructor", "builtins:object"}):
        assert pickle.loads(pickle.dumps(Fraction(1, 3))) == Fraction(1, 3)
        with only_names(frozenset()), pytest.raises(RefusedPickle):
            pickle.loads(pickle.dumps(Fraction(1, 3)))
    pickle.loads(pickle.dumps(Bomb(tmp_path / "made")))
    assert (tmp_path / "made").is_dir()


def test_other_threads_are_guarded_too_and_own_pickles_are_trusted_in_one_alone(tmp_path: Path) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "made"))
    caught: list[BaseException] = []

    def load() -> None:
        try:
            pickle.loads(bomb)
        except RefusedPickle as error:
            caught.append(error)

    with only_names(ALLOWED), own_pickles():
        thread = threading.Thread(target=load)
        thread.start()
        thread.join()
        assert len(caught) == 1 and not (tmp_path / "made").exists()
        load()
    assert (tmp_path / "made").is_dir()


@pytest.mark.skipif(not FORKS, reason="no forked workers on this system")
def test_a_guarded_process_still_has_workers_of_its_own() -> None:
    with only_names(frozenset()), ForkedWorker(lambda request: Fraction(request, 7), ()) as worker:
        assert worker.run(3) == Fraction(3, 7)
