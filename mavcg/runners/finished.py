"""The end of a program on a machine, or the reason why it could not be run there."""

from dataclasses import dataclass

from mavcg.errors import MavcgError


class RunnerError(MavcgError):
    """The machine cannot be reached or used."""


class ConnectionLost(RunnerError):
    """The connection to a machine broke off while a program ran there; it may come back in a moment."""


class Silent(RunnerError):
    """A program on the machine printed nothing for too long, and was ended."""


@dataclass(frozen=True)
class Finished:
    """A program or script that ended: its status as shells have it, 128 and the signal's number for one that was
    killed; its standard output; its messages on standard error, or the transport's."""

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
    4: "an instruction that this CPU does not have", 6: "abort", 7: "bus error", 8: "arithmetic", 9: "killed",
    11: "memory that is not there", 15: "terminated",
}  # fmt: skip
