"""Specs of 8-bit depthwise convolutions, and the padding of their packed constants."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mavcg.kernels.int8.requantize import Int8Epilogue
from mavcg.specs.kernel import View
from mavcg.specs.row_kernel import RowKernel
from mavcg.specs.serialize import spec_format

Array: TypeAlias = NDArray[Any]


CHANNELS = 32  # packed constants are padded to a multiple of this, the channels of the longest vector


class EightBitDepthwise(RowKernel):
    """Base of the specs of depthwise convolutions of 8-bit images, for all epilogues.

    x, out: N, H, W, C, with equally many channels. C' is C padded to whole vectors. narrow: i16 can hold the sum of
    two products of i8 inputs. A row of work is a row of output pixels.
    """

    narrow: bool

    @property
    @abstractmethod
    def weight_bytes(self) -> int:
        """Size of one weight in bytes: 1 for i8, 2 for i16."""

    @property
    def macs(self) -> int:
        return self.read_elements

    @property
    def padded_channels(self) -> int:
        """C': channels padded to a multiple of CHANNELS."""
        return -(-self.out.shape[3] // CHANNELS) * CHANNELS

    @property
    def work(self) -> int:
        return 2 * self.read_elements


@spec_format("q_depthwise")
@dataclass(frozen=True)
class QDepthwise(EightBitDepthwise):
    """A requantized depthwise convolution of 8-bit images with equally many channels in and out.

    Operands: x, weights i8 [taps, C'], out, bias i32 [2, C'], multiplier f32 [C']. The bias includes the zero point of
    x, as in QConv2d. narrow: no weight is -128.
    """

    x: View
    out: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    epilogue: Int8Epilogue
    narrow: bool

    @property
    def family(self) -> str:
        return f"qdepthwise_{self.x.dtype}"

    @property
    def weight_bytes(self) -> int:
        return 1


def in_vectors(values: Array) -> Array:
    """Pad [rows, C] with zeros to [rows, C'], C' a multiple of CHANNELS."""
    rows, channels = values.shape
    filled = np.zeros((rows, -(-channels // CHANNELS) * CHANNELS), values.dtype)
    filled[:, :channels] = values
    return filled
