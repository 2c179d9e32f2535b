"""The result of a program on a machine, and the errors if it could not be run there."""

from dataclasses import dataclass

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
