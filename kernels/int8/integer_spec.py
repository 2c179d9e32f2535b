"""Specs of integer convolutions: 8-bit images whose zero point is known when the model runs, and what becomes of the
sums."""

from dataclasses import dataclass

from mavcg.kernels.int8.conv_spec import EightBitConvolution
from mavcg.kernels.int8.depthwise import EightBitDepthwise
from mavcg.specs.kernel import View
from mavcg.specs.serialize import spec_format


@spec_format("integer_sums")
@dataclass(frozen=True)
class IntegerSums:
    """The end of integer sums: act(f32(sum + bias) * multiplier + shift + residual), or sum + bias itself.

    bias: True if an i32 a channel is added. multiplier: "" for sums as they are, "one" for one f32, "channels" for one
    a channel. shift: True if an f32 a channel is added. Whether there is a residual says the kernel's spec.
    """

    bias: bool
    multiplier: str
    shift: bool
    act: str
    act_args: tuple[float, ...]

    @property
    def operands(self) -> int:
        """Number of operands that the ending reads, but for a residual."""
        return self.bias + bool(self.multiplier) + self.shift


@spec_format("integer_conv2d")
@dataclass(frozen=True)
class IntegerConv2d(EightBitConvolution):
    """Sums of (x - zero) * (w + offset) over 8-bit images, and an ending.

    x, out, residual: N, H, W, C. Operands: x, packed weights i8 as QConv2d has them, out, constants i32, zero (of x's
    type), then bias i32 [C], multiplier f32, shift f32 [C] and residual as far as there are any. constants: [groups *
    panels * lanes], sums of the real weights; where there are offsets as many of these; at the end 16 words of bytes
    128. offsets: True if weights are not 8 bits around zero: then offset * sum(x) is added.
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
        """Number of the residual's operand."""
        return 5 + self.ending.operands


@spec_format("integer_depthwise")
@dataclass(frozen=True)
class IntegerDepthwise(EightBitDepthwise):
    """Sums of (x - zero) * w over 8-bit images, of each channel by itself, and an ending.

    x, out, residual: N, H, W, C. Operands: x, weights i16 [taps, C'], out, sums of weights i32 [C'], zero (of x's
    type), then as in IntegerConv2d. narrow: no weight is further from 0 than 127.
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
        """Number of the residual's operand."""
        return 5 + self.ending.operands
