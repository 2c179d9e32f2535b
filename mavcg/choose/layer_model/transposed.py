"""Decomposition of a transposed convolution into convolutions of stride 1."""

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True)
class Phase:
    """One convolution of stride 1 along one axis; it computes the outputs at first, first + stride, ...

    outputs: number of them. taps: taps of the kernel that contribute to them. dilation: between these taps, in inputs.
    start, length: the range of inputs that is read. before, after: padding, in inputs.
    """

    first: int
    outputs: int
    taps: tuple[int, ...]
    dilation: int
    start: int
    length: int
    before: int
    after: int


def phases(length: int, outputs: int, kernel: int, stride: int, dilation: int, pad: int) -> tuple[Phase, ...]:
    """Return the convolutions that compute one axis of a transposed convolution.

    Output o sums input i times tap k wherever i * stride + k * dilation = o + pad, so outputs that agree modulo the
    stride use the same taps. Outputs to which no tap or no input contributes are the bias alone, and are left out.
    length, outputs: of the input and the output. pad: before the output.
    """
    convolutions = []
    step = stride // gcd(stride, dilation)  # between the taps of a phase
    for first in range(min(stride, outputs)):
        taps = tuple(k for k in range(kernel) if (first + pad - k * dilation) % stride == 0)
        if not taps:
            continue
        count = -(-(outputs - first) // stride)
        lowest = (first + pad - taps[-1] * dilation) // stride
        highest = (first + (count - 1) * stride + pad - taps[0] * dilation) // stride
        start, stop = max(0, lowest), min(length, highest + 1)
        if stop <= start:
            continue
        before, after = start - lowest, highest + 1 - stop
        spread = step * dilation // stride
        convolutions.append(Phase(first, count, taps, spread, start, stop - start, before, after))
    return tuple(convolutions)
