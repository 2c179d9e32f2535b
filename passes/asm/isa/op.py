"""Values that pipeline models and schedulers work on: instructions as class and registers, dependences, schedules."""

from dataclasses import dataclass
from typing import NamedTuple


# RegisterRead and Edge are tuples: models and schedulers create, compare and hash hundreds of thousands of them, and a
# dataclass takes five times as long.
class RegisterRead(NamedTuple):
    """A register that is read. role: one of instr_classes.ROLES, or ""."""

    register: str
    role: str = ""


@dataclass(frozen=True)
class Op:
    """One instruction, as a model sees it.

    text: the instruction, for messages. op_class: its instruction class (mavcg.hardware.instr_classes). reads, writes:
    registers, named by their whole: x0 for w0 too, v0 for s0, d0 and q0, "nzcv" for the flags; never xzr. writeback:
    the address register that the instruction updates (in `writes` too); its new value has the timing of class
    "writeback". unaligned: True if it is known, from a run, to access 16 bytes at an address not a multiple of 16.
    """

    text: str
    op_class: str
    reads: tuple[RegisterRead, ...] = ()
    writes: tuple[str, ...] = ()
    writeback: str | None = None
    unaligned: bool = False


class Edge(NamedTuple):
    """A dependence: `target`, `distance` iterations later, may issue `latency` cycles after `source` at the earliest.

    source, target: indices of ops of the body. latency: in cycles; 0 allows the same cycle, but later in program order
    (an antidependence: a register is read before it is overwritten). distance: 0 is the same iteration.
    """

    source: int
    target: int
    latency: int
    distance: int = 0


@dataclass(frozen=True)
class Schedule:
    """A modulo schedule of a loop's body.

    cycles[i]: the cycle in which op i of the first iteration issues; iteration n issues it n * interval cycles later.
    by: algorithm that found it, "cp-sat" or "heuristic". optimal: True if no smaller interval exists.
    """

    interval: int
    cycles: tuple[int, ...]
    by: str
    optimal: bool = False


# Result of a search that found no schedule; it is stored too, so that the search is not repeated.
NO_SCHEDULE = Schedule(0, (), "none")
