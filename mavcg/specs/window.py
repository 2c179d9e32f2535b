"""The window of a filter: the part of an image that an output reads."""

from dataclasses import dataclass
from math import prod

from mavcg.specs.kernel_symbol import window_text

Pair = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """The window of a filter. kernel, stride, dilation: (height, width). groups: of channels."""

    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    groups: int = 1

    @property
    def taps(self) -> int:
        """Number of taps."""
        return prod(self.kernel)

    def text(self, in_channels: int | None = None) -> str:
        """Return the window in a kernel's symbol. in_channels: that an output sums; None: it has one channel."""
        sizes = self.kernel if in_channels is None else (*self.kernel, in_channels)
        return window_text(sizes, self.stride, self.dilation, self.groups)
