"""Instructions as pipeline models and schedulers see them: class and registers; edges between them; schedules."""

from dataclasses import dataclass
from typing import NamedTuple


# Tuples, of which models and schedulers make, compare and hash hundreds of thousands: a dataclass takes five times as
# long.
class RegisterRead(NamedTuple):
    """A register that is read. role: one of instr_classes.ROLES, or ""."""

    register: str
    role: str = ""


@dataclass(frozen=True)
class Op:
    """One instruction.

    op_class: its name in mavcg.hardware.instr_classes. Registers are whole ones: x0 for w0 too, v0 for s0, d0 and q0,
    "nzcv" for the flags; never xzr. text: the instruction, for messages. writeback: the address register that it also
    updates (in `writes` too), whose new value has the timing of class "writeback". unaligned: known to access 16 bytes
    at an address that is no multiple of 16, as of an instruction that has run.
    """

    text: str
    op_class: str
    reads: tuple[RegisterRead, ...] = ()
    writes: tuple[str, ...] = ()
    writeback: str | None = None
    unaligned: bool = False


class Edge(NamedTuple):
    """A dependence: `target`, `distance` iterations later, may issue `latency` cycles after `source` at the earliest.

    source, target: indices of ops of the body. latency: 0 allows the same cycle, but later in order (a register that is
    read before it is overwritten). distance: 0 is the same iteration.
    """

    source: int
    target: int
    latency: int
    distance: int = 0


@dataclass(frozen=True)
class Schedule:
    """A modulo schedule of a loop's body.

    cycles[i]: the cycle in which op i of the first iteration issues; iteration n issues it n * interval cycles later.
    by: "cp-sat" or "heuristic". optimal: no smaller interval exists under the constraints given.
    """

    interval: int
    cycles: tuple[int, ...]
    by: str
    optimal: bool = False


# Stored for a search that found no schedule, so that it is not repeated.
NO_SCHEDULE = Schedule(0, (), "none")
