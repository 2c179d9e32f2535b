"""Instructions, names and module text of the kinds that kernels have most of, without llvmlite's general case.

llvmlite compares the type of each operand with what is expected, prepares for attributes that kernels do not use, and
formats types and operands through several calls for each use. The emitters' own helpers know that types fit, and clang
checks them again when it reads the text. Texts are looked up here, and the instructions that most of a kernel consists
of are printed in one step, which takes half of the time. All objects are of llvmlite's classes, or of subclasses with
the same attributes, and the text is the same: declarations, metadata and rare instructions may come from llvmlite.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from llvmlite.ir import _utils
from llvmlite.ir import instructions as instr

from mavcg.hardware.machine import Machine


def insert(b: ir.IRBuilder, instruction: instr.Instruction) -> instr.Instruction:
    """Insert an instruction where the builder is, and return it."""
    b._insert(instruction)
    return instruction


def _begin(
    self: instr.Instruction, block: ir.Block, typ: ir.Type, opname: str, operands: list[ir.Value], name: str
) -> None:
    """Set what every instruction has, as the constructors of llvmlite's base classes do."""
    self.parent, self.type = block, typ
    self._name = block.scope.register(name, True)
    self.opname, self.operands = opname, operands
    self.flags = []
    self.metadata = {}


class UncheckedCall(instr.CallInstr):  # type: ignore[misc]  # llvmlite has no types
    """A call without attributes, whose arguments have the types that the function takes."""

    def __init__(self, block: ir.Block, function: ir.Function, arguments: Sequence[ir.Value], name: str) -> None:
        self.cconv = function.calling_convention
        self.tail = ""
        self.fastmath: frozenset[str] = frozenset()
        self.attributes: frozenset[str] = frozenset()
        self.arg_attributes: dict[int, object] = {}
        _begin(self, block, function.ftype.return_type, "call", [function, *arguments], name)


class UncheckedShuffle(instr.ShuffleVector):  # type: ignore[misc]  # llvmlite has no types
    """A shuffle of two vectors of one type. mask: as many lanes as `typ`, each within both vectors."""

    def __init__(
        self, block: ir.Block, typ: ir.Type, first: ir.Value, second: ir.Value, mask: ir.Constant, name: str
    ) -> None:
        _begin(self, block, typ, "shufflevector", [first, second, mask], name)


class UncheckedInsertion(instr.InsertElement):  # type: ignore[misc]  # llvmlite has no types
    """The insertion of a scalar of the vector's element type."""

    def __init__(self, block: ir.Block, vector: ir.Value, scalar: ir.Value, index: ir.Constant, name: str = "") -> None:
        _begin(self, block, vector.type, "insertelement", [vector, scalar, index], name)


class UncheckedAddress(instr.GEPInstr):  # type: ignore[misc]  # llvmlite has no types
    """The address of element `index` of an array of `typ` that begins at a pointer, within the array's memory."""

    def __init__(self, block: ir.Block, pointer: ir.Value, index: ir.Value, typ: ir.Type, name: str) -> None:
        _begin(self, block, pointer.type, "getelementptr", [pointer, index], name)
        self.source_etype, self.pointer, self.indices, self.inbounds = typ, pointer, [index], True


class UncheckedLoad(instr.LoadInstr):  # type: ignore[misc]  # llvmlite has no types
    """A load of a value of this type. align: known alignment of the pointer, in bytes."""

    def __init__(self, block: ir.Block, pointer: ir.Value, typ: ir.Type, align: int, name: str) -> None:
        _begin(self, block, typ, "load", [pointer], name)
        self.align = align


class Names(_utils.NameScope):  # type: ignore[misc]  # llvmlite has no types
    """The names of a function's values, as llvmlite's scope gives them, in one call each."""

    def __init__(self, scope: _utils.NameScope) -> None:
        """Continue a scope, which has the function's arguments."""
        self._useset, self._basenamemap = scope._useset, scope._basenamemap

    def register(self, name: str, deduplicate: bool = False) -> str:
        """Return the name, with a number if it is used already; llvmlite's DuplicatedNameError unless deduplicate."""
        used = self._useset
        if name in used:
            if not deduplicate:
                raise _utils.DuplicatedNameError(name)
            numbers, stem = self._basenamemap, name
            while name in used:
                numbers[stem] += 1
                name = f"{stem}.{numbers[stem]}"
        used.add(name)
        return name


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


# Features of all cores of an architecture. They are stated even if the CPU's name implies them, because LLVM gives a
# function without features those that the compiler was started with, which are the oldest CPU's.
_EVERYWHERE = {"aarch64": "+neon", "x86_64": "+fma"}


# Callee-saved vector registers: a function that declares them as changed saves them all, and the machine passes may use
# them for loads in flight. Without them a loop with 20 accumulators in 32 registers would stall on an in-order core.
_SAVE_ALL = '  call void asm sideeffect "", "' + ",".join(f"~{{v{i}}}" for i in range(8, 16)) + '"()'


def add_core_attributes(module: ir.Module, machine: Machine) -> str:
    """Return the module's text with the core's target attributes on every function that the module defines."""
    features = ",".join((_EVERYWHERE[machine.arch], *machine.llvm_features))
    attributes = f'nounwind "target-cpu"="{machine.llvm_cpu}" "target-features"="{features}"'
    rescheduled = machine.arch == "aarch64" and machine.in_order
    lines, begins = list[str](), False
    for line in module_text(module).splitlines():
        lines.append(line + f" {attributes}" if line.startswith("define ") else line)
        begins |= line.startswith("define ")
        if begins and line.endswith(":"):
            lines += [_SAVE_ALL] * rescheduled
            begins = False
    return "\n".join(lines) + "\n"


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
