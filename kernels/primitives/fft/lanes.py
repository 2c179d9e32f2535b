"""Fourier transforms of real numbers, one in each lane of a vector, and copies of lines of pixels into such vectors.

Transforms are straight-line code. The length is n = 2^i. Coefficients 0 to n / 2 are kept; the others are their
conjugates and are never computed. A transform combines those of the even and of the odd numbers (Cooley and Tukey,
1965). Copies are between lines of an image in any layout and a scratch of vectors of channels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import F32, address, const, fma, repeat, scale_index
from mavcg.kernels.builder.float_math import like
from mavcg.kernels.builder.lanes import load_vector, store_vector
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.kernels.primitives.common import Image, lanes_of, load_partial
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES, Layout

Value: TypeAlias = ir.Value
# (real part, imaginary part); the imaginary part of coefficients 0 and n / 2 is 0, given as None.
Complex = tuple[Value, Value | None]


def forward(b: ir.IRBuilder, x: Sequence[Value]) -> list[Complex]:
    """Return the coefficients X[f] = sum over i of x[i] * exp(-2 pi j f i / n), f = 0 to n / 2.

    x: n values, n a power of two.
    """
    n = len(x)
    if n == 1:
        return [(x[0], None)]
    even, odd = forward(b, x[0::2]), forward(b, x[1::2])
    half = n // 2
    spectrum: list[Complex] = [(x[0], None)] * (half + 1)
    spectrum[0] = b.fadd(even[0][0], odd[0][0]), None
    spectrum[half] = b.fsub(even[0][0], odd[0][0]), None
    for f in range(1, (half + 1) // 2):
        (e_re, e_im), (t_re, t_im) = _both(even[f]), _rotate(b, _both(odd[f]), -f / n)
        spectrum[f] = b.fadd(e_re, t_re), b.fadd(e_im, t_im)
        spectrum[half - f] = b.fsub(e_re, t_re), b.fsub(t_im, e_im)
    if half % 2 == 0:  # a factor of -j
        spectrum[half // 2] = even[half // 2][0], b.fneg(odd[half // 2][0])
    return spectrum


def inverse(b: ir.IRBuilder, coefficients: Sequence[Complex]) -> list[Value]:
    """Return n times the n real numbers whose coefficients 0 to n / 2 are given."""
    half = len(coefficients) - 1
    (first, _), (last, _) = coefficients[0], coefficients[-1]
    if half == 0:
        return [first]
    even: list[Complex] = [(b.fadd(first, last), None)]
    odd: list[Complex] = [(b.fsub(first, last), None)]
    for f in range(1, (half + 1) // 2):
        (a_re, a_im), (c_re, c_im) = _both(coefficients[f]), _both(coefficients[half - f])
        even.append((b.fadd(a_re, c_re), b.fsub(a_im, c_im)))
        odd.append(_rotate(b, (b.fsub(a_re, c_re), b.fadd(a_im, c_im)), f / (2 * half)))
    if half % 2 == 0:
        re, im = _both(coefficients[half // 2])
        even.append((b.fmul(re, like(re, 2.0)), None))
        odd.append((b.fmul(im, like(im, -2.0)), None))
    evens, odds = inverse(b, even), inverse(b, odd)
    return [value for pair in zip(evens, odds, strict=True) for value in pair]


def _both(value: Complex) -> tuple[Value, Value]:
    re, im = value
    assert im is not None
    return re, im


def _rotate(b: ir.IRBuilder, value: tuple[Value, Value], fraction: float) -> tuple[Value, Value]:
    """Return value * exp(2 pi j fraction)."""
    (re, im), c, s = value, cos(2 * pi * fraction), sin(2 * pi * fraction)
    return (
        fma(b, im, like(im, -s), b.fmul(re, like(re, c))),
        fma(b, re, like(re, s), b.fmul(im, like(im, c))),
    )


@dataclass(frozen=True)
class ChannelLanes:
    """Emitter of copies of a group's channels between a line of pixels of an image and a scratch of vectors.

    If channels are contiguous in the image, a pixel's vector is moved at once, else lane by lane.
    """

    b: ir.IRBuilder
    machine: Machine
    image: Image

    @property
    def lanes(self) -> int:
        """Number of lanes of a vector, which lie in one block in CHWc."""
        return lanes_of(self.machine, self.image.block) if self.blocked else lanes_f32(self.machine)

    @property
    def blocked(self) -> bool:
        """True for CHWc."""
        return self.image.layout is Layout.CHWC

    @property
    def dense(self) -> bool:
        """True if channels are contiguous in memory."""
        return self.image.channel_step == 1

    def over_vectors(self, channels: int, groups: int, body: Callable[[Value, Value, int], None]) -> None:
        """Emit body(group, first channel in the group, used lanes) for all vectors of all groups' channels.

        In CHWc also for vectors that only pad a block, with 0 used lanes.
        """
        b, lanes = self.b, self.lanes
        whole, rest = divmod(channels, lanes)
        vectors = (
            -(-channels // self.image.block) * self.image.block // lanes if self.blocked else -(-channels // lanes)
        )

        def group(index: Value) -> None:
            repeat(b, 0, whole * lanes, lambda channel: body(index, channel, lanes), "channel", lanes)
            for number in range(whole, vectors):
                body(index, const(number * lanes), rest if number == whole else 0)

        if groups == 1:
            group(const(0))
        else:
            repeat(b, 0, groups, group, "group")

    def vector(self, base: Value, index: Value) -> Value:
        """Emit the address of a vector of a scratch."""
        return address(self.b, base, scale_index(self.b, index, self.lanes * F32_BYTES))

    def pixel(self, line: Value, index: Value) -> Value:
        """Emit the address of a pixel of a line."""
        return address(self.b, line, scale_index(self.b, index, self.image.column_step * F32_BYTES))

    def gather(self, line: Value, scratch: Value, first: Value, end: Value, used: int) -> None:
        """Emit the copy of pixels first .. end - 1 into the scratch vectors of the same numbers."""
        b = self.b
        if self.dense:

            def pixel(i: Value) -> None:
                value = load_partial(b, self.machine, self.pixel(line, i), self.lanes, used, "pixel")
                store_vector(b, value, self.vector(scratch, i))

            repeat(b, first, end, pixel, "pixel")
            return

        def element(source: Value, target: Value, i: Value) -> None:
            value = load_vector(b, self.pixel(source, i), F32, name="pixel")
            store_vector(b, value, self.vector(target, i))

        self.by_lane(line, scratch, first, end, used, element)

    def by_lane(
        self,
        line: Value,
        scratch: Value,
        first: Value,
        end: Value,
        used: int,
        body: Callable[[Value, Value, Value], None],
    ) -> None:
        """Emit body(pointer to a lane's channel, pointer to the lane in the scratch, pixel) for pixels first .. end -
        1."""
        b = self.b

        def lane(index: Value) -> None:
            channel_line = address(b, line, scale_index(b, index, self.image.channel_step * F32_BYTES))
            scratch_lane = address(b, scratch, scale_index(b, index, F32_BYTES))
            repeat(b, first, end, lambda i: body(channel_line, scratch_lane, i), "pixel")

        repeat(b, 0, used, lane, "lane")
