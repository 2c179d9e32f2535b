"""Convolutions, products and softmaxes in rows of work by which kernels of several lengths differ in one count only."""

from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeGuard

from mavcg.choose.lengths.first_rows import MATRIX_STRIDES
from mavcg.choose.lengths.readable_numbers import VIEWS
from mavcg.choose.lowering.lower import LoweredStep
from mavcg.kernels.builder.nest import collapse
from mavcg.kernels.conv.matmul import as_image
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.conv.unpacked_matmul import MatMul
from mavcg.kernels.int8.integer_sums import IntegerConv2d, IntegerDepthwise
from mavcg.kernels.int8.matmul import QMatMul
from mavcg.kernels.int8.specs import QConv2d, QDepthwise
from mavcg.kernels.tensor.softmax import Softmax
from mavcg.memory.locations import Storage
from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.row_kernel import RowKernel, transpose_image


def in_pixels(step: LoweredStep, storage: Storage) -> LoweredStep:
    """Return the step of a product in the rows of its tensors, each of single pixels where a tensor has one row.

    Lowering cut the pixels of a product into rows of a length that depends on their number.
    """
    spec = step.spec
    if isinstance(spec, QDepthwise | IntegerDepthwise | Conv2d | QConv2d | IntegerConv2d):
        spec = replace(spec, free_rows=True)
    if not _is_pointwise(spec):
        if isinstance(spec, RowKernel) and spec.x.shape[:2] == spec.out.shape[:2] == (spec.kernel[0], 1):
            spec = transpose_image(spec)
        return replace(step, spec=spec)
    if not step.operands[0].tensor:
        return replace(step, spec=spec)
    numbers = (0, 2, len(step.operands) - 1) if spec.residual is not None else (0, 2)
    views = [storage.view(step.operands[number].tensor) for number in numbers]
    images = [view if len(view.shape) == 4 else as_image(view) for view in views]
    pixels = [_pixel_rows(image) for image in images if image is not None]
    if len(pixels) != len(views):
        return replace(step, spec=spec)
    x, out, *rest = pixels
    return replace(step, spec=replace(spec, x=x, out=out, residual=rest[0] if rest else None))


def in_images(step: LoweredStep, storage: Storage) -> LoweredStep:
    """Return the step of a convolution with the images that its tensors are, whatever rows lowering cut them into."""
    if not isinstance(step.spec, Conv2d | QConv2d | IntegerConv2d):
        return step
    numbers = {name: number for name, number in VIEWS[type(step.spec)].items() if getattr(step.spec, name) is not None}
    views = {name: storage.view(step.operands[number].tensor) for name, number in numbers.items()}
    if any(len(view.shape) != 4 for view in views.values()):
        return step
    return replace(step, spec=replace(step.spec, free_rows=True, **views))  # type: ignore[arg-type]


def in_one_column(step: LoweredStep, storage: Storage) -> LoweredStep:
    """Return the step of a product with all rows of its tensors below each other, if they are evenly spaced.

    The batch of products of two matrices, and the loops around a softmax, have as few dimensions as possible.
    """
    step = in_pixels(step, storage)
    match spec := step.spec:
        case MatMul() | QMatMul():
            return replace(step, spec=_with_one_batch(spec))
        case Softmax():
            return replace(step, spec=replace(spec, outer=collapse(spec.outer.shape, spec.outer.strides)))
    if not _is_pointwise(spec):
        return step
    x, out, residual = (image and _column(image) for image in (spec.x, spec.out, spec.residual))
    if x is None or out is None or (residual is None) != (spec.residual is None):
        return step
    return replace(step, spec=replace(spec, x=x, out=out, residual=residual))


def _is_pointwise(spec: KernelSpec) -> TypeGuard[Conv2d | QConv2d | IntegerConv2d]:
    """Return True for a product of single pixels."""
    return isinstance(spec, Conv2d | QConv2d | IntegerConv2d) and spec.kernel == spec.stride == (1, 1)


def _with_one_batch(spec: MatMul | QMatMul) -> MatMul | QMatMul:
    """Return the spec of a product with neighbouring dimensions of its batch as one, where they are evenly spaced."""
    names = [name for name in MATRIX_STRIDES if getattr(spec, name, None) is not None]
    strides = [getattr(spec, name) for name in names]
    nest = collapse(spec.batch, [each[:-2] for each in strides])
    batch = nest.shape if spec.batch else ()
    merged: dict[str, Any] = {
        name: (*outer[: len(batch)], *each[-2:]) for name, each, outer in zip(names, strides, nest.strides, strict=True)
    }
    return replace(spec, batch=batch, **merged)


def _column(image: View) -> View | None:
    """Return an image as one of a single column; None if its pixels are not evenly spaced."""
    n, h, w, channels = image.shape
    loops = [(count, stride) for count, stride in zip((n, h, w), image.strides[:3], strict=True) if count > 1]
    if any(outer != inner * count for (_, outer), (count, inner) in pairwise(loops)):
        return None
    step = loops[-1][1] if loops else image.strides[2]
    return View(image.dtype, (1, n * h * w, 1, channels), (0, step, 0, image.strides[3]))


def _pixel_rows(image: View) -> View:
    """Return an image of a single row as one of a single column; another image as it is."""
    n, h, w, channels = image.shape
    if n * h > 1:
        return image
    return View(image.dtype, (1, w, 1, channels), (0, image.strides[2], 0, image.strides[3]))
