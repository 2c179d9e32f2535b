"""Specs of sums of 8-bit products that end in f32 or i32, and the emitter of their epilogues.

The operations are those of the unfused graph, in the same order on every core: subtraction of the zero point's share
and the bias in i32, conversion to f32, multiplier, shift, residual, activation.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.activation import activate
from mavcg.kernels.builder.emit import F32, I8, I32, address, const, operand, scale_index
from mavcg.kernels.builder.lanes import load_lanes, splat, store_lanes
from mavcg.kernels.int8.micro_kernel import F32_BYTES
from mavcg.kernels.int8.register_tile import GROUP, ProductForm
from mavcg.kernels.int8.specs import EightBitConvolution, EightBitDepthwise
from mavcg.kernels.int8.tile import QPointers, QTile, TileSums
from mavcg.specs.kernel import View, Words
from mavcg.specs.serialize import spec_format


@spec_format("integer_sums")
@dataclass(frozen=True)
class IntegerSums:
    """The epilogue of integer sums: act(f32(sum + bias) * multiplier + shift + residual), or sum + bias as i32.

    bias: True if an i32 per channel is added. multiplier: "" for i32 results, "one" for a single f32, "channels" for an
    f32 per channel. shift: True if an f32 per channel is added. The kernel's spec has the residual.
    """

    bias: bool
    multiplier: str
    shift: bool
    act: str
    act_args: tuple[float, ...]

    @property
    def operands(self) -> int:
        """Number of operands that the epilogue reads, without the residual."""
        return self.bias + bool(self.multiplier) + self.shift


@spec_format("integer_conv2d")
@dataclass(frozen=True)
class IntegerConv2d(EightBitConvolution):
    """A convolution with sums of (x - zero) * (w + offset) over 8-bit images, and an epilogue.

    x, out, residual: N, H, W, C. Operands: x, packed weights i8 as in QConv2d, out, constants i32, zero (of x's type),
    bias i32 [C]?, multiplier f32?, shift f32 [C]?, residual?. constants: sums of w + offset [groups * panels * lanes],
    offsets of the same shape if there are any, 16 words of bytes 128. offsets: True if some channel's weights are not
    within i8; then offset * sum(x) is added. free_rows: as in Convolution. words: as in Conv2d, the last operands.
    """

    x: View
    out: View
    residual: View | None
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    lanes: int
    ending: IntegerSums
    narrow: bool
    in_i16: int
    offsets: bool
    terms: int = GROUP
    free_rows: bool = False
    words: Words = ()

    @property
    def operand_count(self) -> int:
        return self.residual_operand + (self.residual is not None)

    @property
    def family(self) -> str:
        return f"iconv2d_{self.x.dtype}"

    @property
    def window_sums(self) -> bool:
        return self.offsets

    @property
    def residual_operand(self) -> int:
        """Number of the residual among the operands."""
        return 5 + self.ending.operands


@spec_format("integer_depthwise")
@dataclass(frozen=True)
class IntegerDepthwise(EightBitDepthwise):
    """A depthwise convolution with sums of (x - zero) * w over 8-bit images, and an epilogue.

    x, out, residual: N, H, W, C. Operands: x, weights i16 [taps, C'], out, sums of weights i32 [C'], zero (of x's
    type), then as in IntegerConv2d. narrow: all weights are within -127 .. 127. free_rows: as in
    Convolution. words: as in Conv2d, the last operands.
    """

    x: View
    out: View
    residual: View | None
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    ending: IntegerSums
    narrow: bool
    free_rows: bool = False
    words: Words = ()

    @property
    def operand_count(self) -> int:
        return self.residual_operand + (self.residual is not None)

    @property
    def family(self) -> str:
        return f"idepthwise_{self.x.dtype}"

    @property
    def weight_bytes(self) -> int:
        return 2

    @property
    def residual_operand(self) -> int:
        """Number of the residual among the operands."""
        return 5 + self.ending.operands


Value: TypeAlias = ir.Value

FIRST = 3  # number of the first operand that an epilogue reads


@dataclass(frozen=True)
class ChannelTerms:
    """The epilogue's operands for a vector of output channels; None for an absent one."""

    zero_share: Value
    offset: Value | None
    bias: Value | None
    multiplier: Value | None
    shift: Value | None


@dataclass(frozen=True)
class IntegerEnding:
    """An epilogue of integer sums, with pointers to its operands at an output channel.

    zero: the zero point as i32, of inputs as they are multiplied. sums, offsets: packed constants, which are padded;
    the other operands are not.
    """

    b: ir.IRBuilder
    spec: IntegerSums
    zero: Value
    sums: Value
    offsets: Value | None
    bias: Value | None
    multiplier: Value | None
    shift: Value | None

    def at(self, packed: Value, channel: Value) -> "IntegerEnding":
        """Return the epilogue at another channel, given by its positions in packed constants and in tensors."""
        b = self.b

        def move_by(pointer: Value | None, offset: Value) -> Value | None:
            return pointer and address(b, pointer, scale_index(b, offset, F32_BYTES))

        sums = address(b, self.sums, scale_index(b, packed, F32_BYTES))
        multiplier = move_by(self.multiplier, channel) if self.spec.multiplier == "channels" else self.multiplier
        return replace(
            self,
            sums=sums,
            offsets=move_by(self.offsets, packed),
            bias=move_by(self.bias, channel),
            multiplier=multiplier,
            shift=move_by(self.shift, channel),
        )

    def terms(self, first: int, lanes: int, used: int) -> ChannelTerms:
        """Emit the loads of the operands of `lanes` channels from `first` on, of which the first `used` exist."""
        b, move = self.b, first * F32_BYTES
        whole = ir.VectorType(I32, lanes)

        def load_packed(pointer: Value | None, name: str) -> Value | None:
            return pointer and b.load(address(b, pointer, move), name=name, align=4, typ=whole)

        def load_plain(pointer: Value | None, typ: ir.Type, name: str) -> Value | None:
            return pointer and load_lanes(b, address(b, pointer, move), typ, lanes, used, name)

        if self.spec.multiplier == "one":
            assert self.multiplier is not None
            factor = splat(b, b.load(self.multiplier, name="multiplier", align=4, typ=F32), lanes)
        else:
            factor = load_plain(self.multiplier, F32, "multiplier")
        share = b.mul(splat(b, self.zero, lanes), load_packed(self.sums, "sums"), name="zero_share")
        offset = load_packed(self.offsets, "offset")
        return ChannelTerms(
            share, offset, load_plain(self.bias, I32, "bias"), factor, load_plain(self.shift, F32, "shift")
        )

    def value(self, terms: ChannelTerms, total: Value, window: Value | None, residual: Value | None) -> Value:
        """Return the results of i32 sums. window: sums of the inputs; residual: f32, or None."""
        b, spec = self.b, self.spec
        total = b.sub(total, terms.zero_share)
        if terms.offset is not None:
            total = b.add(total, b.mul(terms.offset, window))
        total = total if terms.bias is None else b.add(total, terms.bias)
        if terms.multiplier is None:
            return total
        real = b.fmul(b.sitofp(total, terms.multiplier.type), terms.multiplier)
        real = real if terms.shift is None else b.fadd(real, terms.shift)
        real = real if residual is None else b.fadd(real, residual)
        return activate(b, spec.act, spec.act_args, real)

    def start(self, form: ProductForm, tile: QTile) -> list[Value]:
        """Return nothing: the sums begin with 0."""
        return []

    def tile_start(self) -> None:
        """Return None: sums in tiles begin with 0, too."""

    def store(self, form: ProductForm, tile: QTile, at: QPointers, sums: TileSums) -> None:
        """Emit the results of a tile's sums, and their stores."""
        b, lanes = self.b, form.lanes
        for v in range(tile.vectors):
            used = tile.used if v == tile.vectors - 1 else lanes
            terms = self.terms(v * lanes, lanes, used)
            for p, row in enumerate(sums.rows):
                residual = None
                if at.residual is not None:
                    there = address(b, at.residual, tile.residual_offsets[p] + v * lanes * F32_BYTES)
                    residual = load_lanes(b, there, F32, lanes, used, "residual")
                value = self.value(terms, row[v], sums.windows[p] if sums.windows else None, residual)
                store_lanes(b, value, address(b, at.out, tile.out_offsets[p] + v * lanes * F32_BYTES), lanes, used)


def integer_ending(
    b: ir.IRBuilder, spec: IntegerConv2d | IntegerDepthwise, signed: bool, packed: int
) -> tuple[IntegerEnding, Value | None]:
    """Emit the load of the zero point; return (epilogue at a kernel's first channel, pointer to its residual or None).

    signed: True if inputs are multiplied as i8. packed: number of channels of packed constants.
    """
    sums = operand(b, FIRST, "sums")
    byte = b.load(operand(b, FIRST + 1, "zero"), name="zero", align=1, typ=I8)
    stored_signed = spec.x.dtype == "i8"
    zero = b.sext(byte, I32) if stored_signed else b.zext(byte, I32)
    if signed != stored_signed:
        zero = b.add(zero, const(128 if stored_signed else -128, I32))
    rest = iter(range(FIRST + 2, FIRST + 2 + spec.ending.operands))
    bias = operand(b, next(rest), "bias") if spec.ending.bias else None
    multiplier = operand(b, next(rest), "multiplier") if spec.ending.multiplier else None
    shift = operand(b, next(rest), "shift") if spec.ending.shift else None
    offsets = address(b, sums, packed * F32_BYTES) if getattr(spec, "offsets", False) else None
    residual = operand(b, spec.residual_operand, "residual") if spec.residual is not None else None
    return IntegerEnding(b, spec.ending, zero, sums, offsets, bias, multiplier, shift), residual
