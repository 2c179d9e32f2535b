"""An instruction as pipeline models and schedulers see it: its class and the registers that tie it to others."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Read:
    """A register that is read, and how: role is one of instr_classes.ROLES or "" (see there)."""

    register: str
    role: str = ""


@dataclass(frozen=True)
class Op:
    """One instruction.

    op_class: its name in mavcg.instr_classes. Registers are whole ones: x0 for w0 too, v0 for s0, d0 and q0, "nzcv" for
    the flags; never xzr. text: the instruction itself, for people. writeback: the address register that it also
    updates (in `writes` too), whose new value follows the timing of class "writeback".
    """

    text: str
    op_class: str
    reads: tuple[Read, ...] = ()
    writes: tuple[str, ...] = ()
    writeback: str | None = None


@dataclass(frozen=True)
class Edge:
    """`target`, `distance` iterations later, may issue `latency` cycles after `source` or later still.

    Indices count the ops of the body. latency 0: the same cycle will do, but after it in order (a register read before
    it is written anew). distance 0: in the same iteration.
    """

    source: int
    target: int
    latency: int
    distance: int = 0


@dataclass(frozen=True)
class Schedule:
    """Times for the ops of a loop's body.

    cycles[i]: when op i of the first iteration issues; iteration n issues it n * interval cycles later.
    by: "cp-sat" or "heuristic". optimal: no smaller interval exists under the constraints given.
    """

    interval: int
    cycles: tuple[int, ...]
    by: str
    optimal: bool = False


# What is kept of a search that found nothing, so that it is not made again.
NO_SCHEDULE = Schedule(0, (), "none")
