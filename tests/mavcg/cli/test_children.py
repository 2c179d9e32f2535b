"""Every verb runs in some test under the hook of the `mavcg` fixture, which refuses a Python that is not isolated."""

import multiprocessing
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mavcg.files.child_python import python_command
from mavcg.files.worker_processes import Task, run_tasks
from tests.mavcg.children import is_open, watched_children
from tests.mavcg.cli.verbs import SERVERS, VERBS

TESTS = Path(__file__).parents[2]


TEXT = "\n".join(path.read_text() for path in sorted(TESTS.rglob("test_*.py")))


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in SERVERS], ids=" ".join)
def test_each_verb_runs_under_the_hook(verb: tuple[str, ...]) -> None:
    """A new verb without a test that runs it by the fixture, and so under the hook, is found here."""
    words = r',\s*"'.join(f'{re.escape(word)}"' for word in verb)
    calls = re.compile(rf'(?:mavcg\(|words = \(|\[|\()\s*"{words}')
    assert calls.search(TEXT), f"no test runs mavcg {' '.join(verb)} by the fixture `mavcg`"


def never() -> None:
    """Run in a process of multiprocessing's."""


def test_the_hook_sees_a_python_that_is_not_isolated() -> None:
    with watched_children() as children:
        subprocess.run([sys.executable, "-c", ""], check=True)
        subprocess.run([sys.executable, "-P", "-c", ""], check=True, env={"PYTHONPATH": ""})
    assert len(children) == 2 and all(map(is_open, children))
    with watched_children() as children:
        process = multiprocessing.get_context("spawn").Process(target=never)
        process.start()
        process.join()
    assert any(map(is_open, children))


def test_the_hook_takes_isolated_and_forked_ones() -> None:
    with watched_children() as children:
        subprocess.run(python_command(""), check=True)
        subprocess.run(["true"], check=True)
        run_tasks([Task("a", never), Task("b", never)], 2)
    assert len(children) == 2 and not any(map(is_open, children))
