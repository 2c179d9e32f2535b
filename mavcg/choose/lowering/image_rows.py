"""Make rows of work equal to rows of the image in lowered 1x1 convolutions, for programs computed by parts of rows."""

from collections.abc import Container
from dataclasses import replace

from mavcg.choose.lowering.lower import LoweredGraph, LoweredStep
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.int8.integer_sums import IntegerConv2d
from mavcg.kernels.int8.specs import QConv2d
from mavcg.specs.kernel import KernelSpec


def with_image_rows(lowered: LoweredGraph, numbers: Container[int] | None = None) -> LoweredGraph:
    """Return the lowered graph in which each row of work of a 1x1 convolution is a row of the image.

    Lowering may have cut the pixels of a 1x1 convolution into other rows. Results are bit-identical, because an
    output's sum has the same terms in the same order. numbers: numbers of the steps to change; None for all.
    """
    steps = tuple(
        _by_image_rows(step, lowered) if numbers is None or number in numbers else step
        for number, step in enumerate(lowered.steps)
    )
    renamed: dict[KernelSpec, dict[KernelSpec, None]] = {}
    for old, new in zip(lowered.steps, steps, strict=True):
        renamed.setdefault(old.spec, {})[new.spec] = None
    specs = dict.fromkeys(new for old in lowered.specs for new in renamed.get(old, (old,)))
    return replace(lowered, steps=steps, specs=tuple(specs))


def _by_image_rows(step: LoweredStep, lowered: LoweredGraph) -> LoweredStep:
    spec = step.spec
    if not isinstance(spec, Conv2d | QConv2d | IntegerConv2d) or spec.kernel != (1, 1) or spec.stride != (1, 1):
        return step
    if not step.operands[0].tensor:  # the input is patches of im2row in a workspace, not an image
        return step
    x, out = (lowered.storage.view(step.operands[number].tensor) for number in (0, 2))
    if len(x.shape) != 4 or len(out.shape) != 4 or x.shape[:3] != out.shape[:3] or out.shape == spec.out.shape:
        return step
    if spec.residual is None:
        return replace(step, spec=replace(spec, x=x, out=out))
    residual = lowered.storage.view(step.operands[-1].tensor)
    return replace(step, spec=replace(spec, x=x, out=out, residual=residual))
