"""Instructions and names of the kinds that kernels have most of, made without llvmlite's general case.

llvmlite compares the type of each operand with what is expected, in several calls each, and prepares for attributes
that kernels do not use. The emitters' own helpers know that types fit, and clang checks them again when it reads the
text. All objects are of llvmlite's classes, or of subclasses with the same attributes.
"""

from collections.abc import Sequence

from llvmlite import ir
from llvmlite.ir import _utils
from llvmlite.ir import instructions as instr


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
