"""Convolution primitives: algorithms for convolutions, with the layouts that they read and write.

After Anderson and Gregg, "Optimal DNN Primitive Selection with Partitioned Boolean Quadratic Programming" (CGO 2018): a
primitive is a 3-tuple (layout in, algorithm, layout out); a scenario is the convolution to compute.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

from mavcg.graph.layout import Layout
from mavcg.specs.kernel import F32_BYTES, Array, KernelSpec, View
from mavcg.specs.scenario import AxisWindow, Scenario
from mavcg.specs.serialize import spec_format

__all__ = [
    "F32_BYTES",
    "AxisWindow",
    "Epilogue",
    "Layout",
    "Lowering",
    "StageOperand",
    "Primitive",
    "QuantisedWeights",
    "Scenario",
    "SparseWeights",
    "Stage",
    "image_elements",
    "image_view",
]
spec_format("layout")(Layout)  # a part of specs, from a floor below them


@spec_format("epilogue")
@dataclass(frozen=True)
class Epilogue:
    """The operations on each output before its store: + bias, + residual (in the output's layout), activation."""

    bias: bool = False
    residual: bool = False
    act: str = "none"
    act_args: tuple[float, ...] = ()


@dataclass(frozen=True)
class StageOperand:
    """An operand of a stage. base: "x", "weights", "out", "bias", "residual" or "workspace". offset: in bytes."""

    base: str
    offset: int = 0


@dataclass(frozen=True)
class Stage:
    """A stage of a primitive: a kernel that begins after all rows of the previous stage."""

    spec: KernelSpec
    operands: tuple[StageOperand, ...]


@dataclass(frozen=True)
class SparseWeights:
    """The form of packed sparse weights, for programs that generate weights themselves.

    blocks: number of rows of blocks. rows: output channels of a block. terms: terms of a sum. term_bytes: bytes from a
    term's inputs to the next term's. entries: number of stored blocks.
    """

    blocks: int
    rows: int
    terms: int
    term_bytes: int
    entries: int


@dataclass(frozen=True)
class QuantisedWeights:
    """The form of packed 8-bit weights, for programs that generate weights themselves: i8, then i32 sums, then f32
    factors.

    sums_at, factors_at: their offsets in bytes; sums, factors: their numbers. flips: number of words of four bytes 128
    at the end of the sums. terms: terms of an output's sum. No weight is -128.
    """

    sums_at: int
    sums: int
    flips: int
    factors_at: int
    factors: int
    terms: int


@dataclass(frozen=True)
class Lowering:
    """A primitive lowered for a scenario.

    pack: function that returns the packed weights, f32, of shape weights_shape. workspace_bytes: size of the workspace,
    aligned to 64, that all threads share. sparse, quantised: form of packed weights that are not only f32.
    """

    stages: tuple[Stage, ...]
    pack: Callable[[], Array]
    weights_shape: tuple[int, ...]
    workspace_bytes: int = 0
    sparse: SparseWeights | None = None
    quantised: QuantisedWeights | None = None

    @property
    def weights(self) -> Array:
        """The packed weights; every access packs them."""
        return self.pack()

    @property
    def weights_bytes(self) -> int:
        """Size of the packed weights in bytes."""
        return prod(self.weights_shape) * F32_BYTES


@dataclass(frozen=True)
class Primitive(ABC):
    """Base class of convolution primitives, of f32 unless the family is of another type.

    Every field is hashable and printable.
    """

    layout_in: Layout
    layout_out: Layout

    @property
    @abstractmethod
    def family(self) -> str:
        """Name of the family: direct, sum2d, im2, kn2, winograd, fft, ..."""

    @property
    def stem(self) -> str:
        """Family and variant in the name, such as winograd_2d_f4_k3."""
        return self.family

    @property
    def name(self) -> str:
        """Unique name of family, variant and layouts, such as winograd_2d_f4_k3_hwc_hwc."""
        return f"{self.stem}_{self.layout_in.lower()}_{self.layout_out.lower()}"

    def applies(self, scenario: Scenario) -> bool:
        """Return True if the primitive can compute the scenario."""
        return not scenario.eight_bit and self.computes(scenario.image)

    @abstractmethod
    def computes(self, scenario: Scenario) -> bool:
        """Return True if the primitive can compute a scenario of one image."""

    def cost_scenario(self, scenario: Scenario) -> Scenario:
        """Return the scenario that is the key of costs: without the weights' sparsity unless the time depends on it."""
        return scenario.dense

    def expected_weight_bytes(self, scenario: Scenario) -> float:
        """Return the expected size of packed weights whose sparsity decides it, in bytes; 0 for all others."""
        return 0.0

    @abstractmethod
    def workspace_bytes(self, scenario: Scenario) -> int:
        """Return the size of the workspace that all threads share, in bytes, without KernelSpec.scratch_bytes."""

    def lower(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        """Return the stages and the packing of the weights, which is not executed. A batch is computed image by image.

        weights: [m, c / groups, k, k]; block: channels of a block of CHWc layouts.
        """
        single = self.lower_image(scenario.image, weights, epilogue, block)
        if scenario.batch == 1:
            return single
        s = scenario
        read = image_elements(self.layout_in, s.c, s.h, s.w, block) * F32_BYTES
        written = image_elements(self.layout_out, s.m, s.out_h, s.out_w, block) * F32_BYTES
        steps = {"x": read, "out": written, "residual": written}
        stages = tuple(_of_image(stage, steps, number) for number in range(s.batch) for stage in single.stages)
        return replace(single, stages=stages)

    @abstractmethod
    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        """Return the stages of one image; arguments as for `lower`. weights: [m, c / groups, k, k]."""

    @property
    def error_bound(self) -> float:
        """Error bound: largest error relative to the largest exact sum before the activation, from random scenarios.

        1e-5 for plain sums of products, whose errors grow with the square root of their length.
        """
        return 1e-5

    @property
    def batch_at_once(self) -> bool:
        """True if a batch is one stage, which reads weights once, instead of a stage per image."""
        return False

    @property
    def plain_sums(self) -> bool:
        """True if outputs are the sums of products of the definition, without transforms."""
        return True


def _of_image(stage: Stage, image_bytes: Mapping[str, int], number: int) -> Stage:
    """Return a stage for image `number` of a batch. image_bytes: size of an image, by the operand's base."""
    operands = (
        StageOperand(operand.base, operand.offset + number * image_bytes.get(operand.base, 0))
        for operand in stage.operands
    )
    return Stage(stage.spec, tuple(operands))


def image_view(layout: Layout, c: int, h: int, w: int, n: int = 1) -> View:
    """Return the N, H, W, C view of n images in a layout other than CHWc."""
    strides = {
        Layout.CHW: (c * h * w, w, 1, h * w),
        Layout.HCW: (c * h * w, c * w, 1, w),
        Layout.HWC: (c * h * w, w * c, c, 1),
    }[layout]
    return View("f32", (n, h, w, c), strides)


def image_elements(layout: Layout, c: int, h: int, w: int, block: int) -> int:
    """Return the number of elements of an image in a layout, with the padding of CHWc."""
    return -(-c // block) * block * h * w if layout is Layout.CHWC else c * h * w
