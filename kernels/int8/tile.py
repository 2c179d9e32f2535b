"""The register tile of an 8-bit micro-kernel: its sizes, its operands, and the requantization of its exact sums.

Requantization is by one f32 product, rounded half to even, in few instructions.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import F32, I8, I16, I32, I64, address, intrinsic
from mavcg.kernels.builder.lanes import load_lanes, shuffle, splat, store_lanes
from mavcg.kernels.builder.quantize import Int8Epilogue, QuantizedSum, limits
from mavcg.kernels.int8.register_tile import ProductForm
from mavcg.kernels.int8.second_parts import ExcessPointers
from mavcg.specs.kernel import F32_BYTES as F32_BYTES
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value

SHORT = (-(1 << 15), (1 << 15) - 1)
# Beyond i16, so that the conversion to i16 saturates, and far within i32, outside of which x86 converts to the lowest
# number.
TOP = 65536.0
LARGEST_REAL = float(1 << 30)  # far within i32, and far beyond i16
PACKED_REGISTERS = 4  # of i32 lanes, which x86's instructions narrow to one of 8 bits
PACK = {8: "llvm.x86.avx2.pack{}", 16: "llvm.x86.avx512.pack{}.512"}  # by lanes of i32


def to_eight_bits(
    b: ir.IRBuilder,
    machine: Machine,
    sums: Value,
    multiplier: Value,
    epilogue: Int8Epilogue,
    shift: Value | None = None,
    bounded: bool = False,
) -> Value:
    """Return a vector of i32 sums, of at least four lanes, requantized by a vector of f32 multipliers to 8 bits.

    shift: a vector of f32 that is added to the products, or None. bounded: True if no result before it is rounded is
    beyond LARGEST_REAL.
    """
    return round_to_eight_bits(b, machine, real_results(b, sums, multiplier, shift), epilogue, bounded)


def real_results(b: ir.IRBuilder, sums: Value, multiplier: Value, shift: Value | None) -> Value:
    """Return i32 sums times f32 multipliers, plus f32 shifts if there are any."""
    real = b.fmul(b.sitofp(sums, multiplier.type), multiplier, name="real")
    return real if shift is None else b.fadd(real, shift, name="shifted")


def round_to_eight_bits(
    b: ir.IRBuilder, machine: Machine, real: Value, epilogue: Int8Epilogue, bounded: bool = False
) -> Value:
    """Return f32 results rounded to 8 bits. bounded: as in to_eight_bits.

    Rounded numbers saturate to i16 first, which changes only numbers far beyond lo and hi.
    """
    count = real.type.count
    least, most = limits(epilogue.to)
    words = _round(b, machine, real, bounded)
    if machine.arch == "x86_64" and len(words) in (2, PACKED_REGISTERS):
        result = _pack(b, words, epilogue)
    else:
        short = _add_zero(b, _saturate(b, concatenate(b, words), SHORT, I16), epilogue)
        result = _saturate(b, short, (least, most), I8)
    sign = "s" if epilogue.to == "i8" else "u"
    if epilogue.lo > least:
        result = intrinsic(b, f"{sign}max", [result, _all(result, epilogue.lo)])
    if epilogue.hi < most:
        result = intrinsic(b, f"{sign}min", [result, _all(result, epilogue.hi)])
    assert result.type == ir.VectorType(I8, count)
    return result


def _add_zero(b: ir.IRBuilder, short: Value, epilogue: Int8Epilogue) -> Value:
    """Return i16 lanes plus the zero point, saturated."""
    return intrinsic(b, "sadd.sat", [short, _all(short, epilogue.zero)]) if epilogue.zero else short


def _pack(b: ir.IRBuilder, words: list[Value], epilogue: Int8Epilogue) -> Value:
    """Return the i32 lanes of two or four x86 registers, plus the zero point, saturated to 8 bits.

    The instructions that narrow two registers into one work on 16 bytes at a time; one permutation of four bytes each
    then brings the channels in order. Narrowing each register alone takes twice as many instructions.
    """
    lanes, sign = words[0].type.count, "s" if epilogue.to == "i8" else "u"
    to_shorts, to_bytes = PACK[lanes].format("ssdw"), PACK[lanes].format(f"{sign}swb")
    shorts = [
        _add_zero(b, _call(b, to_shorts, ir.VectorType(I16, 2 * lanes), low, high), epilogue)
        for low, high in zip(words[::2], words[1::2], strict=True)
    ]
    packed = _call(b, to_bytes, ir.VectorType(I8, 4 * lanes), shorts[0], shorts[-1])
    pieces = b.bitcast(packed, ir.VectorType(I32, lanes))
    order = [4 * piece + register for register in range(len(words)) for piece in range(lanes // 4)]
    return b.bitcast(shuffle(b, pieces, pieces, order), ir.VectorType(I8, len(words) * lanes))


def _round(b: ir.IRBuilder, machine: Machine, real: Value, bounded: bool) -> list[Value]:
    """Return f32 lanes rounded half to even, as registers of i32. bounded: as in to_eight_bits."""
    # Register by register: LLVM does not split these intrinsics for shorter registers.
    arm = machine.arch == "aarch64"
    lanes = 4 if arm else min(real.type.count, 16 if machine.vector_registers >= 32 else 8)
    parts = [shuffle(b, real, real, range(i, i + lanes)) for i in range(0, real.type.count, lanes)]
    if arm:
        # Rounds and saturates in one instruction; LLVM needs two for the generic form.
        name = "llvm.aarch64.neon.fcvtns.v4i32.v4f32"
    else:
        # Uses the processor's rounding mode, half to even: any other mode would change all f32 arithmetic too.
        name = f"llvm.lrint.v{lanes}i32.v{lanes}f32"
        if not bounded:
            top = ir.Constant(parts[0].type, [TOP] * lanes)
            parts = [b.select(b.fcmp_ordered("<", part, top), part, top) for part in parts]
    return [_call(b, name, ir.VectorType(I32, lanes), part) for part in parts]


def _call(b: ir.IRBuilder, name: str, result: ir.Type, *args: Value) -> Value:
    """Emit the call of a target intrinsic."""
    kind = ir.FunctionType(result, [x.type for x in args])
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    return b.call(function, args)


def concatenate(b: ir.IRBuilder, parts: list[Value]) -> Value:
    """Return the concatenation of vectors of one length, whose number is a power of two."""
    while len(parts) > 1:
        count = 2 * parts[0].type.count
        parts = [shuffle(b, x, y, range(count)) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _saturate(b: ir.IRBuilder, x: Value, bounds: tuple[int, int], element: ir.Type) -> Value:
    """Return lanes clamped to two bounds and truncated to the element type."""
    x = intrinsic(b, "smax", [x, _all(x, bounds[0])])
    return b.trunc(intrinsic(b, "smin", [x, _all(x, bounds[1])]), ir.VectorType(element, x.type.count))


def _all(x: Value, value: int) -> ir.Constant:
    return ir.Constant(x.type, [value] * x.type.count)


@dataclass(frozen=True)
class QTile:
    """The register tile of one micro-kernel: pixels x vectors of channels.

    in_offsets, out_offsets, residual_offsets: offset of each pixel, in bytes. used: channels of the last vector. panel:
    channels of a panel of weights; panel_bytes: its size. narrow: no weight is -128, so that i16 can hold the sum of
    two products. ahead: prefetch distance of weights, in bytes; 0: no prefetch.
    """

    in_offsets: tuple[int, ...]
    out_offsets: tuple[int, ...]
    vectors: int
    used: int
    panel: int
    panel_bytes: int
    narrow: bool
    ahead: int = 0
    residual_offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class QPointers:
    """Pointers to the operands of the tile's first pixel and channel.

    residual: None without one. flip: a register of bytes 128 if the product form flips the signedness of inputs. It is
    loaded from memory: if LLVM knew that all bytes are equal, it would flip single numbers before the broadcast, which
    then could no longer be part of the load. excess: the second parts of the weights, or None.
    """

    inputs: Value
    weights: Value
    out: Value
    residual: Value | None
    flip: Value | None
    excess: ExcessPointers | None = None


@dataclass(frozen=True)
class TileSums:
    """The exact sums of a tile. rows[pixel][vector]: i32 lanes, one per channel.

    windows: the sum of each pixel's inputs, in all lanes; empty without window_sums. Inputs count as they are
    multiplied: 128 more or less where the product form flips them.
    """

    rows: list[list[Value]]
    windows: list[Value]


class TileEnding(Protocol):
    """The epilogue of a tile's sums, from the tile's first output channel on."""

    def start(self, form: ProductForm, tile: QTile) -> list[Value]:
        """Emit what the sums of each piece of weights begin with, for all pixels; none if they begin with 0."""

    def tile_start(self) -> Value | None:
        """Return a pointer to the i32 that sums in AMX's tiles begin with, one for each channel; None for 0."""

    def store(self, form: ProductForm, tile: QTile, at: QPointers, sums: TileSums) -> None:
        """Emit the computation of the results and their stores."""


@dataclass(frozen=True)
class RequantizedEnding:
    """An epilogue that requantizes the sums to 8 bits.

    bias, multiplier, shift: pointers to the values of the tile's first channel, i32 and f32, padded to whole panels; no
    shift if None. bounded: as in to_eight_bits. sum: adds the tile's residual, of residual_type, or None.
    """

    b: ir.IRBuilder
    machine: Machine
    epilogue: Int8Epilogue
    bias: Value
    multiplier: Value
    shift: Value | None = None
    bounded: bool = False
    sum: QuantizedSum | None = None
    residual_type: str = ""

    def start(self, form: ProductForm, tile: QTile) -> list[Value]:
        """Emit the loads of the biases; of a product of matrices two channels', for both pixels."""
        b, piece_bytes, whole = self.b, form.piece * F32_BYTES, ir.VectorType(I32, form.lanes)
        if not form.starts_with_bias:
            return []
        at = [address(b, self.bias, piece * piece_bytes) for piece in range(tile.vectors * form.parts)]
        if not form.matrix:
            return [b.load(pointer, name="bias", align=4, typ=whole) for pointer in at]
        return [b.bitcast(splat(b, b.load(pair, name="biases", align=4, typ=I64), 2), whole) for pair in at]

    def tile_start(self) -> Value:
        """Return the pointer to the biases."""
        return self.bias

    def store(self, form: ProductForm, tile: QTile, at: QPointers, sums: TileSums) -> None:
        """Emit the requantization and the stores, of at most 32 or, on x86, PACKED_REGISTERS * lanes bytes each."""
        b, lanes = self.b, form.lanes
        most = PACKED_REGISTERS if self.machine.arch == "x86_64" else max(1, 32 // lanes)
        for p, row in enumerate(sums.rows):
            for first, count in _requantize_groups(tile.vectors, most):
                used = min(count * lanes, (tile.vectors - 1) * lanes + tile.used - first * lanes)
                total = concatenate(b, [row[v] for v in range(first, first + count)])
                move = first * lanes * F32_BYTES
                if not form.starts_with_bias:
                    bias = b.load(address(b, self.bias, move), name="bias", align=4, typ=total.type)
                    total = b.add(total, bias)
                kind = ir.VectorType(F32, count * lanes)
                multiplier = b.load(address(b, self.multiplier, move), name="multiplier", align=4, typ=kind)
                shift = self.shift and b.load(address(b, self.shift, move), name="shift", align=4, typ=kind)
                real = real_results(b, total, multiplier, shift)
                if self.sum is not None:
                    residual = None
                    if at.residual is not None:
                        there = address(b, at.residual, tile.residual_offsets[p] + first * lanes)
                        residual = load_lanes(b, there, I8, count * lanes, used, "residual")
                    real = self.sum.value(b, real, residual, self.residual_type)
                result = round_to_eight_bits(b, self.machine, real, self.epilogue, self.bounded)
                store_lanes(b, result, address(b, at.out, tile.out_offsets[p] + first * lanes), count * lanes, used)


def _requantize_groups(vectors: int, most: int) -> list[tuple[int, int]]:
    """Return (first, count) of the vectors that are requantized together: a power of two, at most `most` of them."""
    groups, first = [], 0
    while first < vectors:
        count = 1 << (min(vectors - first, most).bit_length() - 1)
        groups.append((first, count))
        first += count
    return groups
