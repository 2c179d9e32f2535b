"""The value in which the port-bound model states a lower bound on the cycles per iteration of a loop."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class CycleBound:
    """A lower bound on the cycles per iteration.

    kind: "dispatch", "units" or "recurrence". ops: indices into the body of the ops that cause it. why: the cause, as
    text for a message.
    """

    kind: str
    cycles: Fraction
    ops: tuple[int, ...]
    why: str
