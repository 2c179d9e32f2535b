"""How a program on a machine ended, or why it could not be run there."""

from dataclasses import dataclass

from mavcg.errors import MavcgError


class RunnerError(MavcgError):
    """The machine cannot be reached or used."""


class ConnectionLost(RunnerError):
    """The way to a machine broke off while something ran there; it may be there again in a moment."""


class Silent(RunnerError):
    """A program on the machine printed nothing for too long, and was ended."""


@dataclass(frozen=True)
class Finished:
    """A program or script that ended: its status as shells have it, 128 and the signal's number for one that was
    killed; its standard output; what it said on standard error, or the transport did."""

    status: int
    stdout: bytes
    words: str

    @property
    def how(self) -> str:
        """How it ended, in words."""
        if self.status > 128:
            meaning = _SIGNALS.get(self.status - 128, "")
            return f"was ended by signal {self.status - 128}" + (f" ({meaning})" if meaning else "")
        return f"ended with status {self.status}"


_SIGNALS = {
    4: "an instruction that this CPU does not have", 6: "abort", 7: "bus error", 8: "arithmetic", 9: "killed",
    11: "memory that is not there", 15: "told to end",
}  # fmt: skip
