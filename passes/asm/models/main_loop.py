"""Finds the main loop of a function and predicts its work per cycle by the model of a core.

Without a profile, the main loop is the one that does most work in a call: work per iteration times the block's
frequency, which is estimated from the loop nest (loop_nest.py). Work is arithmetic; for code without arithmetic in
vector registers it is bytes of memory, and for code without these the number of its instructions. A function without
loops is its largest block.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mavcg.hardware.timing import MissingFact, Timing
from mavcg.passes.asm.analysis.blocks import Block, Function, functions_of
from mavcg.passes.asm.analysis.dependences import Code
from mavcg.passes.asm.analysis.loop_nest import block_frequencies
from mavcg.passes.asm.isa.operation_count import total_operations
from mavcg.passes.asm.isa.source import Statement, parse_source
from mavcg.passes.asm.models.estimate import block_cycles, loop_cycles

ARITHMETIC, MEMORY, INSTRUCTIONS = "arithmetic", "memory", "instructions"  # kinds of work, the preferred one first
BYTE, INSTRUCTION = "byte", "instruction"
_STACK = "sp"  # what a compiler keeps on the stack differs between versions and is no work


@dataclass(frozen=True)
class LoopFigure:
    """The work of a loop and its predicted cycles.

    work: per iteration. unit: "FLOP", "OP" (integer operations), "byte" or "instruction". cycles: per iteration.
    is_hottest: False if the model cannot time another loop that is estimated to be hotter. is_loop: False for a block
    of a function without loops.
    """

    work: int
    unit: str
    cycles: float
    is_hottest: bool = True
    is_loop: bool = True

    @property
    def per_cycle(self) -> float:
        return self.work / self.cycles


@dataclass(frozen=True)
class FunctionRates:
    """Predicted work per cycle of a function on one core.

    figures: kind of work -> figure of the main loop by that kind. A kind is missing if no loop does such work or the
    model can time none that does; memory also if only loops around the innermost ones access it. loop_cycles: cycles
    that a call spends in loops, by the estimated frequencies of the blocks that the model can time.
    """

    figures: Mapping[str, LoopFigure]
    loop_cycles: float


def main_loop(text: str, function: str, timing: Timing) -> LoopFigure | None:
    """Predict the cycles of the function's main loop, or of its hottest block if the loop has several blocks.

    Returns: None if no loop does arithmetic, or the model cannot time any loop that does.
    """
    rates = function_rates(text, function, timing)
    figure = rates.figures.get(ARITHMETIC) if rates else None
    return figure if figure is not None and figure.is_loop else None


def function_rates(text: str, function: str, timing: Timing) -> FunctionRates | None:
    """Predict the work per cycle of a function's main loops. Returns: None if the text does not define the function."""
    parsed = _parse_function(text, function)
    if parsed is None:
        return None
    is_loop = any(block.in_loop for block in parsed.function.blocks)
    cycles = {
        index: _cycles(parsed.statements, block, index, timing)
        for index, block in enumerate(parsed.function.blocks)
        if block.in_loop or not is_loop
    }
    figures: dict[str, LoopFigure] = {}
    innermost = max((parsed.runs[index] for index in cycles), default=0)
    for kind, count in _COUNTS.items():
        is_hottest = True
        hottest = _hottest_first(parsed, cycles, count)
        if kind == MEMORY and hottest and parsed.runs[hottest[0][0]] < innermost:
            continue  # loops inside of it compute in registers
        for index, work, unit in hottest:
            known = cycles[index]
            if known:
                figures[kind] = LoopFigure(work, unit, known, is_hottest, is_loop)
                break
            is_hottest = False
    in_loops = sum(parsed.runs[index] * (known or 0.0) for index, known in cycles.items()) if is_loop else 0.0
    return FunctionRates(figures, in_loops)


@dataclass(frozen=True)
class _Parsed:
    """A function of an assembly text. runs: estimated frequency of each of its blocks."""

    statements: Sequence[Statement]
    function: Function
    runs: tuple[int, ...]


@lru_cache(maxsize=8)  # a generic version is compared with those of several cores
def _parse_function(text: str, function: str) -> _Parsed | None:
    statements = parse_source(text)
    chosen = next((f for f in functions_of(statements) if f.name == function), None)
    return None if chosen is None else _Parsed(statements, chosen, block_frequencies(chosen, statements))


def _hottest_first(
    parsed: _Parsed, blocks: Mapping[int, float | None], count: Callable[[Sequence[Code]], tuple[int, str]]
) -> list[tuple[int, int, str]]:
    """Return (block, work per iteration, unit) for each of these blocks that does such work, hottest first."""
    candidates = [(i, *count(_code(parsed.statements, parsed.function.blocks[i]))) for i in blocks]
    return sorted((c for c in candidates if c[1]), key=lambda entry: -entry[1] * parsed.runs[entry[0]])


def _arithmetic(code: Sequence[Code]) -> tuple[int, str]:
    done = total_operations(line.instr for line in code)
    return max((done.flops, "FLOP"), (done.int_ops, "OP"))


def _bytes_moved(code: Sequence[Code]) -> tuple[int, str]:
    accesses = [line.effects.memory for line in code]
    return sum(m.bytes for m in accesses if m is not None and m.address.base.name != _STACK), BYTE


def _instructions(code: Sequence[Code]) -> tuple[int, str]:
    return len(code), INSTRUCTION


_COUNTS: dict[str, Callable[[Sequence[Code]], tuple[int, str]]] = {
    ARITHMETIC: _arithmetic,
    MEMORY: _bytes_moved,
    INSTRUCTIONS: _instructions,
}


def _code(statements: Sequence[Statement], block: Block) -> list[Code]:
    """Return the instructions of a block that are known, with their effects."""
    code = [(statements[line.statement].instr, line.effects) for line in block.lines]
    return [Code(instr, effects) for instr, effects in code if instr is not None and effects is not None]


def _cycles(statements: Sequence[Statement], block: Block, index: int, timing: Timing) -> float | None:
    """Return the cycles of an iteration; None if it calls a function, or a fact about an instruction is unknown."""
    known = _code(statements, block)
    if len(known) != len(block.lines) or any(code.effects.flow in ("call", "indirect") for code in known):
        return None
    ops = [code.op for code in known]
    try:
        return (loop_cycles if block.loops_to_itself(index) else block_cycles)(ops, timing)
    except MissingFact:
        return None
