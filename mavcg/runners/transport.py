"""The interface of transports to a machine's shell: scripts of one line, files there and back."""

from pathlib import Path
from typing import Protocol

from mavcg.runners.finished import RunnerError


class Transport(Protocol):
    """A connection to a machine. Scripts are for a POSIX sh, one line, without backslashes."""

    @property
    def name(self) -> str:
        """The machine's name as --runner takes it."""

    @property
    def is_this_machine(self) -> bool:
        """True if the machine is the one that this process runs on: its registers can be read."""

    @property
    def install(self) -> str:
        """Advice on installing the client, for the error where it is missing."""

    @property
    def folder(self) -> str:
        """Folder on the machine in which the temporary folder is created by default."""

    def argv(self, script: str) -> list[str]:
        """Return the client's words that run a script there."""

    def send(self, file: Path, to: str) -> None:
        """Copy a file there. Raises: RunnerError."""

    def fetch(self, file: str, to: Path) -> None:
        """Copy a file from there. Raises: RunnerError."""

    def close(self) -> None:
        """Give up what was kept open; the next script opens it again."""

    def fault(self, status: int, words: str, running: bool) -> RunnerError:
        """Return the fault when the client ended and the script did not; ConnectionLost if the script was `running`."""


def last_line(words: str) -> str:
    """Return the last line of a client's messages, for an error."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1] if lines else "it says nothing"
