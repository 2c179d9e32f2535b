"""Kernel that expands numbers of 2, 4 or 8 bits in blocks to f32: (number - zero point) * scale."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import Graph, Node
from mavcg.kernels.block_weights.spec import Lines, lines_of
from mavcg.kernels.builder.emit import (
    F32,
    I8,
    I32,
    address,
    const,
    finish_rows,
    kernel_function,
    operand,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import f32_splat, i32_lanes, load_lanes, splat, store_lanes
from mavcg.specs.kernel import F32_BYTES, KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import sizes_text
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value
LANES = 8  # of the vectors on every core: eight numbers of 4 bits are a word, of 2 bits half of one


@spec_format("expanded_blocks")
@dataclass(frozen=True)
class ExpandedBlocks(KernelSpec):
    """Lines of packed numbers as f32. w: bytes. zeros: lines of zero points, of a byte or of f32
    (float_zeros), or None. A row of work is a line.

    Operands: w, scales, zeros?, out.
    """

    w: Lines
    scales: Lines
    zeros: Lines | None
    out: Lines
    bits: int
    block: int
    float_zeros: bool = False

    @property
    def family(self) -> str:
        return f"expanded_blocks{self.bits}_f32"

    @property
    def symbol_shape(self) -> str:
        return sizes_text(self.out.count, self.out.length)

    @property
    def rows(self) -> int:
        return self.out.count

    @property
    def work(self) -> int:
        return 2 * self.out.count * self.out.length


def lower_expand_blocks(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of an expand_blocks. Raises: as lines_of."""
    lines = [lines_of(views[name], name, node) if name else None for name in (*node.inputs, node.output)]
    w, scales, zeros, out = lines
    assert w is not None and scales is not None and out is not None
    spec = ExpandedBlocks(w, scales, zeros, out, node.attr("bits"), node.attr("block"), _float_zeros(node, views))
    operands = [*(Operand(name) for name in node.inputs if name), Operand(node.output, written=True)]
    return (Step(spec, tuple(operands), node.origin),)


def emit_expanded_blocks(module: ir.Module, spec: ExpandedBlocks, machine: Machine) -> ir.Function:
    """Emit the loops over a line's blocks and their vectors."""
    _, b = kernel_function(module, spec, machine)
    zero_bytes = F32_BYTES if spec.float_zeros else 1
    points = [(spec.zeros, zero_bytes)] if spec.zeros else []
    parts = [(spec.w, 1), (spec.scales, F32_BYTES), *points, (spec.out, F32_BYTES)]
    operands = [operand(b, i) for i in range(len(parts))]

    def line(index: Value) -> None:
        w, scales, *zeros, out = (
            address(b, pointer, scale_index(b, index, of.pitch * size))
            for pointer, (of, size) in zip(operands, parts, strict=True)
        )

        def block(number: Value, terms: int) -> None:
            place = address(b, scales, scale_index(b, number, spec.scales.step * F32_BYTES))
            scale = splat(b, b.load(place, name="scale", align=4, typ=F32), LANES)
            zero: Value = f32_splat(1 << (spec.bits - 1), LANES)
            if spec.zeros:
                place = address(b, zeros[0], scale_index(b, number, spec.zeros.step * zero_bytes))
                loaded = b.load(place, name="zero", align=zero_bytes, typ=F32 if spec.float_zeros else I8)
                zero = splat(b, loaded if spec.float_zeros else b.uitofp(loaded, F32), LANES)
            first = scale_index(b, number, spec.block)

            def vector(at: Value, used: int) -> None:
                term = b.add(first, at)
                numbers = _numbers(b, spec, w, term)
                value = b.fmul(b.fsub(b.sitofp(numbers, scale.type), zero), scale)
                _store(b, value, address(b, out, scale_index(b, term, spec.out.step * F32_BYTES)), spec.out.step, used)

            whole = terms // LANES * LANES
            repeat(b, 0, whole, lambda at: vector(at, LANES), "vector", LANES)
            if terms > whole:
                vector(const(whole), terms - whole)

        whole, rest = divmod(spec.out.length, spec.block)
        repeat(b, 0, whole, lambda number: block(number, spec.block), "block")
        if rest:
            block(const(whole), rest)

    return finish_rows(b, line)


def _numbers(b: ir.IRBuilder, spec: ExpandedBlocks, w: Value, term: Value) -> Value:
    """Return the eight numbers from a multiple of eight on, as i32; a block has all of them."""
    place = address(b, w, scale_index(b, _byte(b, spec, term), spec.w.step))
    count = LANES * spec.bits // 8
    if spec.w.step == 1:
        packed = load_lanes(b, place, I8, count, count, "w")
    else:
        packed = ir.Constant(ir.VectorType(I8, count), ir.Undefined)
        for i in range(count):
            packed = b.insert_element(
                packed, b.load(address(b, place, i * spec.w.step), align=1, typ=I8), const(i, I32)
            )
    if spec.bits == 8:
        return b.zext(packed, ir.VectorType(I32, LANES))
    word = b.bitcast(packed, ir.IntType(8 * count))
    words = splat(b, word if spec.bits == 4 else b.zext(word, I32), LANES)
    shifts = tuple(range(0, LANES * spec.bits, spec.bits))
    return b.and_(b.lshr(words, i32_lanes(shifts)), i32_lanes(((1 << spec.bits) - 1,) * LANES))


def _byte(b: ir.IRBuilder, spec: ExpandedBlocks, term: Value) -> Value:
    """Return the number of the byte in which a term begins."""
    return term if spec.bits == 8 else b.lshr(term, const(1 if spec.bits == 4 else 2))


def _float_zeros(node: Node, views: Mapping[str, View]) -> bool:
    return bool(node.inputs[2]) and views[node.inputs[2]].dtype == "f32"


def _store(b: ir.IRBuilder, value: Value, place: Value, step: int, used: int) -> None:
    if step == 1:
        store_lanes(b, value, place, LANES, used)
        return
    for i in range(used):
        b.store(b.extract_element(value, const(i, I32)), address(b, place, i * step * F32_BYTES), align=F32_BYTES)


LOWER = {"expand_blocks": lower_expand_blocks}
EMIT = {ExpandedBlocks: emit_expanded_blocks}
