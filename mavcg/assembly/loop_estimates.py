"""Estimates the cycles of every loop of a function, unchanged, by the model of a core; as values and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mavcg.assembly.asm_input import AsmInput
from mavcg.hardware.timing import MissingFact, Timing
from mavcg.passes.asm.analysis.blocks import Block, Function
from mavcg.passes.asm.analysis.dependences import Code
from mavcg.passes.asm.analysis.loop_nest import block_frequencies
from mavcg.passes.asm.isa.operation_count import OperationCount, total_operations
from mavcg.passes.asm.models.estimate import IN_ORDER, PORT_BOUND, LoopEstimate, estimate_block, estimate_loop


@dataclass(frozen=True)
class BlockEstimate:
    """The estimate of a loop of one block, a block of a longer loop, or straight-line code.

    kind: "loop" (of one block), "block of a loop" or "block"; for the latter two, cycles are of one run on an idle
    core. line: in the user's file. address: of its first instruction, for a binary. estimate: None if the model cannot
    time it, for the reason in `why`. calls: functions that it calls, whose time is not included. runs: block frequency
    in a call, estimated from the loop nest and constant trip counts. samples: of a profile; None without a profile.
    """

    kind: str
    label: str
    line: int
    address: int | None
    instructions: int
    work: OperationCount
    estimate: LoopEstimate | None
    why: str = ""
    calls: tuple[str, ...] = ()
    runs: int = 1
    samples: float | None = None

    @property
    def heat(self) -> tuple[float, int, int]:
        """Sort key, largest for the hottest loop: samples, then estimated operations and instructions per call."""
        arithmetic = max(self.work.flops, self.work.int_ops) * self.runs
        return self.samples or 0.0, arithmetic, self.instructions * self.runs

    @property
    def location(self) -> str:
        """The loop's location, for messages."""
        if self.address is not None:
            return f"{self.address:#x}"
        return f"{self.label} (line {self.line})" if self.label else f"line {self.line}"

    def per_cycle(self, count: int) -> float | None:
        """Convert a count per iteration to a count per cycle; None without an estimate."""
        return count / self.estimate.cycles if self.estimate and self.estimate.cycles else None


def model_of(timing: Timing) -> str:
    """Return the name of the model that is used for the core."""
    return IN_ORDER if timing.order == "in" else PORT_BOUND


def estimate_function(
    code: AsmInput, function: Function, timing: Timing, straight: bool = False
) -> list[BlockEstimate]:
    """Estimate every loop of one block and every block of longer loops; with `straight`, all other blocks too."""
    runs = block_frequencies(function, code.statements)
    return [
        _estimate(code, block, index, timing, runs[index])
        for index, block in enumerate(function.blocks)
        if block.lines and (block.in_loop or straight)
    ]


def _estimate(code: AsmInput, block: Block, index: int, timing: Timing, runs: int) -> BlockEstimate:
    statements = [code.statements[line.statement] for line in block.lines]
    instrs = [s.instr for s in statements if s.instr is not None]
    loops = index in block.successors
    first = statements[0].line
    estimate, why = None, ""
    unknown = next((s for s, line in zip(statements, block.lines, strict=True) if line.effects is None), None)
    if unknown is not None:
        address = code.addresses.get(unknown.line)
        location = code.source.location(unknown.line) if address is None else f"{code.source.file}: {address:#x}"
        why = f"{location}: `{' '.join(unknown.code.split())}` is not known to the models"
    else:
        known = [line.effects for line in block.lines if line.effects is not None]
        ops = [Code(instr, effect).op for instr, effect in zip(instrs, known, strict=True)]
        try:
            estimate = (estimate_loop if loops else estimate_block)(ops, timing)
        except MissingFact as fact:
            why = str(fact)
    return BlockEstimate(
        "loop" if loops else "block of a loop" if block.in_loop else "block",
        _label(block),
        code.source.line(first),
        code.addresses.get(first),
        len(instrs),
        total_operations(instrs),
        estimate,
        why,
        tuple(c.effects.target or "?" for c in block.lines if c.effects is not None and c.effects.flow == "call"),
        runs,
    )


HOTTEST_BY = "nesting and trip counts"
HOTTEST_BY_SAMPLES = "samples of the profile"
_INSTRUCTION_BYTES = 4  # AArch64


def with_samples(
    estimates: Sequence[BlockEstimate], code: AsmInput, function: Function, offsets: Mapping[int, float]
) -> list[BlockEstimate]:
    """Add a profile's samples to each estimate. offsets: bytes from the function's start -> samples."""
    first = next(line for block in function.blocks for line in block.lines)
    start = code.addresses[code.statements[first.statement].line]

    def inside(loop: BlockEstimate) -> float:
        assert loop.address is not None
        at = loop.address - start
        stop = at + loop.instructions * _INSTRUCTION_BYTES
        return sum(count for offset, count in offsets.items() if at <= offset < stop)

    return [replace(loop, samples=inside(loop)) for loop in estimates]


def hottest_first(estimates: Sequence[BlockEstimate], everything: bool = False) -> list[BlockEstimate]:
    """Return the estimates of `to_show`, the hottest first, preceded by the hottest block if it is not among them."""
    ordered = sorted(estimates, key=lambda loop: loop.heat, reverse=True)
    shown = to_show(ordered, everything)
    return shown if not ordered or ordered[0] in shown else [ordered[0], *shown]


def to_show(estimates: Sequence[BlockEstimate], everything: bool = False) -> list[BlockEstimate]:
    """Return the estimates to print: loops of one block; all blocks with `everything`, or if there is no such loop."""
    return [loop for loop in estimates if loop.kind == "loop" and not everything] or list(estimates)


def _label(block: Block) -> str:
    target = block.lines[-1].effects.target if block.lines and block.lines[-1].effects else ""
    return target if target in block.labels else block.labels[-1] if block.labels else ""


def function_json(name: str, estimates: Sequence[BlockEstimate]) -> dict[str, Any]:
    """Return the JSON of a function and its loops for `--json`."""
    return {"name": name, "loops": [_block_json(loop) for loop in estimates]}


def head_json(file: str, timing: Timing, settings: Sequence[str]) -> dict[str, Any]:
    """Return the head of the JSON document, which names the file, the core and the model."""
    return {
        "file": file,
        "core": timing.core,
        "model": model_of(timing),
        "cycles_are": "predicted by a model, not measured",
        "set": list(settings),
    }


def _block_json(block: BlockEstimate) -> dict[str, Any]:
    estimate, work = block.estimate, block.work
    return {
        "kind": block.kind,
        "label": block.label,
        "line": block.line if block.address is None else None,
        "address": block.address,
        "cycles": estimate.cycles if estimate else None,
        "bound_by": estimate.bound_by if estimate else None,
        "because": estimate.because if estimate else None,
        "unknown": block.why or None,
        "calls": list(block.calls),
        "runs": block.runs,
        "samples": block.samples,
        "instructions": block.instructions,
        "flops": work.flops,
        "flops_per_cycle": block.per_cycle(work.flops),
        "int_ops": work.int_ops,
        "int_ops_per_cycle": block.per_cycle(work.int_ops),
        "macs": work.macs,
        "macs_per_cycle": block.per_cycle(work.macs),
        "bounds": dict(estimate.bounds) if estimate else {},
        "pools": dict(estimate.pools) if estimate else {},
        "ops": _ops_json(estimate) if estimate else [],
    }


def _ops_json(estimate: LoopEstimate) -> list[Mapping[str, Any]]:
    return [
        {
            "text": op.op.text,
            "class": op.op.op_class,
            "cycle": op.cycle,
            "slot": op.slot,
            "stall_cycles": op.stall_cycles,
            "lost_slots": op.lost_slots,
            "why": op.why,
            "pressure": dict(op.pressure),
        }
        for op in estimate.ops
    ]
