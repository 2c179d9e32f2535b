"""Lower bounds on the cycles per iteration of a loop."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class CycleBound:
    """A lower bound on the cycles per iteration.

    kind: "dispatch", "units" or "recurrence". ops: the ops that cause it, as indices into the body. why: a message.
    """

    kind: str
    cycles: Fraction
    ops: tuple[int, ...]
    why: str
