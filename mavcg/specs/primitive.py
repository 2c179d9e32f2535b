"""A convolution primitive: an algorithm for a convolution, with the layouts that it reads and writes.

After Anderson and Gregg, "Optimal DNN Primitive Selection with Partitioned Boolean Quadratic Programming" (CGO 2018): a
primitive is a 3-tuple (layout in, algorithm, layout out), a scenario says what is to be computed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

from mavcg.specs.kernel import F32_BYTES, Array, KernelSpec, View
from mavcg.specs.layout import Layout
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


@spec_format("epilogue")
@dataclass(frozen=True)
class Epilogue:
    """Operations on each output before it is stored: + bias, + residual (in the output's layout), activation."""

    bias: bool = False
    residual: bool = False
    act: str = "none"
    act_args: tuple[float, ...] = ()


@dataclass(frozen=True)
class StageOperand:
    """Operand of a stage: "x", "weights", "out", "bias", "residual", or "workspace" at an offset in
    bytes."""

    base: str
    offset: int = 0


@dataclass(frozen=True)
class Stage:
    """One kernel of a primitive; a stage begins when all rows of the one before it are done."""

    spec: KernelSpec
    operands: tuple[StageOperand, ...]


@dataclass(frozen=True)
class SparseWeights:
    """Form of packed sparse weights, for programs that make their own.

    blocks: rows of blocks; rows: output channels of a block; terms: of a sum; term_bytes: from a term's inputs to the
    next one's; entries: blocks that are stored.
    """

    blocks: int
    rows: int
    terms: int
    term_bytes: int
    entries: int


@dataclass(frozen=True)
class QuantisedWeights:
    """Form of packed 8-bit weights, for programs that make their own: bytes, then i32 sums to add, then f32 factors.

    sums_at, factors_at: offsets in bytes; sums, factors: how many; flips: words of four bytes of 128 at the end of the
    sums. terms: of an output's sum. No byte of the weights is -128.
    """

    sums_at: int
    sums: int
    flips: int
    factors_at: int
    factors: int
    terms: int


@dataclass(frozen=True)
class Lowering:
    """A primitive made for a scenario.

    pack: packs its weights, f32; weights_shape: of the packed array, known before it is packed. workspace_bytes: that
    all threads share, aligned to 64. sparse, quantised: form of packed weights that are not f32 alone.
    """

    stages: tuple[Stage, ...]
    pack: Callable[[], Array]
    weights_shape: tuple[int, ...]
    workspace_bytes: int = 0
    sparse: SparseWeights | None = None
    quantised: QuantisedWeights | None = None

    @property
    def weights(self) -> Array:
        """The packed weights, packed anew."""
        return self.pack()

    @property
    def weights_bytes(self) -> int:
        """Size of the packed weights in bytes."""
        return prod(self.weights_shape) * F32_BYTES


@dataclass(frozen=True)
class Primitive(ABC):
    """An implementation of convolutions, of f32 unless its family says otherwise.

    Families derive from it; every field is hashable and prints.
    """

    layout_in: Layout
    layout_out: Layout

    @property
    @abstractmethod
    def family(self) -> str:
        """direct, sum2d, im2, kn2, winograd, fft, ..."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Unique: family, variant, layouts, such as winograd_2d_f4_k3_hwc_hwc."""

    def applies(self, scenario: Scenario) -> bool:
        """True if the primitive can compute this scenario."""
        return not scenario.eight_bit and self.computes(scenario.image)

    @abstractmethod
    def computes(self, scenario: Scenario) -> bool:
        """True if the primitive can compute this scenario of one image."""

    def cost_scenario(self, scenario: Scenario) -> Scenario:
        """Return the scenario that costs are kept by: without the weights' sparsity unless the time depends on it."""
        return scenario.dense

    @abstractmethod
    def workspace_bytes(self, scenario: Scenario) -> int:
        """Return the bytes of memory that all threads share beside operands; a thread's scratch is
        KernelSpec.scratch_bytes."""

    def lower(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        """Return the kernels, and how their weights are packed; nothing is packed yet. Of a batch, image after image.

        weights: [m, c / groups, k, k]; block: channels of a block of CHWc layouts.
        """
        one = self.lower_image(scenario.image, weights, epilogue, block)
        if scenario.batch == 1:
            return one
        s = scenario
        read = image_elements(self.layout_in, s.c, s.h, s.w, block) * F32_BYTES
        written = image_elements(self.layout_out, s.m, s.out_h, s.out_w, block) * F32_BYTES
        steps = {"x": read, "out": written, "residual": written}
        stages = tuple(_of_image(stage, steps, number) for number in range(s.batch) for stage in one.stages)
        return replace(one, stages=stages)

    @abstractmethod
    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        """Return the kernels of one image; arguments as `lower` has them. weights: [m, c / groups, k, k]."""

    @property
    def error_bound(self) -> float:
        """Largest error over the largest sum (before the activation) that it may make against the exact one, measured
        over random scenarios; 1e-5 for plain sums of products, whose errors grow with the root of their length."""
        return 1e-5

    @property
    def batch_at_once(self) -> bool:
        """True if a batch is one stage, that reads weights once, instead of one image after the other."""
        return False

    @property
    def plain_sums(self) -> bool:
        """True if outputs are the definition's sums of products, without transforms."""
        return True


def _of_image(stage: Stage, image_bytes: Mapping[str, int], number: int) -> Stage:
    """Return a stage with its operands at an image of a batch. image_bytes: of an image, by the operand."""
    operands = (
        StageOperand(each.base, each.offset + number * image_bytes.get(each.base, 0)) for each in stage.operands
    )
    return Stage(stage.spec, tuple(operands))


def image_view(layout: Layout, c: int, h: int, w: int, n: int = 1) -> View:
    """Return the view of n images as N, H, W, C, which all layouts but CHWc have by strides alone."""
    strides = {
        Layout.CHW: (c * h * w, w, 1, h * w),
        Layout.HCW: (c * h * w, c * w, 1, w),
        Layout.HWC: (c * h * w, w * c, c, 1),
    }[layout]
    return View("f32", (n, h, w, c), strides)


def image_elements(layout: Layout, c: int, h: int, w: int, block: int) -> int:
    """Return the number of elements that an image takes in a layout."""
    return -(-c // block) * block * h * w if layout is Layout.CHWC else c * h * w
