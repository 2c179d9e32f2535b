"""Compute the bytes that a part of a kernel's work accesses, for kernels that process their tensors row by row.

A kernel's rows are grouped into units, in order. Each unit accesses an interval of bytes of an operand, and the
interval moves by a constant number of bytes from unit to unit. A kernel without this property has a single unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mavcg.kernels.builder.nest import Nest
from mavcg.kernels.conv.depthwise import Depthwise
from mavcg.kernels.conv.spec import Convolution
from mavcg.kernels.int8.specs import EightBitDepthwise
from mavcg.kernels.tensor.copies import CopySpec
from mavcg.kernels.tensor.elementwise import ElementwiseSpec
from mavcg.kernels.tensor.pad import PadBorder
from mavcg.kernels.tensor.pool import Pool
from mavcg.kernels.tensor.transpose import TransposeSpec
from mavcg.specs.kernel import KernelSpec, View


@dataclass(frozen=True)
class Interval:
    """The bytes that unit u accesses: `extent` bytes from the operand's pointer + begin + u * step.

    Bytes before the pointer do not belong to the tensor.
    """

    begin: int
    step: int
    extent: int


@dataclass(frozen=True)
class UnitAccess:
    """A kernel's work as `units` units of `rows_per_unit` rows; the last may have fewer rows.

    intervals: (number of an operand, the interval that a unit accesses), for all operands except constants.
    """

    units: int
    rows_per_unit: int
    intervals: tuple[tuple[int, Interval], ...]


def unit_access(spec: KernelSpec) -> UnitAccess | None:
    """Return a kernel's accesses by units; None if its rows do not process its tensors in order."""
    match spec:
        case Convolution() | Depthwise() | EightBitDepthwise():
            return _convolution(spec)
        case Pool():
            return _pool(spec)
        case PadBorder():
            return UnitAccess(spec.rows, 1, ((0, _index_along(spec.out, spec.axis)),)) if spec.rows else None
        case ElementwiseSpec():
            items = [View(dtype, (1,), (1,)).item_bytes for dtype in spec.dtypes]
            return _nest(spec.nest, spec.rows, items)
        case TransposeSpec():
            outermost = bool(spec.outer) and spec.outer[0] == 0
            return _outermost(spec.nest, spec.rows, [spec.item_bytes] * 2) if outermost else None
        case CopySpec():
            access = _nest(spec.nest, spec.rows, [spec.item_bytes] * 2)
            offsets = spec.source_offset * spec.item_bytes, spec.target_offset * spec.item_bytes
            return access and _move_access(access, offsets)
    return None


def _rows_of(view: View, rows: int = 1, stride: int = 1, before: int = 0) -> Interval:
    """Return the interval of `rows` rows of an image: unit u accesses rows from u * stride - before on."""
    _, _, width, channels = view.shape
    _, row, column, channel = view.strides
    line = (width - 1) * column + (channels - 1) * channel + 1
    item = view.item_bytes
    return Interval(-before * row * item, stride * row * item, ((rows - 1) * row + line) * item)


def _index_along(view: View, axis: int) -> Interval:
    """Return the interval of all elements at one index of an axis, one unit per index; earlier axes have length 1."""
    last = sum((n - 1) * stride for n, stride in zip(view.shape[axis + 1 :], view.strides[axis + 1 :], strict=True))
    return Interval(0, view.strides[axis] * view.item_bytes, (last + 1) * view.item_bytes)


def _convolution(spec: Convolution | Depthwise | EightBitDepthwise) -> UnitAccess | None:
    if spec.by_channels or spec.out.shape[0] != 1 or spec.rows != spec.out.shape[1]:
        return None
    window = spec.dilation[0] * (spec.kernel[0] - 1) + 1
    intervals = [(0, _rows_of(spec.x, window, spec.stride[0])), (2, _rows_of(spec.out))]
    residual: View | None = getattr(spec, "residual", None)
    if residual is not None:
        number = getattr(spec, "residual_operand", 3 + bool(getattr(spec, "bias", False)))
        intervals.append((number, _rows_of(residual)))
    return UnitAccess(spec.rows, 1, tuple(intervals))


def _pool(spec: Pool) -> UnitAccess | None:
    if spec.out.shape[0] != 1 or spec.rows != spec.out.shape[1]:
        return None
    window = spec.dilation[0] * (spec.kernel[0] - 1) + 1
    read = _rows_of(spec.x, window, spec.stride[0], spec.pads[0])
    return UnitAccess(spec.rows, 1, ((0, read), (1, _rows_of(spec.out))))


def _nest(nest: Nest, rows: int, items: Sequence[int]) -> UnitAccess | None:
    at, block = nest.row_split
    if at:
        return _outermost(nest, rows, items)
    intervals = []
    for strides, item in zip(nest.strides, items, strict=True):
        extent = sum((n - 1) * s for n, s in zip((block, *nest.shape[1:]), strides, strict=True)) + 1
        intervals.append(Interval(0, block * strides[0] * item, extent * item))
    return _moving_up(nest, UnitAccess(rows, 1, tuple(enumerate(intervals))))


def _outermost(nest: Nest, rows: int, items: Sequence[int]) -> UnitAccess | None:
    """Return the accesses of a kernel whose rows of work divide the outermost dimension of its loop nest."""
    if not nest.shape[0] or rows % nest.shape[0]:
        return None
    intervals = []
    for strides, item in zip(nest.strides, items, strict=True):
        extent = sum((n - 1) * s for n, s in zip(nest.shape[1:], strides[1:], strict=True)) + 1
        intervals.append(Interval(0, strides[0] * item, extent * item))
    return _moving_up(nest, UnitAccess(nest.shape[0], rows // nest.shape[0], tuple(enumerate(intervals))))


def _move_access(access: UnitAccess, offsets: Sequence[int]) -> UnitAccess:
    """Return the accesses with each operand's intervals moved by an offset in bytes."""
    moved = ((n, replace(interval, begin=interval.begin + offsets[n])) for n, interval in access.intervals)
    return replace(access, intervals=tuple(moved))


def _moving_up(nest: Nest, access: UnitAccess) -> UnitAccess | None:
    """Return the accesses; None if an operand has a negative stride."""
    return access if all(stride >= 0 for strides in nest.strides for stride in strides) else None
