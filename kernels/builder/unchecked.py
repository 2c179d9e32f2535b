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


class UncheckedCall(instr.CallInstr):  # type: ignore[misc]  # llvmlite has no types
    """A call without attributes, whose arguments have the types that the function takes."""

    def __init__(self, block: ir.Block, function: ir.Function, arguments: Sequence[ir.Value], name: str) -> None:
        self.cconv = function.calling_convention
        self.tail = ""
        self.fastmath: frozenset[str] = frozenset()
        self.attributes: frozenset[str] = frozenset()
        self.arg_attributes: dict[int, object] = {}
        result = function.ftype.return_type
        instr.Instruction.__init__(self, block, result, "call", [function, *arguments], name)


class UncheckedShuffle(instr.ShuffleVector):  # type: ignore[misc]  # llvmlite has no types
    """A shuffle of two vectors of one type. mask: as many lanes as `typ`, each within both vectors."""

    def __init__(
        self, block: ir.Block, typ: ir.Type, first: ir.Value, second: ir.Value, mask: ir.Constant, name: str
    ) -> None:
        instr.Instruction.__init__(self, block, typ, "shufflevector", [first, second, mask], name)


class UncheckedInsertion(instr.InsertElement):  # type: ignore[misc]  # llvmlite has no types
    """The insertion of a scalar of the vector's element type."""

    def __init__(self, block: ir.Block, vector: ir.Value, scalar: ir.Value, index: ir.Constant, name: str = "") -> None:
        instr.Instruction.__init__(self, block, vector.type, "insertelement", [vector, scalar, index], name)


class Names(_utils.NameScope):  # type: ignore[misc]  # llvmlite has no types
    """The names of a function's values, as llvmlite's scope gives them, in one call each."""

    def __init__(self, scope: _utils.NameScope) -> None:
        """Continue a scope, which has the function's arguments."""
        self._useset, self._basenamemap = scope._useset, scope._basenamemap

    def register(self, name: str, deduplicate: bool = False) -> str:
        """Return the name, with a number if it is used already. Raises: DuplicatedNameError unless deduplicate."""
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
