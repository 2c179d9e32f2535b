"""A machine's shell: the interface of transports, which run lines of script and copy files; results and errors."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mavcg.errors import MavcgError


class RunnerError(MavcgError):
    """Raised if a machine cannot be reached or used."""


class ConnectionLost(RunnerError):
    """Raised if the connection to a machine is lost while a program runs there; it may be possible to reconnect."""


class Silent(RunnerError):
    """Raised if a program on a machine printed nothing for too long, and was stopped."""


@dataclass(frozen=True)
class Finished:
    """The result of a program or script.

    status: as in shells, 128 + the signal's number for a killed program. stdout: its standard output. words: its
    messages on standard error, or the transport's.
    """

    status: int
    stdout: bytes
    words: str

    @property
    def how(self) -> str:
        """Describe how the program ended."""
        if self.status > 128:
            meaning = _SIGNALS.get(self.status - 128, "")
            return f"was ended by signal {self.status - 128}" + (f" ({meaning})" if meaning else "")
        return f"ended with status {self.status}"


_SIGNALS = {
    4: "an instruction that this CPU does not have",
    6: "abort",
    7: "bus error",
    8: "arithmetic",
    9: "killed",
    11: "memory that is not there",
    15: "terminated",
}


class Transport(Protocol):
    """A connection to a machine. Scripts are one line for a POSIX sh, without backslashes."""

    @property
    def name(self) -> str:
        """The machine's name, as for --runner."""

    @property
    def is_this_machine(self) -> bool:
        """True if the machine is the one that this process runs on, so that its registers can be read."""

    @property
    def install(self) -> str:
        """Advice on installing the client, for the error that it is missing."""

    @property
    def folder(self) -> str:
        """The folder on the machine in which the temporary folder is created by default."""

    def argv(self, script: str) -> list[str]:
        """Return the client's command line that runs a script on the machine."""

    def send(self, file: Path, to: str) -> None:
        """Copy a local file to a path on the machine. Raises: RunnerError."""

    def fetch(self, file: str, to: Path) -> None:
        """Copy a file from the machine to a local path. Raises: RunnerError."""

    def close(self) -> None:
        """Close the connection; the next script opens it again."""

    def fault(self, status: int, client_message: str, running: bool) -> RunnerError:
        """Return the error if the client ended before the script did.

        status, client_message: exit status and messages of the client. running: True if a script ran on the machine;
        the error is then ConnectionLost.
        """


def last_line(messages: str) -> str:
    """Return the last line of a client's messages, for an error."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    return lines[-1] if lines else "it says nothing"
