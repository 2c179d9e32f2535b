"""Direct convolutions: the spec that all their primitives share; its code is in direct_loops.

Vectors run along the output channels or along the columns of the output.
"""

from dataclasses import dataclass
from enum import StrEnum

from mavcg.kernel import KernelSpec
from mavcg.kernels.primitives.common import Image
from mavcg.kernels.primitives.terms import Order
from mavcg.primitive import F32_BYTES, Epilogue


class Along(StrEnum):
    """What the lanes of a vector are."""

    CHANNELS = "channels"
    COLUMNS = "columns"


class Held(StrEnum):
    """Which outputs a tile may hold: several of both kinds, one scalar's with many vectors, or one vector's."""

    BOTH = "both"
    ONE_SCALAR = "one scalar"
    ONE_VECTOR = "one vector"


@dataclass(frozen=True)
class DirectConv(KernelSpec):
    """act(bias + convolution + residual) of f32 images; operands: x, weights, out, bias?, residual?.

    x: with its border; in phases by the stride where vectors run along columns. weights: packed in panels of `panel`
    channels, [groups, panels, terms, panel], the terms in `order`. chunk: output channels of a row of work, whole
    panels or a group's all; a row is a chunk of a row of outputs. rows_outer: whether a row of outputs' chunks follow
    each other, else a chunk's rows. slack: a vector's length may be read past the end of x.
    """

    x: Image
    out: Image
    kernel: int
    stride: int
    dilation: int
    groups: int
    epilogue: Epilogue
    order: Order
    along: Along
    held: Held
    panel: int
    chunk: int
    rows_outer: bool
    slack: bool
    long_unroll: bool = False

    @property
    def family(self) -> str:
        return f"direct_{self.along}_f32"

    @property
    def in_channels(self) -> int:
        """Of a group."""
        return self.x.channels // self.groups

    @property
    def out_channels(self) -> int:
        """Of a group."""
        return self.out.channels // self.groups

    @property
    def chunks(self) -> int:
        """Of a group."""
        return -(-self.out_channels // self.chunk)

    @property
    def terms(self) -> int:
        """Of each sum."""
        return self.in_channels * self.kernel * self.kernel

    @property
    def panel_bytes(self) -> int:
        """Of packed weights."""
        return self.terms * self.panel * F32_BYTES

    @property
    def group_bytes(self) -> int:
        """Of a group's packed weights."""
        return -(-self.out_channels // self.panel) * self.panel_bytes

    @property
    def rows(self) -> int:
        return self.groups * self.chunks * self.out.height

    @property
    def work(self) -> int:
        return 2 * self.out.channels * self.out.height * self.out.width * self.terms
