"""Specs of integer convolutions: 8-bit images whose zero point is computed at run time, and their epilogues."""

from dataclasses import dataclass

from mavcg.kernels.int8.conv_spec import EightBitConvolution
from mavcg.kernels.int8.depthwise_spec import EightBitDepthwise
from mavcg.specs.kernel import View
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
    within i8; then offset * sum(x) is added.
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
    type), then as in IntegerConv2d. narrow: all weights are within -127 .. 127.
    """

    x: View
    out: View
    residual: View | None
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    ending: IntegerSums
    narrow: bool

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
