"""Kernel that quantises activations to 8 bits in blocks, each with a scale and the sum of its numbers."""

from typing import TypeAlias

from llvmlite import ir

from mavcg.graph.reference.block_weights import LARGEST
from mavcg.kernels.block_weights.spec import END_BYTES, PAIR_TERMS, QuantizedBlocks, block_pitch
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
from mavcg.kernels.builder.lanes import load_lanes, shuffle, splat
from mavcg.kernels.builder.nest_loops import decode, minimum
from mavcg.specs.kernel import F32_BYTES, Machine

Value: TypeAlias = ir.Value
LANES = PAIR_TERMS  # of vectors on most cores: a divisor of every block
WIDE_LANES = 16  # of registers of 64 bytes, where they divide a block and numbers do not lie in pairs
STEP = 32  # terms that are quantised without a loop, where they divide a block


def emit_quantized_blocks(module: ir.Module, spec: QuantizedBlocks, machine: Machine) -> ir.Function:
    """Emit two loops over each block: its largest magnitude, then its numbers."""
    _, b = kernel_function(module, spec, machine)
    x, numbers, ends = operands(b, "x", "numbers", "ends")
    whole, rest = divmod(spec.x.length, spec.block)

    together = 1 + spec.paired  # lines whose numbers lie side by side
    blocked = spec.by_blocks and spec.x.count > 1
    of_line = spec.block if blocked else spec.blocks * spec.block  # bytes from a line's numbers to the next line's
    of_block = block_pitch(spec.x, spec.block) if blocked else spec.block * together

    wide = machine.vector_bytes >= WIDE_LANES * F32_BYTES and machine.vector_registers >= 32
    lanes = WIDE_LANES if wide and not spec.paired and spec.block % WIDE_LANES == 0 else LANES

    def row(index: Value) -> None:
        line_number, piece = decode(b, index, (spec.x.count, spec.pieces))
        line = address(b, x, scale_index(b, line_number, spec.x.pitch * F32_BYTES))
        line_ends = address(b, ends, scale_index(b, line_number, F32_BYTES))
        half = b.and_(line_number, const(together - 1))
        line_numbers = address(b, numbers, scale_index(b, b.sub(line_number, half), of_line))
        line_numbers = address(b, line_numbers, scale_index(b, half, PAIR_TERMS))

        def block(number: Value, used: int) -> None:
            """Emit a block, of which the line has `used` terms."""
            terms = address(b, line, scale_index(b, number, spec.block * spec.x.step * F32_BYTES), "terms")
            to = address(b, line_numbers, scale_index(b, number, of_block), "block_numbers")
            scale, total = _quantize(b, spec, lanes, terms, to, used)
            end = address(b, line_ends, scale_index(b, number, spec.x.count * END_BYTES))
            b.store(scale, end, align=4)
            b.store(b.mul(total, const(spec.factor, I32)), address(b, end, spec.x.count * F32_BYTES), align=4)

        first = scale_index(b, piece, spec.row_blocks)
        end = minimum(b, b.add(first, const(spec.row_blocks)), const(whole))
        repeat(b, first, end, lambda number: block(number, spec.block), "block")
        if rest:
            with b.if_then(b.icmp_signed("==", piece, const(spec.pieces - 1))):
                block(const(whole), rest)

    return finish_rows(b, row)


def _quantize(
    b: ir.IRBuilder, spec: QuantizedBlocks, lanes: int, terms: Value, to: Value, used: int
) -> tuple[Value, Value]:
    """Emit the numbers of a block of `used` terms; return its scale and the sum of the numbers. lanes: of vectors."""
    zeros = ir.Constant(vector(F32, lanes), [0.0] * lanes)
    whole = used // lanes * lanes

    def load(at: Value, count: int) -> Value:
        place = address(b, terms, scale_index(b, at, spec.x.step * F32_BYTES))
        if spec.x.step == 1:
            loaded = load_lanes(b, place, F32, lanes, count, "x")
        else:
            loaded = zeros
            for i in range(count):
                one = b.load(address(b, place, i * spec.x.step * F32_BYTES), align=F32_BYTES, typ=F32)
                loaded = b.insert_element(loaded, one, const(i, I32))
        return (
            loaded if count == lanes else shuffle(b, loaded, zeros, [*range(count), *range(lanes + count, 2 * lanes)])
        )

    i32s = vector(I32, lanes)
    step = STEP if whole % STEP == 0 else lanes
    nothing = ir.Constant(i32s, [0] * lanes)

    def magnitude(at: Value, largest: Value, count: int) -> Value:
        """Return the larger magnitudes, as bits, whose order is that of the numbers and of a NaN behind them."""
        bits = b.and_(b.bitcast(load(at, count), i32s), number(nothing, 0x7FFFFFFF))
        return call_intrinsic(b, f"llvm.umax.v{lanes}i32", i32s, largest, bits)

    def magnitudes(at: Value, largest: Values) -> Values:
        for first in range(0, step, lanes):
            largest = (magnitude(b.add(at, const(first)), largest[0], lanes),)
        return largest

    (most,) = for_range(b, const(0), const(whole), step, (nothing,), magnitudes, "magnitude")
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
        for first in range(0, step, lanes):
            total = (round_terms(b.add(at, const(first)), total[0], lanes),)
        return total

    (total,) = for_range(b, const(0), const(whole), step, (nothing,), numbers_of, "number")
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
