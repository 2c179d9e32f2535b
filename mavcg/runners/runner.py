"""What a runner is: a machine that says what it has, and runs a program that is sent to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.runners.facts import MachineFacts

FOLDER_VARIABLE = "MAVCG_RUNNER_FOLDER"  # where on the machine the temporary folder is made
SILENCE_S = 300.0  # a program that prints nothing for so long is given up


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


class Runner(Protocol):
    """A machine. To be used by `with`: at its end nothing of ours is left on the machine."""

    @property
    def name(self) -> str:
        """As --runner takes it, and as messages say it."""

    def __enter__(self) -> "Runner": ...

    def __exit__(self, *_: object) -> None: ...

    def facts(self) -> "MachineFacts":
        """What the machine says of its CPUs. Raises: RunnerError where it cannot be reached."""

    def run(
        self,
        program: Path,
        arguments: Sequence[str],
        *,
        files_in: Mapping[str, Path] | None = None,
        files_out: Mapping[str, Path] | None = None,
        on_line: Callable[[str], None] | None = None,
        silence_s: float = SILENCE_S,
    ) -> Finished:
        """Send a program where it is not there yet, and run it in the temporary folder, with nothing to read.

        files_in, files_out: name in that folder -> file here, sent before and fetched after. on_line: each line of its
        output as soon as it is known; what it raises ends the program. A status other than 0 is no error here.
        Raises: ConnectionLost; Silent after silence_s without output; RunnerError for all else.
        """
