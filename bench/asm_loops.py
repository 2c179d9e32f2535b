"""Loops of assembly for `bench.machine_passes`: compiled, estimated, tuned, and with forced load splitting."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.records import ROOT
from mavcg.hardware.core import LoadPolicy
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.blocks import functions_of
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.analysis.liveness import liveness, private_conventions
from mavcg.passes.asm.isa.operation_count import OperationCount, total_operations
from mavcg.passes.asm.isa.source import parse_source
from mavcg.passes.asm.isa.syntax import Instr
from mavcg.passes.asm.loop_schedule import SchedulingEffort
from mavcg.passes.asm.loop_tuning import tune_loop
from mavcg.passes.asm.models.estimate import estimate_loop
from mavcg.passes.asm.transforms.rename_registers import NoRegister, allocate
from mavcg.passes.asm.transforms.split_loads import split_loads
from mavcg.passes.asm.transforms.vector_spill import spill_to_vectors
from mavcg.passes.asm.tune import tune
from mavcg.passes.asm.tuning_reports import LoopReport
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

TARGET = "aarch64-linux-gnu.2.17"
COMPILED_FOR = "cortex_a55"


@dataclass(frozen=True)
class Loop:
    """A loop of one block: function, label, instructions of an iteration, registers live at its top and end."""

    function: str
    label: str
    line: int
    instrs: tuple[Instr, ...]
    live_in: frozenset[str]
    live_out: frozenset[str]

    @property
    def work(self) -> OperationCount:
        """Return the arithmetic of one iteration."""
        return total_operations(self.instrs)

    @property
    def multiply_adds(self) -> int:
        """Return the vector instructions of one iteration that multiply and add, or multiply and widen."""
        return sum(1 for instr in self.instrs if _multiplies(instr))


def _multiplies(instr: Instr) -> bool:
    widening = instr.mnemonic in ("smull", "smull2", "umull", "umull2")
    return widening or total_operations([instr]).macs > 0


def compile_to_assembly(source: Path, out: Path, flags: Sequence[str]) -> str:
    """Return the assembly that ziglang's clang makes of a source for a Cortex-A55."""
    tool = "cc" if source.suffix == ".c" else "c++"
    common = ["-target", TARGET, f"-mcpu={COMPILED_FOR}", "-O3", *PLAIN_CODE_FLAGS, "-DNDEBUG"]
    run_zig(tool, [*common, *flags, "-S", str(source), "-o", str(out)], f"compiling {source.relative_to(ROOT)}")
    return out.read_text()


def loops_of(text: str) -> list[Loop]:
    """Return every loop of one block whose instructions are all known."""
    statements = parse_source(text)
    functions = functions_of(statements)
    private = private_conventions(functions)
    loops = []
    for function in functions:
        live = liveness(function, False, private)
        for index, block in enumerate(function.blocks):
            instrs = [statements[line.statement].instr for line in block.lines]
            if block.loops_to_itself(index) and all(line.effects for line in block.lines):
                line = statements[block.lines[0].statement].line
                whole = tuple(instr for instr in instrs if instr is not None)
                label = block.labels[-1] if block.labels else f"line {line}"
                loops.append(Loop(function.name, label, line, whole, live.at_top[index], live.at_end[index]))
    return loops


def cycles(instrs: Sequence[Instr], timing: Timing) -> float:
    """Return the cycles of one iteration in the given order, by the core's model."""
    return estimate_loop([code.op for code in with_effects(instrs)], timing).cycles


def split_by_force(loop: Loop) -> tuple[Instr, ...]:
    """Return the loop with its pairs unpaired and its q loads split, in their original order, whatever the model says.

    Loads are split as long as registers are free; a value that is only used after the loop gives up its register.
    """
    accessed = frozenset(reg.name for instr in loop.instrs for reg in instr.registers())
    spill = spill_to_vectors(accessed, loop.live_in, loop.live_out)
    live_in, live_out = ((live - spill.registers) | spill.holders for live in (loop.live_in, loop.live_out))
    form = split_loads(loop.instrs, True, True)
    while True:
        try:
            return allocate(with_effects(form.instrs), live_in, live_out, spill.registers)
        except NoRegister:
            form = split_loads(loop.instrs, True, True, len(form.scratch) - 1)


def forced(loop: Loop, timing: Timing) -> tuple[float, float]:
    """Return the cycles of the split loop in its original order, and in the best order that the passes find.

    No form with whole q loads is tried, so this is the cost of splitting on a core whose profile does not request it.
    """
    body = split_by_force(loop)
    whole = Loop(loop.function, loop.label, loop.line, body, loop.live_in, loop.live_out)
    report, _ = tune_loop(
        body,
        whole.live_in,
        whole.live_out,
        timing,
        LoadPolicy(schedule=True),
        SchedulingEffort(),
        (loop.label, 0, ".Lwhat_if"),
    )
    alone = cycles(body, timing)
    return alone, min(alone, report.cycles_after if report.cycles_after is not None else math.inf)


def tuned(
    text: str,
    timing: Timing,
    policy: LoadPolicy,
    effort: SchedulingEffort | None = None,
    skip: Callable[[str], str] = lambda name: "",
) -> dict[tuple[str, str], LoopReport]:
    """Return the passes' results by function and label; schedules of earlier runs are not used."""
    done = tune(text, timing, policy, effort or SchedulingEffort(), skip=skip, open_inline=True)
    return {(function.name, loop.label): loop for function in done.functions for loop in function.loops}
