"""The register tile of an 8-bit micro-kernel: its sizes, its operands, and the requantization of its exact sums.

Requantization is by one f32 product, rounded half to even, in few instructions.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import F32, I8, I16, I32, address, intrinsic
from mavcg.kernels.builder.nest import shuffle, store_lanes
from mavcg.kernels.builder.quantize import Int8Epilogue, limits
from mavcg.kernels.int8.register_tile import ProductForm
from mavcg.specs.kernel import F32_BYTES as F32_BYTES
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value

SHORT = (-(1 << 15), (1 << 15) - 1)
# Beyond i16, so that the conversion to i16 saturates, and far within i32, outside of which x86 converts to the lowest
# number.
TOP = 65536.0


def to_eight_bits(
    b: ir.IRBuilder,
    machine: Machine,
    sums: Value,
    multiplier: Value,
    epilogue: Int8Epilogue,
    shift: Value | None = None,
) -> Value:
    """Return a vector of i32 sums, of at least four lanes, requantized by a vector of f32 multipliers to 8 bits.

    shift: a vector of f32 that is added to the products, or None.
    Rounded numbers saturate to i16 first, which changes only numbers far beyond lo and hi.
    """
    count = sums.type.count
    real = b.fmul(b.sitofp(sums, multiplier.type), multiplier, name="real")
    real = real if shift is None else b.fadd(real, shift, name="shifted")
    short = _saturate(b, _round(b, machine, real), SHORT, I16)
    short = intrinsic(b, "sadd.sat", [short, _all(short, epilogue.zero)]) if epilogue.zero else short
    least, most = limits(epilogue.to)
    result = _saturate(b, short, (least, most), I8)
    sign = "s" if epilogue.to == "i8" else "u"
    if epilogue.lo > least:
        result = intrinsic(b, f"{sign}max", [result, _all(result, epilogue.lo)])
    if epilogue.hi < most:
        result = intrinsic(b, f"{sign}min", [result, _all(result, epilogue.hi)])
    assert result.type == ir.VectorType(I8, count)
    return result


def _round(b: ir.IRBuilder, machine: Machine, real: Value) -> Value:
    """Return f32 lanes rounded half to even, as i32."""
    # Register by register: LLVM does not split these intrinsics for shorter registers.
    arm = machine.arch == "aarch64"
    lanes = 4 if arm else min(real.type.count, 16 if machine.vector_registers >= 32 else 8)
    parts = [shuffle(b, real, real, range(i, i + lanes)) for i in range(0, real.type.count, lanes)]
    if arm:
        # Rounds and saturates in one instruction; LLVM needs two for the generic form.
        return concatenate(b, [_convert(b, "llvm.aarch64.neon.fcvtns.v4i32.v4f32", part) for part in parts])
    top = ir.Constant(parts[0].type, [TOP] * lanes)
    bounded = [b.select(b.fcmp_ordered("<", part, top), part, top) for part in parts]
    # Uses the processor's rounding mode, half to even: any other mode would change all f32 arithmetic too.
    return concatenate(b, [_convert(b, f"llvm.lrint.v{lanes}i32.v{lanes}f32", part) for part in bounded])


def _convert(b: ir.IRBuilder, name: str, x: Value) -> Value:
    kind = ir.FunctionType(ir.VectorType(I32, x.type.count), [x.type])
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    return b.call(function, [x])


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
    then could no longer be part of the load.
    """

    inputs: Value
    weights: Value
    out: Value
    residual: Value | None
    flip: Value | None


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

    def store(self, form: ProductForm, tile: QTile, at: QPointers, sums: TileSums) -> None:
        """Emit the computation of the results and their stores."""


@dataclass(frozen=True)
class RequantizedEnding:
    """An epilogue that requantizes the sums to 8 bits.

    bias, multiplier, shift: pointers to the values of the tile's first channel, i32 and f32, padded to whole panels; no
    shift if None.
    """

    b: ir.IRBuilder
    machine: Machine
    epilogue: Int8Epilogue
    bias: Value
    multiplier: Value
    shift: Value | None = None

    def store(self, form: ProductForm, tile: QTile, at: QPointers, sums: TileSums) -> None:
        """Emit the requantization and the stores, of at most 32 bytes each."""
        b, lanes = self.b, form.lanes
        for p, row in enumerate(sums.rows):
            for first, count in _requantize_groups(tile.vectors, lanes):
                used = min(count * lanes, (tile.vectors - 1) * lanes + tile.used - first * lanes)
                total = concatenate(b, [row[v] for v in range(first, first + count)])
                move = first * lanes * F32_BYTES
                bias = b.load(address(b, self.bias, move), name="bias", align=4, typ=total.type)
                kind = ir.VectorType(F32, count * lanes)
                multiplier = b.load(address(b, self.multiplier, move), name="multiplier", align=4, typ=kind)
                shift = self.shift and b.load(address(b, self.shift, move), name="shift", align=4, typ=kind)
                result = to_eight_bits(b, self.machine, b.add(total, bias), multiplier, self.epilogue, shift)
                store_lanes(b, result, address(b, at.out, tile.out_offsets[p] + first * lanes), count * lanes, used)


def _requantize_groups(vectors: int, lanes: int) -> list[tuple[int, int]]:
    """Return (first, count) of the vectors that are requantized together: a power of two, at most 32 bytes of
    results."""
    groups, first = [], 0
    while first < vectors:
        count = 1 << (min(vectors - first, max(1, 32 // lanes)).bit_length() - 1)
        groups.append((first, count))
        first += count
    return groups
