"""The changes that the machine passes make to loops and functions, as values."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LoopReport:
    """The changes to a loop; cycles are predicted by the model, per iteration of the input loop.

    line: of the loop's first instruction. splits, unpaired: as in SplitBody. scheduled_by: "cp-sat", "heuristic", or
    "kept" for an unchanged loop. initiation_interval: cycles between the starts of two iterations of the new loop.
    unrolled: iterations of the input loop in one of the new loop. rerolled: iterations of the new loop that make one of
    the input loop. stages: iterations in flight at once. unchanged_because: the reason, or "". against_model: the
    measurement, with its source, that selected a form with more predicted cycles than the input; "" if the model
    prefers the form.
    """

    label: str
    line: int
    cycles_before: float | None = None
    cycles_after: float | None = None
    instructions_before: int = 0
    instructions_after: int = 0
    splits: int = 0
    unpaired: int = 0
    scheduled_by: str = "kept"
    initiation_interval: float | None = None
    unrolled: int = 1
    rerolled: int = 1
    stages: int = 1
    unchanged_because: str = ""
    against_model: str = ""


@dataclass(frozen=True)
class FunctionReport:
    """The changes to a function.

    loops: one report per loop of one block. blocks: number of straight-line segments with a better order. splits:
    number of loads split outside of loops of one block. unchanged_because: the reason, or "".
    """

    name: str
    loops: tuple[LoopReport, ...] = ()
    blocks: int = 0
    splits: int = 0
    unchanged_because: str = ""
