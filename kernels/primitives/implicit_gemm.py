"""Primitives of the engine's implicit GEMM (kernels/conv/conv2d.py): sums run over the input in place, without a copy.

Output channels are contiguous, as in HWC. They are contiguous within a CHWc block too: each block is computed by a
convolution of its own with the block's weights and outputs.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from mavcg.kernels.conv.conv2d import PIECE_PIXELS
from mavcg.kernels.conv.depthwise import MOST_TAPS, Depthwise
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.gemm.tile import LINE_CHANNELS, pack, pack_depthwise
from mavcg.kernels.primitives.border import BorderedInput, input_with_border
from mavcg.kernels.primitives.common import MOST_BLOCK, epilogue_operand_places, panels_shape
from mavcg.specs.kernel import Array, KernelSpec, View
from mavcg.specs.primitive import (
    F32_BYTES,
    Epilogue,
    Layout,
    Lowering,
    Primitive,
    Scenario,
    Stage,
    StageOperand,
    image_view,
)
from mavcg.specs.row_kernel import in_pieces


@dataclass(frozen=True)
class Implicit(Primitive):
    """The implicit GEMM from HWC to HWC, or to CHWc with a stage for each block."""

    @property
    def family(self) -> str:
        return "implicit"

    @property
    def stem(self) -> str:
        return "implicit_gemm"

    def computes(self, scenario: Scenario) -> bool:
        # Nothing would write the zeros that pad a partial block.
        return self.layout_out is Layout.HWC or (scenario.groups == 1 and scenario.m % MOST_BLOCK == 0)

    @property
    def batch_at_once(self) -> bool:
        return self.layout_out is Layout.HWC

    def workspace_bytes(self, scenario: Scenario) -> int:
        s = scenario if self.batch_at_once else scenario.image
        return input_with_border(s, self.layout_in, 1).workspace_bytes

    def lower(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        if self.batch_at_once:
            return self.lower_image(scenario, weights, epilogue, block)
        return super().lower(scenario, weights, epilogue, block)

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        """Return the kernels of one image; of a whole batch if the outputs are in HWC.

        weights: [m, c / groups, k, k].
        """
        s, x = scenario, input_with_border(scenario, self.layout_in, block)
        blocked = self.layout_out is Layout.CHWC
        channels = block if blocked else s.m
        spec = _spec(s, _view(x, s.batch), image_view(Layout.HWC, channels, s.out_h, s.out_w, s.batch), epilogue, block)
        shape = panels_shape(s.m, s.c // s.groups * s.taps, s.groups, block)

        def pack_weights() -> Array:
            return pack(np.ascontiguousarray(weights.transpose(0, 2, 3, 1)), s.groups, block)

        stages = list(x.stages)
        for number in range(s.m // channels):
            out = number * channels * s.out_h * s.out_w * F32_BYTES
            places = [
                x.operand,
                StageOperand("weights", number * prod(shape[2:]) * F32_BYTES if blocked else 0),
                StageOperand("out", out),
            ]
            places += [StageOperand("bias", number * channels * F32_BYTES)] * epilogue.bias
            places += [StageOperand("residual", out)] * epilogue.residual
            stages.append(Stage(spec, tuple(places)))
        return Lowering(tuple(stages), pack_weights, shape, x.workspace_bytes)


def _view(x: BorderedInput, batch: int) -> View:
    return image_view(x.image.layout, x.image.channels, x.image.height, x.image.width, batch)


def _spec(s: Scenario, x: View, out: View, epilogue: Epilogue, lanes: int) -> Conv2d:
    """Return the engine's spec. A 1x1 convolution of stride 1 may have its pixels in rows of another length."""
    act = "" if epilogue.act == "none" else epilogue.act
    spec = Conv2d(
        x,
        out,
        out if epilogue.residual else None,
        s.kernel,
        s.strides,
        s.dilations,
        s.groups,
        lanes,
        epilogue.bias,
        True,
        act,
        epilogue.act_args,
    )
    if (s.kernel, s.strides) != ((1, 1), (1, 1)):
        return spec
    x, out, *rest = in_pieces([v for v in (spec.x, spec.out, spec.residual) if v is not None], PIECE_PIXELS)
    return replace(spec, x=x, out=out, residual=rest[0] if rest else None)


@dataclass(frozen=True)
class ImplicitDepthwise(Primitive):
    """The engine's depthwise kernel as a primitive, from HWC to HWC."""

    @property
    def family(self) -> str:
        return "implicit"

    @property
    def stem(self) -> str:
        return "implicit_depthwise"

    def computes(self, scenario: Scenario) -> bool:
        return scenario.c == scenario.m == scenario.groups > 1 and scenario.taps <= MOST_TAPS

    @property
    def batch_at_once(self) -> bool:
        return True

    def workspace_bytes(self, scenario: Scenario) -> int:
        return input_with_border(scenario, self.layout_in, 1).workspace_bytes

    def lower(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        return self.lower_image(scenario, weights, epilogue, block)

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        """Return the kernels of all images. weights: [m, 1, k, k]."""
        s, x = scenario, input_with_border(scenario, self.layout_in, block)
        out = image_view(self.layout_out, s.m, s.out_h, s.out_w, s.batch)
        act = "" if epilogue.act == "none" else epilogue.act
        spec = Depthwise(
            _view(x, s.batch),
            out,
            out if epilogue.residual else None,
            s.kernel,
            s.strides,
            s.dilations,
            epilogue.bias,
            act,
            epilogue.act_args,
        )

        def pack_weights() -> Array:
            return pack_depthwise(np.ascontiguousarray(weights.transpose(0, 2, 3, 1)))

        shape = (-(-s.m // LINE_CHANNELS), s.taps, LINE_CHANNELS)
        operands = (x.operand, StageOperand("weights"), StageOperand("out"), *epilogue_operand_places(epilogue))
        return Lowering((*x.stages, Stage(spec, operands)), pack_weights, shape, x.workspace_bytes)


PRIMITIVES: tuple[Primitive, ...] = (
    Implicit(Layout.HWC, Layout.HWC),
    Implicit(Layout.HWC, Layout.CHWC),
    ImplicitDepthwise(Layout.HWC, Layout.HWC),
)
EMIT: dict[type[KernelSpec], object] = {}  # kernels/conv/conv2d.py has the emitters
