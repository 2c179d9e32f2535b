"""Spec of transposed convolutions, and the base class of their two emitters."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import operand
from mavcg.kernels.gemm.tile import F32_BYTES, reach
from mavcg.specs.kernel import Machine, View
from mavcg.specs.row_kernel import RowKernel
from mavcg.specs.serialize import spec_format
from mavcg.specs.window import Pair, Window

Value: TypeAlias = ir.Value


@spec_format("conv_transpose2d")
@dataclass(frozen=True)
class ConvTranspose2d(RowKernel):
    """act(bias + transposed convolution) of f32 images.

    x, out: N, H, W, C. kernel, stride, dilation: (height, width). pads: (top, left); bottom and right follow from the
    size of out. packed: weights are in the order of tile.packed_phases, else [O, KH, KW, C/groups] as in the graph.
    Operands: x, weights, out, bias?. A row of work is a row of output pixels.
    """

    x: View
    out: View
    kernel: Pair
    stride: Pair
    dilation: Pair
    pads: Pair
    groups: int
    lanes: int
    bias: bool
    packed: bool
    act: str
    act_args: tuple[float, ...]

    @property
    def family(self) -> str:
        return "conv_transpose2d_f32" if self.packed else "conv_transpose2d_f32_unpacked"

    @property
    def window(self) -> Window:
        return replace(super().window, groups=self.groups)

    @property
    def summed_channels(self) -> int:
        return self.x.shape[3] // self.groups

    @property
    def macs(self) -> int:
        return self.work // 2

    @property
    def panel_channels(self) -> int:
        return self.lanes if self.packed else 0

    @property
    def taps(self) -> Pair:
        """(rows, columns) of taps of one phase, including absent ones: pixels of the image that a window spans."""
        down, across = (reach(self.kernel[i], self.stride[i], self.dilation[i]) for i in (0, 1))
        return down, across

    @property
    def first_column(self) -> int:
        """Image column that the scratch begins with; 0 or less unless large pads crop the image."""
        return self.pads[1] // self.stride[1] - self.taps[1] + 1

    @property
    def columns(self) -> int:
        """Number of columns of the scratch."""
        return (self.out.shape[2] - 1 + self.pads[1]) // self.stride[1] + 1 - self.first_column

    @property
    def scratch_bytes(self) -> int:
        return self.taps[0] * self.columns * self.x.shape[3] * F32_BYTES if self.packed else 0

    @property
    def work(self) -> int:
        taps = self.taps if self.packed else self.kernel
        return 2 * self.out.elements * taps[0] * taps[1] * self.summed_channels


class RowsOfPixels(ABC):
    """Base of the emitters of a transposed convolution: the function's operands and sizes."""

    def __init__(self, b: ir.IRBuilder, spec: ConvTranspose2d, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        self.x, self.w, self.out = (operand(b, i, name) for i, name in enumerate(("x", "weights", "out")))
        self.bias = operand(b, 3, "bias") if spec.bias else None
        self.scratch = b.function.args[3]
        self.in_ch, self.out_ch = spec.x.shape[3] // spec.groups, spec.out.shape[3] // spec.groups

    @abstractmethod
    def row(self, x: Value, y: Value, out: Value) -> None:
        """Emit one row of output. x: pointer to the image. y: number of the row plus the top pad. out: its first
        pixel."""
