"""The grid of a schedule's picture: which op issues in each slot of each cycle, and why a slot is empty."""

from dataclasses import dataclass

from mavcg.hardware.instr_classes import CLASSES
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.estimate import LoopEstimate
from mavcg.passes.asm.models.in_order_pipeline import Wait


@dataclass(frozen=True)
class Cell:
    """One issue slot of one cycle.

    op: None for an empty slot. wait: for an empty slot, why the next op waited. from_before: True if the op belongs to
    the previous iteration, whose last cycle is the first one shown. stalled: True if nothing issues in the cycle.
    """

    op: Op | None = None
    iteration: int = 0
    from_before: bool = False
    wait: Wait | None = None
    stalled: bool = False

    @property
    def family(self) -> str:
        return CLASSES[self.op.op_class].family if self.op is not None else ""


@dataclass(frozen=True)
class Row:
    """One cycle of the schedule, with a cell per issue slot."""

    cycle: int
    cells: tuple[Cell, ...]

    @property
    def reason(self) -> str:
        """The reason why slots of the cycle are empty; "" if none is empty, or the code ends here."""
        return next((cell.wait.why for cell in self.cells if cell.wait is not None), "")

    @property
    def is_stall(self) -> bool:
        return all(cell.stalled for cell in self.cells)


def schedule_rows(estimate: LoopEstimate) -> list[Row]:
    """Return the cycles of an in-order estimate: of a block, or of a loop's iterations until its schedule repeats.

    Cycles of a loop are modulo its period: an op that issues in the next period's first cycle is shown in this one's.
    """
    count = estimate.period_cycles
    ops: dict[tuple[int, int], Cell] = {}
    waits: dict[int, Wait] = {}
    for issue in estimate.issues:
        cycle = issue.cycle
        cell = Cell(estimate.ops[issue.op].op, issue.iteration, from_before=cycle >= count)
        ops[cycle % count, issue.slot] = cell
        first = cycle - sum(wait.cycles for wait in issue.waits)
        for wait in issue.waits:
            for lost in range(first, first + wait.cycles):
                if estimate.is_loop or lost >= 0:
                    waits[lost % count] = wait
            first += wait.cycles
    rows = []
    for cycle in range(count):
        stalled = not any((cycle, slot) in ops for slot in range(estimate.width))
        empty = Cell(wait=waits.get(cycle), stalled=stalled)
        rows.append(Row(cycle, tuple(ops.get((cycle, slot), empty) for slot in range(estimate.width))))
    return rows


def headline(estimate: LoopEstimate) -> str:
    """Return a line with the core, the cycles and the model."""
    figure = f"{estimate.cycles:.2f}".rstrip("0").rstrip(".")
    unit = "cycles per iteration" if estimate.is_loop else "cycles"
    return f"{estimate.core}: {figure} {unit} by the {estimate.model} model (a prediction, not a measurement)"


def verdict(estimate: LoopEstimate) -> str:
    """Return a line with the bound that limits the loop, and its cause."""
    return f"bound by {estimate.bound_by}: {estimate.because}"
