"""A farm's scheduler with workers, started as a user starts them: by their command lines, in their own processes."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.lab.connections.token import VARIABLE

Process = subprocess.Popen[str]


@dataclass
class DaskCluster:
    """A scheduler's address, its process and those of its workers."""

    address: str
    scheduler: Process
    workers: list[Process]

    def start_worker(self, *options: str) -> Process:
        """Start a worker with these options of `mavcg farm join`; it has joined."""
        self.workers.append(started("join", self.address, *options)[0])
        return self.workers[-1]


def started(*words: str) -> tuple[Process, dict[str, Any]]:
    """Start `mavcg farm` with these words; return the process and the line of JSON that it prints when it is ready."""
    command = [sys.executable, "-I", "-m", "mavcg.cli", "farm", *words, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"{' '.join(words)} has ended with {process.wait()}"
    return process, json.loads(line)


@contextmanager
def cluster(options: Sequence[Sequence[str]] = ((),), serve: Sequence[str] = ()) -> Iterator[DaskCluster]:
    """Start a scheduler, and a worker for each list of options; all are ended at the end.

    serve: more options of `mavcg farm serve`. This process too has the farm's token meanwhile.
    """
    with own_token():
        scheduler, facts = started("serve", "--port", "0", *serve)
        made = DaskCluster(facts["address"], scheduler, [])
        try:
            for each in options:
                made.start_worker(*each)
            yield made
        finally:
            for process in (*made.workers, scheduler):
                process.kill()
                process.communicate()


@contextmanager
def own_token() -> Iterator[Path]:
    """Let this process, and those that it starts, have a farm's token in a new folder."""
    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "farm" / "token.pem"
        os.environ[VARIABLE] = str(path)
        try:
            yield path
        finally:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before
