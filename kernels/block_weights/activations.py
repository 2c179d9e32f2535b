"""Kernel that quantises activations to 8 bits in blocks, each with a scale and the sum of its numbers.

On x86 a line's blocks are quantised TOGETHER at a time, whose largest magnitudes, factors and sums then share vectors:
a reduction and a division for each block would take more instructions than the numbers themselves. The few blocks whose
factor is infinite or denormal are quantised one by one, as those are that are left at a line's end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph.reference.block_weights import LARGEST
from mavcg.kernels.block_weights.spec import END_BYTES, PAIR_TERMS, QuantizedBlocks, block_pitch
from mavcg.kernels.builder.activation import activate
from mavcg.kernels.builder.emit import (
    F32,
    I8,
    I32,
    Values,
    address,
    call_intrinsic,
    const,
    finish_rows,
    for_range,
    intrinsic,
    kernel_function,
    number,
    operands,
    repeat,
    scale_index,
    vector,
)
from mavcg.kernels.builder.lanes import load_lanes, load_vector, shuffle, splat, store_vector
from mavcg.kernels.builder.nest_loops import decode, minimum
from mavcg.specs.kernel import F32_BYTES, Machine

Value: TypeAlias = ir.Value
LANES = PAIR_TERMS  # of vectors on most cores: a divisor of every block
WIDE_LANES = 16  # of registers of 64 bytes, where they divide a block and numbers do not lie in pairs
TOGETHER = 8  # blocks of a group, a power of two
MOST_GROUPED = 64  # terms of a block of a group, which is emitted without loops
# Bits of the magnitudes whose factor, 127 over one, is finite and not denormal: 2 ** -120 and infinity.
LEAST_BITS, INFINITE_BITS = 7 << 23, 255 << 23
STEP = 32  # terms that are quantised without a loop, where they divide a block


def emit_quantized_blocks(module: ir.Module, spec: QuantizedBlocks, machine: Machine) -> ir.Function:
    """Emit two loops over each block: its largest magnitude, then its numbers."""
    function, b = kernel_function(module, spec, machine)
    x, *gate, numbers, ends = operands(b, "x", *["gate"] * (spec.gate is not None), "numbers", "ends")
    whole, rest = divmod(spec.x.length, spec.block)

    together = 1 + spec.paired  # lines whose numbers lie side by side
    blocked = spec.by_blocks and spec.x.count > 1
    of_line = spec.block if blocked else spec.blocks * spec.block  # bytes from a line's numbers to the next line's
    of_block = block_pitch(spec.x, spec.block) if blocked else spec.block * together

    wide = machine.vector_bytes >= WIDE_LANES * F32_BYTES and machine.vector_registers >= 32
    lanes = WIDE_LANES if wide and not spec.paired and spec.block % WIDE_LANES == 0 else LANES

    gated, step = function.args[3], spec.x.step if spec.gate is None else 1  # of the terms that are quantised

    def row(index: Value) -> None:
        line_number, piece = decode(b, index, (spec.x.count, spec.pieces))
        line = address(b, x, scale_index(b, line_number, spec.x.pitch * F32_BYTES))
        line_ends = address(b, ends, scale_index(b, line_number, F32_BYTES))
        half = b.and_(line_number, const(together - 1))
        line_numbers = address(b, numbers, scale_index(b, b.sub(line_number, half), of_line))
        line_numbers = address(b, line_numbers, scale_index(b, half, PAIR_TERMS))

        def places(number: Value) -> tuple[Value, Value]:
            """Return the addresses of a block's terms and of its numbers."""
            start, at = (line, number) if spec.gate is None else (gated, b.sub(number, begin))
            terms = address(b, start, scale_index(b, at, spec.block * step * F32_BYTES), "terms")
            return terms, address(b, line_numbers, scale_index(b, number, of_block), "block_numbers")

        def store_ends(number: Value, scale: Value, total: Value) -> None:
            end = address(b, line_ends, scale_index(b, number, spec.x.count * END_BYTES))
            b.store(scale, end, align=4)
            b.store(b.mul(total, const(spec.factor, I32)), address(b, end, spec.x.count * F32_BYTES), align=4)

        def block(number: Value, used: int) -> None:
            """Emit a block, of which the line has `used` terms."""
            store_ends(number, *_quantize(b, spec, lanes, step, *places(number), used))

        def group(first: Value) -> None:
            """Emit TOGETHER blocks."""
            numbers = [b.add(first, const(i)) for i in range(TOGETHER)]
            several = _BlockGroup(b, lanes, spec.block, [places(number) for number in numbers])
            largest = several.largest()
            with b.if_else(several.has_normal_factors(largest), likely=True) as (normal, other):
                with normal:
                    scales, totals = several.quantize(largest)
                    for i, number in enumerate(numbers):
                        lane = const(i, I32)
                        store_ends(number, b.extract_element(scales, lane), b.extract_element(totals, lane))
                with other:
                    repeat(b, first, b.add(first, const(TOGETHER)), lambda number: block(number, spec.block), "single")

        first = begin = scale_index(b, piece, spec.row_blocks)
        if spec.gate is not None:
            gate_line = address(b, gate[0], scale_index(b, line_number, spec.gate.pitch * F32_BYTES))
            begin_term = scale_index(b, begin, spec.block)
            count = minimum(b, b.sub(const(spec.x.length), begin_term), const(spec.row_blocks * spec.block))
            sources = [
                (address(b, start, scale_index(b, begin_term, lines.step * F32_BYTES)), lines.step)
                for start, lines in ((line, spec.x), (gate_line, spec.gate))
            ]
            _apply_gate(b, machine, sources, gated, count)
        end = minimum(b, b.add(first, const(spec.row_blocks)), const(whole))
        if blocked and step == 1 and spec.block % lanes == 0 and spec.block <= MOST_GROUPED:
            groups_end = b.sub(end, b.urem(b.sub(end, first), const(TOGETHER)), name="groups_end")
            repeat(b, first, groups_end, group, "group", TOGETHER)
            first = groups_end
        repeat(b, first, end, lambda number: block(number, spec.block), "block")
        if rest:
            with b.if_then(b.icmp_signed("==", piece, const(spec.pieces - 1))):
                block(const(whole), rest)

    return finish_rows(b, row)


def _apply_gate(
    b: ir.IRBuilder, machine: Machine, sources: Sequence[tuple[Value, int]], to: Value, count: Value
) -> None:
    """Emit the loops that write x * silu(gate) to scratch, f32. sources: (first term, step) of x and of its gate."""

    def terms(at: Value, lanes: int) -> None:
        x, gate = (
            load_vector(b, address(b, place, scale_index(b, at, step * F32_BYTES)), vector(F32, lanes), name="x")
            for place, step in sources
        )
        store_vector(b, b.fmul(activate(b, "silu", (), gate), x), address(b, to, scale_index(b, at, F32_BYTES)))

    lanes = min(machine.vector_bytes // F32_BYTES, WIDE_LANES) if all(step == 1 for _, step in sources) else 1
    whole = b.sub(count, b.urem(count, const(lanes)), name="whole")
    repeat(b, const(0), whole, lambda at: terms(at, lanes), "gated", lanes)
    if lanes > 1:
        repeat(b, whole, count, lambda at: terms(at, 1), "gated_rest")


@dataclass(frozen=True)
class _BlockGroup:
    """Emitter of TOGETHER whole blocks. lanes: of vectors of terms. places: addresses of (terms, numbers) of each."""

    b: ir.IRBuilder
    lanes: int
    block: int
    places: Sequence[tuple[Value, Value]]

    def largest(self) -> Value:
        """Return the largest magnitude of each block as bits, <TOGETHER x i32>."""
        i32s = vector(I32, self.lanes)

        def larger(x: Value, y: Value) -> Value:
            return call_intrinsic(self.b, f"llvm.umax.v{x.type.count}i32", x.type, x, y)

        def magnitudes(number: int) -> Value:
            parts = [self.b.and_(self.b.bitcast(x, i32s), self._splat(i32s, 0x7FFFFFFF)) for x in self._terms(number)]
            return reduce(larger, parts)

        return self._by_block(magnitudes, larger)

    def has_normal_factors(self, largest: Value) -> Value:
        """Return whether each block is 0 or has a factor that is neither infinite nor denormal."""
        b, typ = self.b, largest.type
        above = b.sub(largest, self._splat(typ, LEAST_BITS))
        within = b.icmp_unsigned("<", above, self._splat(typ, INFINITE_BITS - LEAST_BITS))
        normal = b.or_(within, b.icmp_unsigned("==", largest, self._splat(typ, 0)))
        return b.icmp_unsigned("==", b.bitcast(normal, ir.IntType(TOGETHER)), ir.Constant(ir.IntType(TOGETHER), -1))

    def quantize(self, largest: Value) -> tuple[Value, Value]:
        """Emit the stores of the numbers; return the blocks' scales and sums. Products are within -127 .. 127."""
        b = self.b
        magnitudes = b.bitcast(largest, vector(F32, TOGETHER))
        top, zeros = self._splat(magnitudes.type, LARGEST), self._splat(magnitudes.type, 0.0)
        factors = b.select(b.fcmp_ordered("==", magnitudes, zeros), zeros, b.fdiv(top, magnitudes))

        def sums(number: int) -> Value:
            factor, total = splat(b, b.extract_element(factors, const(number, I32)), self.lanes), None
            for i, x in enumerate(self._terms(number)):
                numbers = b.fptosi(intrinsic(b, "roundeven", [b.fmul(x, factor)]), vector(I32, self.lanes))
                place = address(b, self.places[number][1], i * self.lanes)
                b.store(b.trunc(numbers, vector(I8, self.lanes)), place, align=1)
                total = numbers if total is None else b.add(total, numbers)
            return total

        return b.fdiv(magnitudes, top), self._by_block(sums, b.add)

    def _terms(self, number: int) -> list[Value]:
        """Return the vectors of a block's terms."""
        places = [address(self.b, self.places[number][0], at * F32_BYTES) for at in range(0, self.block, self.lanes)]
        return [load_lanes(self.b, place, F32, self.lanes, self.lanes, "x") for place in places]

    def _by_block(self, of_block: Callable[[int], Value], combine: Callable[[Value, Value], Value]) -> Value:
        """Return a lane for each block: all lanes of its vector, of_block(number), combined in any order.

        Two vectors at a time become one, of which each block has half as many lanes.
        """

        def halves(x: Value, y: Value, width: int) -> Value:
            starts = range(0, x.type.count * (1 + (y is not x)), width)
            masks = [[at + i for at in starts for i in part] for part in (range(width // 2), range(width // 2, width))]
            return combine(*(shuffle(self.b, x, y, mask) for mask in masks))

        def of_blocks(first: int, count: int) -> Value:
            if count == 1:
                return of_block(first)
            left, right = (of_blocks(first + at, count // 2) for at in (0, count // 2))
            return halves(left, right, 2 * self.lanes // count)

        result, width = of_blocks(0, TOGETHER), self.lanes // TOGETHER
        while width > 1:
            result, width = halves(result, result, width), width // 2
        return result

    @staticmethod
    def _splat(typ: ir.VectorType, value: float) -> ir.Constant:
        return ir.Constant(typ, [value] * typ.count)


def _quantize(
    b: ir.IRBuilder, spec: QuantizedBlocks, lanes: int, step: int, terms: Value, to: Value, used: int
) -> tuple[Value, Value]:
    """Emit the numbers of a block of `used` terms; return its scale and the sum of the numbers.

    lanes: of vectors. step: elements from a term to the next.
    """
    zeros = ir.Constant(vector(F32, lanes), [0.0] * lanes)
    whole = used // lanes * lanes

    def load(at: Value, count: int) -> Value:
        place = address(b, terms, scale_index(b, at, step * F32_BYTES))
        if step == 1:
            loaded = load_lanes(b, place, F32, lanes, count, "x")
        else:
            loaded = zeros
            for i in range(count):
                one = b.load(address(b, place, i * step * F32_BYTES), align=F32_BYTES, typ=F32)
                loaded = b.insert_element(loaded, one, const(i, I32))
        return (
            loaded if count == lanes else shuffle(b, loaded, zeros, [*range(count), *range(lanes + count, 2 * lanes)])
        )

    i32s = vector(I32, lanes)
    stride = STEP if whole % STEP == 0 else lanes
    nothing = ir.Constant(i32s, [0] * lanes)

    def magnitude(at: Value, largest: Value, count: int) -> Value:
        """Return the larger magnitudes, as bits, whose order is that of the numbers and of a NaN behind them."""
        bits = b.and_(b.bitcast(load(at, count), i32s), number(nothing, 0x7FFFFFFF))
        return call_intrinsic(b, f"llvm.umax.v{lanes}i32", i32s, largest, bits)

    def magnitudes(at: Value, largest: Values) -> Values:
        for first in range(0, stride, lanes):
            largest = (magnitude(b.add(at, const(first)), largest[0], lanes),)
        return largest

    (most,) = for_range(b, const(0), const(whole), stride, (nothing,), magnitudes, "magnitude")
    if used > whole:
        most = magnitude(const(whole), most, used - whole)
    width = lanes
    while width > 2:
        width //= 2
        halves = [shuffle(b, most, most, range(at, at + width)) for at in (0, width)]
        most = call_intrinsic(b, f"llvm.umax.v{width}i32", vector(I32, width), *halves)
    first, second = (b.extract_element(most, const(i, I32)) for i in (0, 1))
    largest = b.bitcast(call_intrinsic(b, "llvm.umax.i32", I32, first, second), F32)
    top, zero = ir.Constant(F32, LARGEST), ir.Constant(F32, 0.0)
    factor = b.select(b.fcmp_ordered("==", largest, zero), zero, b.fdiv(top, largest))
    factors = splat(b, factor, lanes, "factors")

    def round_terms(at: Value, total: Value, count: int) -> Value:
        """Emit the stores of some terms as numbers; return the total with them. A product that is NaN gives 0."""
        x = intrinsic(b, "roundeven", [b.fmul(load(at, count), factors)])
        # By selects: of fptosi.sat LLVM makes a scalar each on x86.
        x = b.select(b.fcmp_ordered("ord", x, x), x, zeros)
        x = b.select(b.fcmp_ordered("<", x, number(x, LARGEST)), x, number(x, LARGEST))
        x = b.select(b.fcmp_ordered(">", x, number(x, -LARGEST)), x, number(x, -LARGEST))
        numbers = b.fptosi(x, i32s)
        place = address(b, to, scale_index(b, at, 1 + spec.paired))
        b.store(b.trunc(numbers, vector(I8, lanes)), place, align=1)
        return b.add(total, numbers)

    def numbers_of(at: Value, total: Values) -> Values:
        for first in range(0, stride, lanes):
            total = (round_terms(b.add(at, const(first)), total[0], lanes),)
        return total

    (total,) = for_range(b, const(0), const(whole), stride, (nothing,), numbers_of, "number")
    if used > whole:
        total = round_terms(const(whole), total, used - whole)
    filled = -(-used // lanes) * lanes
    for at in range(filled, spec.block, lanes):
        b.store(ir.Constant(vector(I8, lanes), [0] * lanes), address(b, to, at * (1 + spec.paired)), align=1)
    return b.fdiv(largest, top), _sum_of_lanes(b, total, lanes)


def _sum_of_lanes(b: ir.IRBuilder, total: Value, lanes: int) -> Value:
    while lanes > 1:
        lanes //= 2
        total = b.add(*(shuffle(b, total, total, range(at, at + lanes)) for at in (0, lanes)))
    return b.extract_element(total, const(0, I32))
