"""Read linkage, attributes, calls and uses of a module's functions and variables through llvmlite's objects.

llvmlite has objects for functions, variables, blocks, instructions and operands. The following has none and is read
from text: aliases and ifuncs, the parts of constants and initialisers, and symbols that a function refers to outside of
its instructions (passes/ir/definition_text.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mavcg.passes.ir.grammar import escape, quote, symbols_in, unescape

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef, TypeRef, ValueRef

_LINKAGE = {"linkonce_any": "linkonce", "weak_any": "weak", "external_weak": "extern_weak"}
_SYMBOLS = frozenset({"function", "global_alias", "global_ifunc", "global_variable"})
# Kinds of constants that may contain symbols.
_COMPOUND = frozenset({"constant_expr", "constant_array", "constant_struct", "constant_vector"})
_CALLS = frozenset({"call", "invoke", "callbr"})
_BLOCKADDRESS = "blockaddress("


@dataclass(frozen=True)
class Use:
    """A symbol that an instruction refers to.

    is_callee: True if the instruction calls it directly; False if it uses its address.
    """

    name: str
    is_callee: bool


@dataclass(frozen=True)
class Call:
    """A call of a function.

    callee: None for a call through a pointer. vector_bits: width of the widest vector among result and arguments.
    """

    callee: str | None
    vector_bits: int


@dataclass(frozen=True)
class Body:
    """The symbols and inline assembly that a function's body refers to.

    uses: symbols that its instructions refer to, each use once, in the text's order. assembly: templates of inline
    assembly.
    """

    uses: tuple[Use, ...]
    assembly: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FunctionObject:
    """A function, declared or defined; its properties are read from llvmlite's object on first use."""

    name: str
    value: "ValueRef"

    @cached_property
    def attributes(self) -> str:
        """The function's own attributes as text, without those of arguments and result."""
        return " ".join(attribute.decode() for attribute in self.value.attributes)

    @cached_property
    def argument_attributes(self) -> str:
        """All arguments' attributes as text."""
        return " ".join(attribute.decode() for argument in self.value.arguments for attribute in argument.attributes)

    @property
    def is_variadic(self) -> bool:
        """True if the function takes variable arguments."""
        return bool(self.value.global_value_type.is_function_vararg)

    @cached_property
    def vector_bits(self) -> int:
        """Bits of the widest fixed vector that the function takes or returns as a value; 0 if there is none."""
        function_type = self.value.global_value_type
        types = [function_type.get_function_return(), *function_type.get_function_parameters()]
        return max(map(_vector_bits, types))

    @cached_property
    def body(self) -> Body:
        """The symbols that the function's instructions refer to, and their inline assembly."""
        uses: dict[Use, None] = {}
        assembly: list[str] = []
        for instruction in self._instructions():
            operands = list(instruction.operands)
            callee = operands.pop() if operands and instruction.opcode in _CALLS else None
            if callee is not None:
                kind = callee.value_kind.name
                if kind == "inline_asm":
                    assembly.append(_template(callee))
                elif kind in _SYMBOLS:
                    uses.setdefault(Use(value_name(callee), True))
                else:
                    operands.insert(0, callee)
            for operand in operands:
                for name in _symbols(operand, instruction, self.name):
                    uses.setdefault(Use(name, False))
        return Body(tuple(uses), tuple(assembly))

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """All calls except inline assembly, which has its own convention."""
        calls = []
        for instruction in self._instructions():
            if instruction.opcode not in _CALLS:
                continue
            *arguments, callee = instruction.operands
            kind = callee.value_kind.name
            if kind != "inline_asm":
                bits = max(_vector_bits(value.type) for value in (instruction, *arguments))
                calls.append(Call(value_name(callee) if kind in _SYMBOLS else None, bits))
        return tuple(calls)

    def _instructions(self) -> Iterator["ValueRef"]:
        return (instruction for block in self.value.blocks for instruction in block.instructions)


@dataclass(frozen=True, eq=False)
class IrObjects:
    """A module's functions and variables, by their names as IR text spells them between quotes.

    module: llvmlite's module, which owns the objects.
    """

    module: "ModuleRef"
    functions: Mapping[str, FunctionObject]
    variables: Mapping[str, "ValueRef"]

    def linkage(self, name: str) -> str | None:
        """Return the linkage of a function or variable as IR text spells it; None for aliases and ifuncs."""
        function = self.functions.get(name)
        value = function.value if function else self.variables.get(name)
        return None if value is None else _LINKAGE.get(value.linkage.name, value.linkage.name)


def read_objects(text: str) -> IrObjects:
    """Parse a module with llvmlite. Raises: RuntimeError for text that LLVM refuses."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    functions = {name: FunctionObject(name, value) for value in module.functions for name in [value_name(value)]}
    return IrObjects(module, functions, {value_name(value): value for value in module.global_variables})


def value_name(value: "ValueRef") -> str:
    """Return a value's name as IR text spells it: LLVM's number for an unnamed value, escapes for other bytes."""
    try:
        name = value.name
    except UnicodeDecodeError:
        name = ""
    return escape(name) if name else next(symbols_in(str(value)))


def _symbols(operand: "ValueRef", instruction: "ValueRef", function: str) -> Iterator[str]:
    """Yield the symbols of an operand; for a block address, not the function that contains the block."""
    kind = operand.value_kind.name
    if kind in _SYMBOLS:
        yield value_name(operand)
    elif kind == "block_address" or kind in _COMPOUND:
        text = str(operand)
        if "<badref>" in text:  # a symbol without a name, whose number only what is in the module knows
            text = str(instruction)
        yield from symbols_in(text.replace(f"{_BLOCKADDRESS}@{quote(function)},", _BLOCKADDRESS))


def _template(callee: "ValueRef") -> str:
    """Return the template of inline assembly: the first of its two strings."""
    return unescape(str(callee).split('"', 2)[1])


def _vector_bits(value_type: "TypeRef") -> int:
    """Return the width in bits of the widest fixed vector in a type, 0 if there is none; a pointer has 64 bits."""
    kind = value_type.type_kind.name
    if kind == "vector":
        [element] = value_type.elements
        return int(value_type.element_count) * (64 if element.is_pointer else int(element.type_width))
    if kind in ("struct", "array"):
        return max(map(_vector_bits, value_type.elements), default=0)
    return 0
