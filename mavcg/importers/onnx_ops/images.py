"""Images in ONNX: N, C and one or two spatial dimensions, which become N, H, W, C; a single one becomes W with H =
1."""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.errors import MavcgError
from mavcg.graph.ops.spatial import same_pads
from mavcg.importers.onnx_ops.call import OnnxCall
from mavcg.importers.value import Value
from mavcg.importers.windows import LARGEST_STEP, LARGEST_WINDOW


def spatial_rank(call: OnnxCall, x: Value) -> int:
    """Return the number of spatial dimensions, 1 or 2. Raises: UnsupportedOp for other images."""
    if x.rank < 3:
        raise call.fail(f"its input is {x.type}; batch, channels and one or two spatial dimensions are needed")
    if x.rank > 4:
        raise call.unsupported(f"{x.rank - 2} spatial dimensions ({x.type})", "1 or 2")
    return x.rank - 2


def to_nhwc(call: OnnxCall, x: Value) -> Value:
    """Return images N, C, W or N, C, H, W transposed to N, H, W, C."""
    if x.rank == 3:
        n, c, w = x.shape
        x = call.reshape(x, (n, c, 1, w))
    return call.transpose(x, (0, 2, 3, 1))


def from_nhwc(call: OnnxCall, x: Value, spatial: int) -> Value:
    """Return images N, H, W, C transposed to N, C, W (one spatial dimension) or N, C, H, W (two)."""
    x = call.transpose(x, (0, 3, 1, 2))
    if spatial == 1:
        n, c, _, w = x.shape
        x = call.reshape(x, (n, c, w))
    return x


@dataclass(frozen=True)
class PaddedWindow:
    """A window over H and W. pads: (top, left, bottom, right); given_pads: without ceil mode's additional pads."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int, int, int]
    given_pads: tuple[int, int, int, int]

    @property
    def steps(self) -> dict[str, tuple[int, ...]]:
        """Attributes stride, dilation and pads of an operator of graphs."""
        return {"stride": self.stride, "dilation": self.dilation, "pads": self.pads}


def pair(values: Sequence[int], along_h: int) -> tuple[int, int]:
    """Return (value along H, value along W); with one spatial dimension the first is `along_h`."""
    return (along_h, values[0]) if len(values) == 1 else (values[0], values[1])


def window(call: OnnxCall, image: Sequence[int], kernel: Sequence[int], ceil: bool = False) -> PaddedWindow:
    """Return the window of a convolution or pooling over one or two dimensions. Arguments, Raises: as of windows."""
    view = windows(call, image, kernel, ceil)
    start = pair(view.starts, 0)
    return PaddedWindow(
        pair(view.kernel, 1),
        pair(view.stride, 1),
        pair(view.dilation, 1),
        (*start, *pair(view.ends, 0)),
        (*start, *pair(view.given_ends, 0)),
    )


def stride_and_dilation(call: OnnxCall, kernel: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the attributes strides and dilations for a kernel. Raises: MavcgError if one, or the kernel, is not within
    1 .. LARGEST_STEP."""
    stride, dilation = (call.attr_ints(name, (1,) * len(kernel), len(kernel)) for name in ("strides", "dilations"))
    for attribute, values in (("kernel_shape", kernel), ("strides", stride), ("dilations", dilation)):
        if any(not 1 <= v <= LARGEST_STEP for v in values):
            raise call.fail(f"{attribute} {list(values)}; each must be from 1 to {LARGEST_STEP}")
    return stride, dilation


def unknown_padding(call: OnnxCall, mode: str) -> MavcgError:
    """Return the error for another auto_pad than the standard's."""
    return call.fail(f"auto_pad {mode!r}; there are NOTSET, VALID, SAME_UPPER, SAME_LOWER")


@dataclass(frozen=True)
class Windows:
    """Windows over any number of dimensions, entries by dimension.

    starts, ends: pads. given_ends: without ceil mode's additional pads. counts: number of windows.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    given_ends: tuple[int, ...]
    counts: tuple[int, ...]


def windows(call: OnnxCall, image: Sequence[int], kernel: Sequence[int], ceil: bool = False) -> Windows:
    """Return the windows of a convolution or pooling, their pads made explicit.

    image, kernel: spatial dimensions. ceil: a last window that extends beyond the end counts, unless it begins there;
    so does the only one, where the image has fewer than stride elements too few for it.
    Raises: MavcgError for incompatible lengths.
    """
    spatial = len(image)
    if len(kernel) != spatial:
        raise call.fail(f"a kernel with {len(kernel)} dimensions for an image with {spatial}")
    stride, dilation = stride_and_dilation(call, kernel)
    mode = call.attr_str("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        given = call.attr_ints("pads", (0,) * (2 * spatial), length=2 * spatial)
    elif mode == "VALID":
        given = (0,) * (2 * spatial)
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        less, more = same_pads(image, kernel, stride, dilation)
        given = (*less, *more) if mode == "SAME_UPPER" else (*more, *less)
    else:
        raise unknown_padding(call, mode)
    if any(not 0 <= p <= LARGEST_STEP for p in given):
        raise call.unsupported(f"pads {list(given)}", f"0 to {LARGEST_STEP}")
    ends, counts = list(given[spatial:]), []
    for i in range(spatial):
        span = dilation[i] * (kernel[i] - 1) + 1
        room = image[i] + given[i] + given[spatial + i] - span
        if room < 0 and not (ceil and room > -stride[i]):
            raise call.fail(
                f"a window of {span} does not fit into {image[i]} with pads {given[i]} and {given[spatial + i]}"
            )
        count = room // stride[i] + 1
        if ceil and room % stride[i] and count * stride[i] < image[i] + given[i]:
            count += 1
            ends[i] = (count - 1) * stride[i] + span - image[i] - given[i]
        if count * kernel[i] > LARGEST_WINDOW:
            raise call.fail(f"{count} windows of {kernel[i]}; at most {LARGEST_WINDOW} positions in all")
        counts.append(count)
    return Windows(tuple(kernel), stride, dilation, given[:spatial], tuple(ends), given[spatial:], tuple(counts))
