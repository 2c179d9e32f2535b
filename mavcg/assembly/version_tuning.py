"""The tuning of a version as values: what is to be tuned, and what the machine passes and a core's model say of it.

They import no pass: a build that tunes nothing does not load the machine passes.
"""

import re
from dataclasses import dataclass
from typing import Any

from mavcg.hardware.core import Core
from mavcg.passes.asm.tuning_reports import FunctionReport

# Accesses whose order or number a program may rely on, and which in assembly look like any other. Stronger atomics have
# their own instructions, which are fences to the passes.
_VOLATILE = re.compile(r"\b(?:load|store) (?:atomic )?volatile |\b(?:load|store) atomic |syncscope\(\"singlethread\"\)")


@dataclass(frozen=True)
class TuningJob:
    """A version to be tuned.

    asm, symbol: its assembly and its symbol. generic_asm, generic_symbol: of the generic version, for comparison.
    why_not: the reason why it must not be changed, or "". open_inline: True if no inline assembly in it clobbers
    memory. heuristic_seconds: as in SchedulingEffort. account: True if the figures of VersionTuning are needed. only:
    the function of `asm` to tune; "" for all.
    """

    core: Core
    asm: str
    symbol: str
    generic_asm: str
    generic_symbol: str
    why_not: str = ""
    open_inline: bool = False
    heuristic_seconds: float = 1.0
    account: bool = True
    only: str = ""

    def why_kept(self, function: str) -> str:
        """Return the reason why a function of `asm` must not be changed, or ""."""
        return self.why_not or ("another function is tuned" if self.only not in ("", function) else "")


@dataclass(frozen=True)
class VersionTuning:
    """The changes of the machine passes to a version, and the performance of its main loop by the core's model.

    unit: the unit of work, as in LoopFigure; "" if nothing can be timed. generic, directive, tuned: work per cycle of
    the main loop of the generic version, of LLVM's code for the core, and of that code tuned; None if unknown, and
    `tuned` also if the core has no machine passes. is_hottest: False if the model cannot time a loop that is estimated
    to be hotter. loop_cycles: cycles that a call of the generic version spends in loops, by estimated frequencies.
    """

    functions: tuple[FunctionReport, ...]
    unit: str = ""
    generic: float | None = None
    directive: float | None = None
    tuned: float | None = None
    is_hottest: bool = True
    loop_cycles: float = 0.0

    @property
    def splits(self) -> int:
        """Number of 128-bit loads that the machine passes split."""
        return sum(sum(loop.splits for loop in function.loops) + function.splits for function in self.functions)

    @property
    def own(self) -> float | None:
        """Operations per cycle of the version as it will run."""
        return self.directive if self.tuned is None else self.tuned

    def as_json(self) -> dict[str, Any]:
        """Return the JSON for reports and notes; every figure is modelled."""
        loops = [loop for function in self.functions for loop in function.loops]
        return {
            "unit": f"{self.unit}/cycle" if self.unit else None,
            "generic": _round_figure(self.generic),
            "directive": _round_figure(self.directive),
            "tuned": _round_figure(self.tuned),
            "main_loop": (HOTTEST if self.is_hottest else NOT_HOTTEST) if self.unit else None,
            "loops": len(loops),
            "loops_tuned": sum(not loop.unchanged_because for loop in loops),
            "blocks_tuned": sum(function.blocks for function in self.functions),
            "splits": self.splits,
        }


def _round_figure(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 3)


HOTTEST = "hottest by nesting and trip counts"
NOT_HOTTEST = "the hottest that the model can time, by nesting and trip counts"


@dataclass(frozen=True)
class TuningFailure:
    """The result of a tuning that failed. message: why."""

    message: str


def why_untouched(ir: str) -> str:
    """Return the reason why memory accesses of a version with this IR must not be moved, or ""."""
    return "it has volatile or relaxed atomic accesses" if _VOLATILE.search(ir) else ""


def has_open_inline(ir: str) -> bool:
    """True if no inline assembly in the IR clobbers memory, so that accesses may move across it."""
    return "~{memory}" not in ir and "module asm" not in ir
