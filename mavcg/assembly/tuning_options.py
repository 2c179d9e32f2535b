"""Options of the machine passes, and the cores that they are for; no pass is imported."""

from dataclasses import dataclass

from mavcg.errors import MavcgError
from mavcg.hardware.core import Core

BEST_SECONDS = 8.0  # of the solver, for a loop


@dataclass(frozen=True)
class Tuning:
    """Options of the machine passes: used or not, and seconds that the exact solver may take for a loop."""

    on: bool = True
    solver_seconds: float = 0.0


FAST = Tuning()


def parse_tuning(word: str | None) -> Tuning:
    """Return the settings for a value of --tune; fast for None. Raises: MavcgError for an unknown value."""
    known = {"off": Tuning(on=False), "fast": Tuning(), "best": Tuning(solver_seconds=BEST_SECONDS)}
    if (word or "fast") not in known:
        raise MavcgError(f"--tune {word}: is none of {', '.join(known)}; fast is right for most programs")
    return known[word or "fast"]


def has_machine_passes(core: Core) -> bool:
    """True if a core's profile requests any machine pass."""
    return core.arch == "aarch64" and (core.policy.split or core.policy.unpair or core.policy.schedule)
