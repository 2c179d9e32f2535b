"""Options of the machine passes, and which cores have them; imports no pass, so that the CLI starts fast."""

from dataclasses import dataclass

from mavcg.errors import MavcgError
from mavcg.hardware.core import Core

BEST_SECONDS = 8.0  # of the exact solver per loop, for --tune best


@dataclass(frozen=True)
class Tuning:
    """Options of the machine passes. on: False to skip them. solver_seconds: of the exact solver per loop."""

    on: bool = True
    solver_seconds: float = 0.0


FAST = Tuning()


def parse_tuning(word: str | None) -> Tuning:
    """Parse a value of --tune; None means "fast". Raises: MavcgError for an unknown value."""
    known = {"off": Tuning(on=False), "fast": Tuning(), "best": Tuning(solver_seconds=BEST_SECONDS)}
    if (word or "fast") not in known:
        raise MavcgError(f"--tune {word}: not one of {', '.join(known)}; fast is right for most programs")
    return known[word or "fast"]


def has_machine_passes(core: Core) -> bool:
    """True if a core's profile requests any machine pass."""
    return core.arch == "aarch64" and (core.policy.split or core.policy.unpair or core.policy.schedule)
