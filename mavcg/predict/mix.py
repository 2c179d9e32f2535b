"""Counts the instructions of a kernel's blocks by kind, from the emitter's LLVM IR.

The cost model (mavcg/cost_model/issue_rates.py) converts the counts to cycles; if a core has a timing profile,
kernel_cycles.py uses the pipeline model instead.
"""

from collections.abc import Mapping

from llvmlite import ir
from llvmlite.ir import instructions as instr

from mavcg.cost_model.instruction_mix import InstructionMix
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


def _pieces(typ: ir.Type, machine: Machine) -> float:
    """Return the number of machine registers that a value takes."""
    if isinstance(typ, ir.VectorType):
        return float(max(1.0, typ.count * _bytes(typ.element) / machine.vector_bytes))
    return 1.0


def _bytes(typ: ir.Type) -> float:
    if isinstance(typ, ir.IntType):
        return float(max(1.0, typ.width / 8))
    return {ir.HalfType: 2, ir.FloatType: 4, ir.DoubleType: 8}.get(type(typ), 8)


def _is_vector(typ: ir.Type) -> bool:
    return isinstance(typ, (ir.VectorType, ir.FloatType, ir.DoubleType, ir.HalfType))


def _kind(instruction: instr.Instruction, machine: Machine) -> tuple[str, float]:
    """Return the field of InstructionMix that an instruction counts in, and its count there; ("", 0) if it is not
    counted."""
    typ = instruction.type
    if isinstance(instruction, (instr.PhiInstr, instr.Ret)):
        return "", 0
    if isinstance(instruction, instr.LoadInstr):
        return "loads", _pieces(typ, machine)
    if isinstance(instruction, instr.StoreInstr):
        return "stores", _pieces(instruction.operands[0].type, machine)
    if isinstance(instruction, instr.CallInstr):
        return _call(instruction, machine)
    if isinstance(instruction, instr.GEPInstr):  # a constant is part of the access's address
        return ("", 0) if all(isinstance(i, ir.Constant) for i in instruction.operands[1:]) else ("other", 1)
    if isinstance(instruction, (instr.InsertElement, instr.ShuffleVector)):
        return _rearrangement(instruction, machine)
    if isinstance(instruction, instr.CastInstr) and instruction.opname == "bitcast":
        return "", 0
    if instruction.opname in ("fdiv", "frem"):
        return "divisions", _pieces(typ, machine)
    compared = instruction.operands[0].type if isinstance(instruction, instr.CompareInstr) else typ
    if _is_vector(compared):
        # A comparison and the selection after it are one maximum or minimum, or two instructions: half each.
        half = isinstance(instruction, (instr.SelectInstr, instr.FCMPInstr))
        return "vector", _pieces(compared, machine) * (0.5 if half else 1.0)
    return "other", 1


def _call(instruction: instr.CallInstr, machine: Machine) -> tuple[str, float]:
    name = str(instruction.callee.name)
    if name.startswith("llvm.fma"):
        return "fma", _pieces(instruction.type, machine)
    if name.startswith("llvm.masked.load"):
        # NEON has no masks: lane by lane.
        return "loads", _pieces(instruction.type, machine) if machine.arch == "x86_64" else instruction.type.count
    if name.startswith("llvm.masked.store"):
        typ = instruction.args[0].type
        return "stores", _pieces(typ, machine) if machine.arch == "x86_64" else typ.count
    if name.startswith("llvm.sqrt"):
        return "divisions", _pieces(instruction.type, machine)
    return ("fma" if "dot" in name or "dp" in name else "vector"), _pieces(instruction.type, machine)


def _rearrangement(instruction: instr.Instruction, machine: Machine) -> tuple[str, float]:
    """Count a rearrangement of lanes.

    Broadcasts of a loaded value are part of the load (x86), those of a lane part of the multiply (AArch64).
    """
    source = instruction.operands[1] if isinstance(instruction, instr.InsertElement) else instruction.operands[0]
    if isinstance(instruction, instr.ShuffleVector):
        lanes = instruction.operands[2]
        same = isinstance(lanes, ir.Constant) and len({str(c) for c in _lanes(lanes)}) == 1
        if not same:
            return "vector", _pieces(instruction.type, machine)
        if machine.arch == "aarch64" or _from_load(source):
            return "", 0
        return "vector", _pieces(instruction.type, machine)
    return ("", 0) if isinstance(source, instr.LoadInstr) else ("vector", 1)


def _lanes(constant: ir.Constant) -> list[object]:
    value = constant.constant
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _from_load(value: ir.Value) -> bool:
    if isinstance(value, instr.InsertElement):
        return isinstance(value.operands[1], instr.LoadInstr)
    return isinstance(value, instr.LoadInstr)


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
        if isinstance(instruction, instr.CallInstr):
            depths += [depth[id(o)] for o in instruction.args if id(o) in depth]
        if depths and _is_vector(instruction.type):
            free = isinstance(instruction, (instr.ShuffleVector, instr.InsertElement, instr.CastInstr, instr.FCMPInstr))
            depth[id(instruction)] = max(depths) + (not free)
    ends = [value for phi in carried for value, source in phi.incomings if source is block]
    return max((depth.get(id(value), 0) for value in ends), default=0)
