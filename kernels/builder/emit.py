"""Building blocks of emitters: kernel functions, operands, counted loops, types, constants, calls of intrinsics."""

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir

from mavcg.graph import DTYPES
from mavcg.kernels.builder.module_text import Names, UncheckedAddress, UncheckedCall, insert
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.kernel_symbol import DIGEST_DIGITS, symbol_text
from mavcg.specs.serialize import to_text

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32, F64, F16 = ir.FloatType(), ir.DoubleType(), ir.HalfType()


class BFloatBits(ir.IntType):  # type: ignore[misc]  # llvmlite has no types
    """The bits of a bf16, the upper half of an f32: i16 to LLVM, which knows how to move and shift it everywhere.

    LLVM's own bfloat becomes calls of functions, or single elements, on targets without bf16 instructions.
    """

    def __new__(cls) -> "BFloatBits":
        """Return a type of its own: llvmlite keeps one object for each width."""
        typ: BFloatBits = ir.Type.__new__(cls)
        typ.width = 16
        return typ

    def __getnewargs__(self) -> tuple[()]:
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloatBits)

    def __hash__(self) -> int:
        return hash(BFloatBits)

    def format_constant(self, value: float) -> str:
        """Return the bits of a number, rounded to bf16."""
        return str(int(np.asarray(value, DTYPES["bf16"]).view(np.uint16)))


BF16 = BFloatBits()
PTR = ir.PointerType()
TYPES: dict[str, ir.Type] = {
    "f32": F32,
    "f16": F16,
    "bf16": BF16,
    "f64": F64,
    "i8": I8,
    "u8": I8,
    "i16": I16,
    "u16": I16,
    "i32": I32,
    "u32": I32,
    "i64": I64,
    "u64": I64,
    "bool": I8,
}
FLOATS, SIGNED = frozenset({"f16", "bf16", "f32", "f64"}), frozenset({"i8", "i16", "i32", "i64"})  # tensor types
HALVES = frozenset({"f16", "bf16"})  # floats of 16 bits
KERNEL_TYPE = ir.FunctionType(ir.VoidType(), [PTR, I64, I64, PTR])

Values = tuple[ir.Value, ...]


TILES = "mavcg.tiles"  # name of the module metadata that lists the register tiles of each function


def note_tile(b: ir.IRBuilder, pixels: int, vectors: int) -> None:
    """Record in the module's metadata that the function has a register tile of `pixels` by `vectors` of channels."""
    entry = b.module.add_metadata([b.function.name, f"{pixels}x{vectors}"])
    known = b.module.namedmetadata.get(TILES)
    if known is None or entry not in known.operands:
        b.module.add_named_metadata(TILES, entry)


def kernel_name(spec: KernelSpec) -> str:
    """Return the linkage name of a spec's function, by the grammar of specs/kernel_symbol.py."""
    digest = hashlib.sha256(to_text(spec).encode()).hexdigest()[:DIGEST_DIGITS]
    return symbol_text(spec.family, spec.symbol_shape, digest)


def kernel_function(module: ir.Module, spec: KernelSpec, machine: Machine) -> tuple[ir.Function, ir.IRBuilder]:
    """Return an empty kernel with its arguments named args, begin, end, scratch, and a builder in its first block."""
    function = ir.Function(module, KERNEL_TYPE, kernel_name(spec))
    function.scope = Names(function.scope)
    for argument, name in zip(function.args, ("args", "begin", "end", "scratch"), strict=True):
        argument.name = name
    function.args[0].add_attribute("noalias")
    function.args[3].add_attribute("noalias")
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def operand(b: ir.IRBuilder, index: int, name: str = "") -> ir.Value:
    """Return the pointer of the kernel's operand number `index`."""
    return b.load(address(b, b.function.args[0], index * 8), name=name or f"operand_{index}", align=8, typ=PTR)


def operands(b: ir.IRBuilder, *names: str) -> tuple[ir.Value, ...]:
    """Return the pointers of the kernel's first operands, under these names."""
    return tuple(operand(b, index, name) for index, name in enumerate(names))


def row_count(b: ir.IRBuilder, index: int) -> ir.Value:
    """Return a count of the run, operand number `index`, as i64."""
    return b.zext(b.load(operand(b, index, "count_word"), align=4, typ=I32), I64, name="count")


@lru_cache(16384, typed=True)  # a bool is printed differently
def const(value: int, typ: ir.Type = I64) -> ir.Constant:
    """Return an integer constant."""
    return ir.Constant(typ, value)


def lanes_and_element(typ: ir.Type) -> tuple[int, ir.Type]:
    """Return (number of lanes, type of each) of a type; a scalar is its own only lane."""
    return (int(typ.count), typ.element) if isinstance(typ, ir.VectorType) else (1, typ)


def lanes_of(x: ir.Value) -> int:
    """Return the number of lanes of a value; 1 for a scalar."""
    return lanes_and_element(x.type)[0]


def index_value(index: ir.Value | int) -> ir.Value:
    """Return an index or another number as i64, a constant where it is known."""
    return const(index) if isinstance(index, int) else index


def address(b: ir.IRBuilder, base: ir.Value, offset_bytes: ir.Value | int, name: str = "") -> ir.Value:
    """Return base + offset_bytes."""
    return insert(b, UncheckedAddress(b.block, base, index_value(offset_bytes), I8, name))


def element(b: ir.IRBuilder, base: ir.Value, index: ir.Value | int, typ: ir.Type, name: str = "") -> ir.Value:
    """Return the address of element `index` of an array of `typ`."""
    return insert(b, UncheckedAddress(b.block, base, index_value(index), typ, name))


def scale_index(b: ir.IRBuilder, index: ir.Value, factor: int, name: str = "") -> ir.Value:
    """Return index * factor, without a multiplication where factor is 0 or 1."""
    if factor == 1:
        return index
    return const(0) if factor == 0 else b.mul(index, const(factor), name=name)


def for_range(
    b: ir.IRBuilder,
    begin: ir.Value,
    end: ir.Value,
    step: int,
    init: Sequence[ir.Value],
    body: Callable[[ir.Value, Values], Sequence[ir.Value]],
    name: str = "i",
) -> Values:
    """Emit for (i = begin; i < end; i += step) carried = body(i, carried), signed; return the final carried values.

    The builder is positioned after the loop. With begin >= end the loop has no iteration and the result is `init`.
    """
    before = b.block
    head = b.append_basic_block(f"{name}_head")
    inside = b.append_basic_block(f"{name}_body")
    after = b.append_basic_block(f"{name}_end")
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(I64, name=name)
    index.add_incoming(begin, before)
    carried = []
    for value in init:
        phi = b.phi(value.type, name=f"{name}_carried")
        phi.add_incoming(value, before)
        carried.append(phi)
    b.cbranch(b.icmp_signed("<", index, end), inside, after)
    b.position_at_end(inside)
    results = tuple(body(index, tuple(carried)))
    following = b.add(index, const(step), flags=["nsw"], name=f"{name}_next")
    index.add_incoming(following, b.block)
    for phi, value in zip(carried, results, strict=True):
        phi.add_incoming(value, b.block)
    b.branch(head)
    b.position_at_end(after)
    return tuple(carried)


def repeat(
    b: ir.IRBuilder,
    begin: ir.Value | int,
    end: ir.Value | int,
    body: Callable[[ir.Value], Any],
    name: str = "i",
    step: int = 1,
) -> None:
    """Emit a for_range loop without carried values."""

    def iteration(index: ir.Value, _: Values) -> Values:
        body(index)
        return ()

    for_range(b, index_value(begin), index_value(end), step, (), iteration, name)


def length_times(b: ir.IRBuilder, number: int, per_index: int) -> ir.Value:
    """Emit the load of a bounded dimension's length, operand `number`; returns `per_index` times it."""
    length = b.zext(b.load(operand(b, number, "length"), align=4, typ=I32), I64, name="length")
    return b.mul(length, const(per_index), name="of_length")


def finish_rows(b: ir.IRBuilder, row: Callable[[ir.Value], Any], name: str = "row") -> ir.Function:
    """Emit row(number) for each row of work of a kernel's range, and the kernel's end; return the kernel."""
    _, begin, end, _ = b.function.args
    repeat(b, begin, end, row, name)
    b.ret_void()
    return b.function


# Types and constants belong to no module. They are cached: printing them takes most of the time of a module's text.
@lru_cache(256)
def vector(typ: ir.Type, lanes: int) -> ir.Type:
    """Return <lanes x typ>, or typ itself for one lane."""
    return ir.VectorType(typ, lanes) if lanes > 1 else typ


def with_element(x: ir.Value, element: ir.Type) -> ir.Type:
    """Return the type with as many lanes as x and the given element type."""
    return vector(element, lanes_of(x))


def number(x: ir.Value, value: float) -> ir.Constant:
    """Return a constant of x's type with the value in all lanes."""
    lanes = lanes_of(x)
    return ir.Constant(x.type, value if lanes == 1 else [value] * lanes)


# Suffix and bytes; by class, as llvmlite's types are slow keys.
_FLOATS = {ir.HalfType: ("f16", 2), ir.FloatType: ("f32", 4), ir.DoubleType: ("f64", 8)}


def type_suffix(typ: ir.Type) -> str:
    """Return the suffix of an overloaded intrinsic's name, such as v4f32."""
    match typ:
        case ir.VectorType():
            return f"v{typ.count}{type_suffix(typ.element)}"
        case ir.IntType():
            return f"i{typ.width}"
    return _FLOATS[type(typ)][0]


def intrinsic(b: ir.IRBuilder, stem: str, args: Sequence[ir.Value], name: str = "") -> ir.Value:
    """Emit a call of llvm.<stem>.<type of the first argument>; all arguments and the result have that type."""
    typ = args[0].type
    full = f"llvm.{stem}.{type_suffix(typ)}"
    function = b.module.globals.get(full) or ir.Function(b.module, ir.FunctionType(typ, [typ] * len(args)), full)
    return insert(b, UncheckedCall(b.block, function, args, name))


def call_intrinsic(b: ir.IRBuilder, name: str, result: ir.Type, *args: ir.Value) -> ir.Value:
    """Emit a call of an intrinsic by its whole name, such as that of a processor's instruction."""
    function = b.module.globals.get(name) or ir.Function(
        b.module, ir.FunctionType(result, [a.type for a in args]), name
    )
    return b.call(function, args)


def fma(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value, name: str = "") -> ir.Value:
    """Return x * y + z, rounded once."""
    return intrinsic(b, "fma", (x, y, z), name)


def prefetch_line(b: ir.IRBuilder, pointer: ir.Value, level: int = 1, write: bool = False) -> None:
    """Emit a prefetch of the cache line at a pointer, valid or not. level: of the caches. write: True for stores."""
    full = "llvm.prefetch.p0"
    kind = ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32])
    function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
    b.call(function, [pointer, const(int(write), I32), const(4 - level, I32), const(1, I32)])  # 1: data


def element_bytes(typ: ir.Type) -> int:
    """Return the size of a scalar type in memory, in bytes."""
    if isinstance(typ, ir.IntType):
        return max(1, int(typ.width) // 8)
    return _FLOATS[type(typ)][1]
