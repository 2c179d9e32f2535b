"""Commands that run beside a scenario's, and the end of one that serves: each prints a line when it is ready."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path


class Helpers:
    """Command lines of mavcg that run until `close`. address: that of the first, by its line of JSON."""

    def __init__(self, commands: Sequence[Sequence[str]], words: Callable[[str], str]) -> None:
        """Start them, each when the one before is ready. words: fills folders and the address into a word."""
        self._processes: list[subprocess.Popen[str]] = []
        self._commands, self._words = commands, words
        self.address = ""

    def start(self) -> None:
        """Start those that do not run, the first time all of them. Raises: SystemExit where one does not begin."""
        for command in self._commands[len(self._processes) :]:
            line = [sys.executable, "-I", "-m", "mavcg.cli", *map(self._words, command)]
            environment = os.environ | {"MAVCG_CACHE": "off"}
            process = subprocess.Popen(
                line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
            )
            self._processes.append(process)
            assert process.stdout is not None
            ready = process.stdout.readline()
            if not ready:
                raise SystemExit(f"fuzz.inject: {' '.join(command)} ended with {process.wait()}")
            self.address = self.address or json.loads(ready)["address"]

    def close(self) -> None:
        """End them, the last one first."""
        for process in reversed(self._processes):
            process.kill()
            process.communicate()


def end_when_ready(child: int, output: Path, late: float) -> None:
    """Send SIGTERM to a command when it has printed a line, unless it has ended or `late` has come."""
    while time.monotonic() < late and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if output.is_file() and output.read_text().endswith("\n"):
            os.kill(child, signal.SIGTERM)
            return
        time.sleep(0.01)


def processes_left(group: int, grace_s: float = 2.0) -> bool:
    """End what is left of a group of processes; return whether something was, after `grace_s` seconds."""
    late = time.monotonic() + grace_s
    try:
        while time.monotonic() < late:
            os.killpg(group, 0)
            time.sleep(0.02)
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
