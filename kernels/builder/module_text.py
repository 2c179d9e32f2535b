"""Prints a module of emitted kernels as llvmlite does, in half of the time.

llvmlite formats types and operands through several calls for each use. Here their texts are looked up, and the
instructions that most of a kernel consists of are printed in one step. The text is the same, so that all else may come
from llvmlite: declarations, metadata, rare instructions.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as instr

from mavcg.kernels.builder.unchecked import (
    UncheckedAddress,
    UncheckedCall,
    UncheckedInsertion,
    UncheckedLoad,
    UncheckedShuffle,
)


def module_text(module: ir.Module) -> str:
    """Return str(module)."""
    lines = [
        f'; ModuleID = "{module.name}"',
        f'target triple = "{module.triple}"',
        f'target datalayout = "{module.data_layout}"',
        "",
    ]
    lines += [kind.get_declaration() for kind in module.get_identified_types().values()]
    for value in module.globals.values():
        lines.append(_function_text(value) if isinstance(value, ir.Function) and value.blocks else str(value))
    return "\n".join(lines + module._get_metadata_lines())


def release(module: ir.Module) -> None:
    """Empty the functions of a module, which is not used any more.

    A function's blocks, instructions and the values that loops carry refer to each other in cycles. Without these its
    objects are freed at once, in a quarter of the time that the garbage collector takes to find them.
    """
    for function in module.functions:
        for block in function.blocks:
            for instruction in block.instructions:
                if isinstance(instruction, instr.PhiInstr):
                    instruction.incomings.clear()
            block.instructions.clear()
            block.terminator = None
        function.blocks.clear()


def _function_text(function: ir.Function) -> str:
    """Return str(function)."""
    texts, lines = _Texts(), list[str]()
    function.descr_prototype(lines)
    lines.append("{\n")
    for block in function.blocks:
        lines.append(f"{block._format_name()}:\n")
        for instruction in block.instructions:
            describe = _DESCRIPTIONS.get(type(instruction))
            if describe is None or instruction.metadata:
                lines.append(f"  {instruction}\n")
            elif isinstance(instruction.type, ir.VoidType):
                lines.append(f"  {describe(texts, instruction)}\n")
            else:
                reference = texts.define(instruction)
                lines.append(f"  {reference} = {describe(texts, instruction)}\n")
    return "".join([*lines, "}\n"])


class _Texts:
    """The texts of a function's types and operands, by the ids of objects that the function keeps alive."""

    def __init__(self) -> None:
        self._types: dict[int, str] = {}
        self._references: dict[int, str] = {}
        self._operands: dict[int, str] = {}

    def define(self, instruction: instr.Instruction) -> str:
        """Return the reference to an instruction's result, for this and later use."""
        name = instruction.name
        plain = "\\" not in name and '"' not in name
        reference = f'%"{name}"' if plain else str(instruction.get_reference())
        self._references[id(instruction)] = reference
        self._operands[id(instruction)] = f"{self.type(instruction.type)} {reference}"
        return reference

    def type(self, typ: ir.Type) -> str:
        """Return a type's text."""
        try:
            return self._types[id(typ)]
        except KeyError:
            text = self._types[id(typ)] = str(typ)
            return text

    def reference(self, value: ir.Value) -> str:
        """Return a value as an operand without its type."""
        try:
            return self._references[id(value)]
        except KeyError:
            text = self._references[id(value)] = str(value.get_reference())
            return text

    def operand(self, value: ir.Value) -> str:
        """Return a value as an operand with its type."""
        try:
            return self._operands[id(value)]
        except KeyError:
            text = self._operands[id(value)] = f"{self.type(value.type)} {self.reference(value)}"
            return text


def _call(texts: _Texts, call: instr.CallInstr) -> str:
    callee, *arguments = call.operands
    special = call.cconv or call.tail or call.fastmath or call.attributes or call.arg_attributes
    if special or not isinstance(callee, ir.Function) or callee.ftype.var_arg:
        return _without_result(call)
    listed = ", ".join([texts.operand(argument) for argument in arguments])
    return f"call {texts.type(call.type)} {texts.reference(callee)}({listed})"


def _without_result(instruction: instr.Instruction) -> str:
    buffer: list[str] = []
    instruction.descr(buffer)
    return "".join(buffer).rstrip()


def _arithmetic(texts: _Texts, instruction: instr.Instruction) -> str:
    name = " ".join([instruction.opname, *instruction.flags]) if instruction.flags else instruction.opname
    operands = ", ".join([texts.reference(operand) for operand in instruction.operands])
    return f"{name} {texts.type(instruction.type)} {operands}"


def _address(texts: _Texts, instruction: instr.GEPInstr) -> str:
    name = "getelementptr inbounds" if instruction.inbounds else "getelementptr"
    operands = ", ".join([texts.operand(operand) for operand in instruction.operands])
    return f"{name} {texts.type(instruction.source_etype)}, {operands}"


def _load(texts: _Texts, load: instr.LoadInstr) -> str:
    align = "" if load.align is None else f", align {load.align}"
    return f"load {texts.type(load.type)}, {texts.operand(load.operands[0])}{align}"


def _store(texts: _Texts, store: instr.StoreInstr) -> str:
    value, pointer = store.operands
    align = "" if store.align is None else f", align {store.align}"
    return f"store {texts.operand(value)}, {texts.operand(pointer)}{align}"


def _lanes(texts: _Texts, instruction: instr.Instruction) -> str:
    return f"{instruction.opname} {', '.join([texts.operand(operand) for operand in instruction.operands])}"


# Of instructions without metadata, by class.
_DESCRIPTIONS: dict[type, Callable[[_Texts, Any], str]] = {
    instr.Instruction: _arithmetic,
    instr.CallInstr: _call,
    instr.ExtractElement: _lanes,
    instr.GEPInstr: _address,
    instr.InsertElement: _lanes,
    instr.LoadInstr: _load,
    instr.ShuffleVector: _lanes,
    instr.StoreInstr: _store,
    UncheckedAddress: _address,
    UncheckedCall: _call,
    UncheckedInsertion: _lanes,
    UncheckedLoad: _load,
    UncheckedShuffle: _lanes,
}
