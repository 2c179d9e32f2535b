"""A layer as the planner sees it: a convolution's six loops, and how its tensors lie about them."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ItemBytes:
    """Bytes of an element of each operand; psum: of a partial sum that is written out before it is complete."""

    input: int = 4
    weight: int = 4
    output: int = 4
    psum: int = 4


@dataclass(frozen=True)
class ConvLayer:
    """A convolution, or a fully connected layer as one with 1x1 maps and kernel (paper, 3.1).

    oc, ic: channels of one group. ih, iw: of the input without padding. stride, dilation: down, across. pads: rows
    above, columns left, rows below, columns right. A group is a convolution by itself: every figure is of all groups.
    """

    name: str
    oc: int
    ic: int
    oh: int
    ow: int
    kh: int
    kw: int
    ih: int
    iw: int
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    items: ItemBytes = ItemBytes()

    @property
    def key(self) -> "ConvLayer":
        """The same for all layers that can share a schedule: all tensor parameters, no name (paper, 4.2)."""
        return replace(self, name="")

    @property
    def macs(self) -> int:
        """Multiply-accumulates; padding counts as any other input, as in the paper."""
        return self.groups * self.oc * self.ic * self.oh * self.ow * self.kh * self.kw

    @property
    def input_elements(self) -> int:
        """Elements of the input tensor, without padding."""
        return self.groups * self.ic * self.ih * self.iw

    @property
    def weight_elements(self) -> int:
        """Elements of the weights, without bias."""
        return self.groups * self.oc * self.ic * self.kh * self.kw

    @property
    def output_elements(self) -> int:
        """Elements of the output tensor."""
        return self.groups * self.oc * self.oh * self.ow

    @property
    def loops(self) -> dict[str, int]:
        """Trip counts of the six loops of a group, by the names of accelerator.DIMENSIONS."""
        return {"OC": self.oc, "IC": self.ic, "OH": self.oh, "OW": self.ow, "KH": self.kh, "KW": self.kw}

    def input_rows(self, out_rows: int) -> int:
        """Return the number of rows of padded input that so many neighbouring rows of output read: with halo."""
        return (out_rows - 1) * self.stride[0] + (self.kh - 1) * self.dilation[0] + 1
