"""The ways to a machine's shell, one interface: scripts of one line, files there and back."""

from pathlib import Path
from typing import Protocol

from mavcg.runners.finished import RunnerError


class Transport(Protocol):
    """A way to a machine. Scripts are for a POSIX sh, one line, without backslashes."""

    @property
    def name(self) -> str:
        """As --runner takes it."""

    @property
    def install(self) -> str:
        """The way out where the client is not there."""

    @property
    def folder(self) -> str:
        """In which the temporary folder is made, if nothing else is said."""

    def argv(self, script: str) -> list[str]:
        """The client's words that run a script there."""

    def send(self, file: Path, to: str) -> None:
        """Copy a file there. Raises: RunnerError."""

    def fetch(self, file: str, to: Path) -> None:
        """Copy a file from there. Raises: RunnerError."""

    def close(self) -> None:
        """Give up what was kept open; the next script opens it again."""

    def fault(self, status: int, words: str, running: bool) -> RunnerError:
        """What is wrong when the client ended and the script did not; ConnectionLost where it was `running`."""


def last_line(words: str) -> str:
    """Of what a client said, for a message."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1] if lines else "it says nothing"
