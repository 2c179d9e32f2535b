"""Cycles of the blocks of compiled kernels by a core's pipeline model, under the names that the emitter gave them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing

if TYPE_CHECKING:
    from mavcg.assembly.loop_estimates import BlockEstimate

_NAMED = re.compile(r"(?:^|\s)(?://|#)\s*%(?P<name>[\w.$-]+)\s*$")
UNROLLED = (1, 2, 4)  # iterations that the machine passes make one


@dataclass(frozen=True)
class BlockCost:
    """Cycles of one iteration of a single-block loop, or of one run of a block. operations: vector arithmetic in it."""

    cycles: float
    operations: int
    is_loop: bool


@dataclass(frozen=True)
class BuiltLoop:
    """A single-block loop in a built library: cycles and vector operations of one iteration."""

    cycles: float
    operations: int


def block_costs(text: str, kernels: Mapping[str, str], timing: Timing) -> dict[str, dict[str, BlockCost]]:
    """Return kernel -> block name -> cost, from assembly that names the emitter's block after each label.

    kernels: symbol -> kernel. Blocks with an instruction that the core's profile lacks are left out.
    """
    from mavcg.assembly.asm_input import AsmInput  # the machine passes, which builds for x86 do without
    from mavcg.assembly.asm_source import AsmSource
    from mavcg.assembly.loop_estimates import estimate_function
    from mavcg.passes.asm.analysis.blocks import functions_of
    from mavcg.passes.asm.isa.source import parse_source

    lines = text.splitlines()
    named = {number: match["name"] for number, line in enumerate(lines, 1) if (match := _NAMED.search(line))}
    statements = parse_source(text, "kernels")
    functions = functions_of(statements, "kernels")
    code = AsmInput(AsmSource(text, "kernels"), statements, functions)
    by_kernel: dict[str, dict[str, BlockCost]] = {}
    for function in functions:
        kernel = kernels.get(function.name.strip('"'))
        if kernel is None:
            continue
        costs = by_kernel.setdefault(kernel, {})
        for block in estimate_function(code, function, timing, straight=True):
            name = _name_above(block.line, named, lines)
            if name and block.estimate is not None:
                costs[name] = BlockCost(_cycles(block), _operations(block), block.kind == "loop")
    return by_kernel


def built_loops(library: Path, core: Core, kernels: Sequence[str], timing: Timing) -> dict[str, list[BuiltLoop]]:
    """Return kernel -> its single-block loops, of the version that the core runs.

    Raises: MavcgError, like read_asm_input.
    """
    from mavcg.assembly.asm_input import read_asm_input
    from mavcg.assembly.loop_estimates import estimate_function

    code = read_asm_input(library, core, kernels)
    by_kernel: dict[str, list[BuiltLoop]] = {}
    for function in code.functions:
        loops = [loop for loop in estimate_function(code, function, timing) if loop.kind == "loop"]
        by_kernel[function.name.strip('"').partition(".")[0]] = [
            BuiltLoop(loop.estimate.cycles, _operations(loop)) for loop in loops if loop.estimate is not None
        ]
    return by_kernel


def cycles_as_built(blocks: Mapping[str, BlockCost], built: Sequence[BuiltLoop]) -> dict[str, float]:
    """Return the cycles of each block, with loops as in the built library.

    A loop costs what the fastest built loop with its arithmetic, or a multiple of it, costs. The machine passes only
    keep what their model finds faster; if no built loop matches, the compiler's loop counts.
    """
    cycles_of = {}
    for name, block in blocks.items():
        cycles = [block.cycles]
        if block.is_loop and block.operations:
            for factor in UNROLLED:
                cycles += [loop.cycles / factor for loop in built if loop.operations == factor * block.operations]
        cycles_of[name] = min(cycles)
    return cycles_of


def _operations(block: "BlockEstimate") -> int:
    return block.work.flops + block.work.int_ops


def _cycles(block: "BlockEstimate") -> float:
    """Return the cycles of an iteration or of a run.

    Out of order, the latency of a straight block passes while other blocks run.
    """
    from mavcg.passes.asm.models.estimate import IN_ORDER

    assert block.estimate is not None
    if block.kind == "loop" or block.estimate.model == IN_ORDER:
        return block.estimate.cycles
    return max(value for kind, value in block.estimate.bounds.items() if kind != "critical path")


def _name_above(line: int, block_names: Mapping[int, str], lines: Sequence[str]) -> str:
    """Return the name of the block at the label above its first instruction; "" for a block that the compiler made."""
    for number in range(line - 1, 0, -1):
        text = lines[number - 1].strip()
        if number in block_names:
            return block_names[number]
        if not (text.startswith(("//", "#", ".cfi", ".p2align")) or text.endswith(":")) and text:
            return ""
    return ""
