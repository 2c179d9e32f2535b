"""Primitives of quantised convolutions: the engine's 8-bit kernels, all of which give the same bits.

Sums of 8-bit products are exact integers, and one f32 product requantizes them, so that no primitive is more exact
than another. All images are in HWC and have their border already, which a separate step fills for every primitive. A
scenario's dtype says that it is a quantised convolution.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.layout import dense_strides
from mavcg.kernels.builder.quantize import limits
from mavcg.kernels.conv.depthwise import MOST_TAPS
from mavcg.kernels.int8.conv2d import lower_qconv2d
from mavcg.kernels.int8.im2row import IM2ROW, im2row_steps
from mavcg.kernels.int8.packed_weights import FLIP_WORDS
from mavcg.specs.kernel import Array, Operand, Packing, Step, View
from mavcg.specs.packed_constant import PackedConstant
from mavcg.specs.primitive import (
    F32_BYTES,
    Epilogue,
    Layout,
    Lowering,
    Primitive,
    QuantisedWeights,
    Scenario,
    Stage,
    StageOperand,
)

ALIGN = 64


class Method(StrEnum):
    """The method by which a quantised convolution is computed."""

    IMPLICIT = "implicit"
    IM2ROW = "im2row"
    DEPTHWISE = "depthwise"


@dataclass(frozen=True)
class EightBit(Primitive):
    """A primitive that computes a quantised convolution (qconv2d) by one of the engine's methods, for a whole batch."""

    method: Method

    @property
    def family(self) -> str:
        return f"qconv_{self.method}"

    @property
    def algorithm(self) -> str:
        """The engine's name of the algorithm; "" for the default."""
        return IM2ROW if self.method is Method.IM2ROW else ""

    @property
    def error_bound(self) -> float:
        return 0.0

    @property
    def batch_at_once(self) -> bool:
        return True

    def applies(self, scenario: Scenario) -> bool:
        return scenario.eight_bit and self.computes(scenario.image)

    def computes(self, scenario: Scenario) -> bool:
        if any(scenario.pads):
            return False
        if scenario.c == scenario.m == scenario.groups > 1 and scenario.taps <= MOST_TAPS:
            return self.method is Method.DEPTHWISE
        in_place = (scenario.kernel, scenario.strides) == ((1, 1), (1, 1))  # the image is the matrix already
        return self.method is Method.IMPLICIT or (self.method is Method.IM2ROW and not in_place)

    def workspace_bytes(self, scenario: Scenario) -> int:
        if self.method is not Method.IM2ROW:
            return 0
        made = node_graph(scenario, np.ones(scenario.weights_shape, np.int8))
        return _workspace(self._steps(made, 4))

    def lower(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        return self.lower_image(scenario, weights, epilogue, block)

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        """Return the kernels of all images, with one multiplier for all channels and no bias.

        weights: integers from -127 to 127, [m, c / groups, k, k]. block: channels of a panel of weights. epilogue: a
        bias is part of the sums that these kernels always add; a residual and an activation are not supported.
        """
        assert not epilogue.residual and epilogue.act == "none", "a quantised convolution has neither"
        made = node_graph(scenario, weights)
        steps = self._steps(made, block)
        constants = [o.constant for step in steps for o in step.operands if isinstance(o.constant, PackedConstant)]
        ends = np.cumsum([-(-constant.nbytes // ALIGN) * ALIGN for constant in constants]).tolist()
        begins = [0, *ends[:-1]]
        places = dict(zip(constants, begins, strict=True))

        def pack_weights() -> Array:
            packed = np.zeros(ends[-1], np.uint8)
            for constant, begin in places.items():
                packed[begin : begin + constant.nbytes] = (
                    constant.packed_array(made.constants).reshape(-1).view(np.uint8)
                )
            return packed.view(np.float32)

        stages = tuple(
            Stage(step.spec, tuple(_stage_operand(o, made, places) for o in step.operands)) for step in steps
        )
        _, sums, factors = constants
        form = QuantisedWeights(
            begins[1],
            sums.nbytes // F32_BYTES,
            0 if self.method is Method.DEPTHWISE else FLIP_WORDS,
            begins[2],
            factors.nbytes // F32_BYTES,
            scenario.c // scenario.groups * scenario.taps,
        )
        return Lowering(stages, pack_weights, (ends[-1] // F32_BYTES,), _workspace(steps), quantised=form)

    def _steps(self, graph: Graph, lanes: int) -> tuple[Step, ...]:
        (node,) = graph.nodes
        views = {name: _dense(graph.types[name]) for name in (node.inputs[0], node.output)}
        lower = im2row_steps if self.method is Method.IM2ROW else lower_qconv2d
        return lower(node, graph, views, Packing(lanes))


def node_graph(scenario: Scenario, weights: Array) -> Graph:
    """Return a graph of one qconv2d of a scenario, from and to the scenario's dtype.

    weights: integers, [m, c / groups, k, k]. The multiplier scales sums of random numbers to 8 bits.
    """
    s = scenario
    least, most = limits(s.dtype)
    b = GraphBuilder("scenario")
    x = b.input("x", TensorType(s.dtype, (s.batch, s.h, s.w, s.c)))
    factor = 1 / (32 * max(1, s.c // s.groups * s.taps))
    constants = [
        b.constant(np.ascontiguousarray(weights.astype(np.int8).transpose(0, 2, 3, 1))),
        b.constant(np.zeros(s.m, np.int32)),
        b.constant(np.full(s.m, factor, np.float32)),
    ]
    node = b.add(
        "qconv2d",
        [x, *constants],
        stride=s.strides,
        dilation=s.dilations,
        pads=(0, 0, 0, 0),
        groups=s.groups,
        x_zero=0,
        out_zero=0,
        lo=least,
        hi=most,
        to=s.dtype,
    )
    return b.finish([node])


def _dense(tensor: TensorType) -> View:
    return View(tensor.dtype, tensor.shape, dense_strides(tensor.shape))


def _workspace(steps: tuple[Step, ...]) -> int:
    most = max((o.workspace_bytes for step in steps for o in step.operands), default=0)
    return -(-most // ALIGN) * ALIGN


def _stage_operand(operand: Operand, graph: Graph, places: Mapping[PackedConstant, int]) -> StageOperand:
    if isinstance(operand.constant, PackedConstant):
        return StageOperand("weights", places[operand.constant])
    if operand.workspace_bytes:
        return StageOperand("workspace", operand.offset)
    return StageOperand("x" if operand.tensor in graph.inputs else "out")


PRIMITIVES: tuple[EightBit, ...] = tuple(
    EightBit(Layout.HWC, Layout.HWC, method) for method in (Method.IMPLICIT, Method.DEPTHWISE, Method.IM2ROW)
)
DEFAULTS = frozenset(p.name for p in PRIMITIVES if not p.algorithm)  # primitives that the engine uses by default
