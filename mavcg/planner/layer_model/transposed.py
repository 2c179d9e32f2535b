"""A transposed convolution as the convolutions that it is made of."""

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True)
class Phase:
    """Along one axis: the outputs at first, first + stride, ..., a convolution of stride 1 over `length` inputs.

    outputs: how many. taps: of the kernel, those that meet them. dilation: between taps, in inputs. start: the first
    input that is read. before, after: pads.
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
    """Return the convolutions of one axis: output o sums input i times tap k wherever i * stride + k * dilation = o +
    pad.

    Outputs that agree modulo the stride meet the same taps. Those that no tap meets, and those whose every input would
    lie outside, are bias alone and left out. length, outputs: of input and output. pad: before the output.
    """
    found = []
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
        found.append(Phase(first, count, taps, spread, start, stop - start, before, after))
    return tuple(found)
