"""Counts the instructions of a kernel's blocks by kind, from the emitter's LLVM IR.

The cost model (mavcg/cost/issue_rates.py) converts the counts to cycles; if a core has a timing profile,
kernel_cycles.py uses the pipeline model instead.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as instr

from mavcg.choose.predict.affine_addresses import type_bytes
from mavcg.hardware.issue_rates import InstructionMix
from mavcg.specs.kernel import Machine


def mix_of(block: ir.Block, machine: Machine) -> InstructionMix:
    """Count the instructions of a block; a body's head, which only compares and branches, is a block of its own."""
    counts: dict[str, float] = {}
    for instruction in block.instructions:
        kind, many = _kind(instruction, machine)
        if kind:
            counts[kind] = counts.get(kind, 0.0) + many
    return InstructionMix(**counts, chain=_chain(block))


def mixes_of(function: ir.Function, machine: Machine) -> Mapping[str, InstructionMix]:
    """Return the instruction mixes of blocks, by the blocks' names."""
    return {block.name: mix_of(block, machine) for block in function.blocks}


def _register_count(typ: ir.Type, machine: Machine) -> float:
    """Return the number of machine registers that a value takes."""
    return max(1.0, type_bytes(typ) / machine.vector_bytes)


def _is_vector(typ: ir.Type) -> bool:
    return isinstance(typ, (ir.VectorType, ir.FloatType, ir.DoubleType, ir.HalfType))


# The field of InstructionMix that an instruction counts in, and its count there; ("", 0) if it is not counted.
Kind = tuple[str, float]


def _kind(instruction: instr.Instruction, machine: Machine) -> Kind:
    return _counter(instruction.__class__)(instruction, machine)


@cache
def _counter(kind: type) -> Callable[[Any, Machine], Kind]:
    """Return the function that counts instructions of a class."""
    return next((counter for base, counter in _COUNTERS if issubclass(kind, base)), _arithmetic)


def _load(instruction: instr.LoadInstr, machine: Machine) -> Kind:
    return "loads", _register_count(instruction.type, machine)


def _store(instruction: instr.StoreInstr, machine: Machine) -> Kind:
    return "stores", _register_count(instruction.operands[0].type, machine)


def _address(instruction: instr.GEPInstr, machine: Machine) -> Kind:
    """Count an address; a constant offset is part of the access."""
    return ("", 0) if all([isinstance(i, ir.Constant) for i in instruction.operands[1:]]) else ("other", 1)


def _arithmetic(instruction: instr.Instruction, machine: Machine) -> Kind:
    typ = instruction.type
    if instruction.opname == "bitcast":
        return "", 0
    if instruction.opname in ("fdiv", "frem"):
        return "divisions", _register_count(typ, machine)
    return _calculation(typ, machine)


def _integer_comparison(instruction: instr.ICMPInstr, machine: Machine) -> Kind:
    return _calculation(instruction.operands[0].type, machine)


# A comparison and the selection after it are one maximum or minimum, or two instructions: half each.
def _comparison(instruction: instr.FCMPInstr, machine: Machine) -> Kind:
    return _calculation(instruction.operands[0].type, machine, 0.5)


def _selection(instruction: instr.SelectInstr, machine: Machine) -> Kind:
    return _calculation(instruction.type, machine, 0.5)


def _calculation(typ: ir.Type, machine: Machine, per_register: float = 1.0) -> Kind:
    """Count a calculation with values of a type."""
    return ("vector", _register_count(typ, machine) * per_register) if _is_vector(typ) else ("other", 1)


def _call(instruction: instr.CallInstr, machine: Machine) -> Kind:
    name = str(instruction.callee.name)
    if name.startswith("llvm.fma"):
        return "fma", _register_count(instruction.type, machine)
    if name.startswith("llvm.masked.load"):
        # NEON has no masks: lane by lane.
        return "loads", _register_count(
            instruction.type, machine
        ) if machine.arch == "x86_64" else instruction.type.count
    if name.startswith("llvm.masked.store"):
        typ = instruction.args[0].type
        return "stores", _register_count(typ, machine) if machine.arch == "x86_64" else typ.count
    if name.startswith("llvm.sqrt"):
        return "divisions", _register_count(instruction.type, machine)
    return ("fma" if any(part in name for part in ("dot", "dp", "mmla")) else "vector"), _register_count(
        instruction.type, machine
    )


def _insertion(instruction: instr.InsertElement, machine: Machine) -> Kind:
    return ("", 0) if _from_load(instruction) else ("vector", 1)


def _shuffle(instruction: instr.ShuffleVector, machine: Machine) -> Kind:
    """Count a rearrangement of lanes.

    Broadcasts of a loaded value are part of the load (x86), those of a lane part of the multiply (AArch64).
    """
    vector, _, mask = instruction.operands
    if _is_one_lane(mask) and (machine.arch == "aarch64" or _from_load(vector)):
        return "", 0
    return "vector", _register_count(instruction.type, machine)


_COUNTERS: tuple[tuple[type[instr.Instruction], Callable[[Any, Machine], Kind]], ...] = (
    (instr.PhiInstr, lambda *_: ("", 0)),
    (instr.Ret, lambda *_: ("", 0)),
    (instr.LoadInstr, _load),
    (instr.StoreInstr, _store),
    (instr.CallInstr, _call),
    (instr.GEPInstr, _address),
    (instr.InsertElement, _insertion),
    (instr.ShuffleVector, _shuffle),
    (instr.ICMPInstr, _integer_comparison),
    (instr.FCMPInstr, _comparison),
    (instr.SelectInstr, _selection),
)


@lru_cache(4096)
def _is_one_lane(mask: ir.Value) -> bool:
    """True for a constant mask that has the same number in all lanes."""
    match mask:
        case ir.Constant(constant=list() | tuple() as lanes):
            return len({str(lane) for lane in lanes}) == 1
        case ir.Constant():
            return True
    return False


def _from_load(value: ir.Value) -> bool:
    """True for a loaded value, and a vector into which one is inserted."""
    match value:
        case instr.LoadInstr() | instr.InsertElement(operands=[_, instr.LoadInstr(), _]):
            return True
    return False


def _chain(block: ir.Block) -> int:
    """Return the longest chain of arithmetic from a value that a loop carries to what it carries on; 0 outside of
    loops."""
    if not isinstance(block.terminator, instr.Branch):
        return 0
    head = block.terminator.operands[0]
    carried = [i for i in head.instructions if isinstance(i, instr.PhiInstr) and _is_vector(i.type)]
    depth: dict[int, int] = {}
    for phi in carried:
        if any(source is block for _, source in phi.incomings):
            depth[id(phi)] = 0
    if not depth:
        return 0
    for instruction in block.instructions:
        depths = [depth[id(o)] for o in instruction.operands if id(o) in depth]
        if depths and _is_vector(instruction.type):
            free = isinstance(instruction, (instr.ShuffleVector, instr.InsertElement, instr.CastInstr, instr.FCMPInstr))
            depth[id(instruction)] = max(depths) + (not free)
    ends = [value for phi in carried for value, source in phi.incomings if source is block]
    return max((depth.get(id(value), 0) for value in ends), default=0)
