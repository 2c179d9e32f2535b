"""Primitives of the fft family: a sum of 1-D convolutions along rows, each computed by the convolution theorem.

Transforms along rows only take less space than 2-D transforms; rows of taps and channels are summed coefficient by
coefficient. Weights are transformed when the library is built. Source: Anderson and Gregg (CGO 2018), section 4.
"""

from dataclasses import dataclass
from functools import partial

from mavcg.kernels.primitives.common import PANEL, epilogue_operand_places, image_of, panels_shape
from mavcg.kernels.primitives.fft.specs import (
    CoefficientProducts,
    ForwardRows,
    InverseRows,
    Transforms,
    transformed_weights,
)
from mavcg.kernels.primitives.fft.stages import emit_forward_rows, emit_inverse_rows, emit_products
from mavcg.kernels.primitives.matrix_product import blocks_within_groups
from mavcg.specs.kernel import Array
from mavcg.specs.primitive import Epilogue, Layout, Lowering, Primitive, Scenario, Stage, StageOperand

LENGTHS = (8, 16, 32, 64, 128)
LEAST_KERNEL = 3  # minimum taps of a row
NEARLY = 1.1  # maximum ratio of the chosen length's multiplications to the fewest


def best_length(scenario: Scenario) -> int:
    """Return the shortest transform length, in pixels, with nearly the fewest multiplications.

    Short, because the size of the weights grows with it. 0 if twice the kernel's row exceeds every length.
    """
    reach = scenario.dilation * (scenario.k - 1) + 1
    candidates = [Transforms(scenario, length) for length in LENGTHS if length >= 2 * reach]
    least = min((t.tiles * t.coefficients for t in candidates), default=0)
    return next((t.length for t in candidates if t.tiles * t.coefficients <= NEARLY * least), 0)


@dataclass(frozen=True)
class Fft(Primitive):
    """A convolution by Fourier transforms along rows; length: of the transforms, or 0 for best_length."""

    length: int = 0

    @property
    def family(self) -> str:
        return "fft"

    @property
    def stem(self) -> str:
        return f"fft{self.length or ''}"

    @property
    def error_bound(self) -> float:
        """The bound of plain sums: over 400 random scenarios without epilogue, of up to 1,900 terms a coefficient, the
        largest error is 1.1e-6 of the largest output, the median 2.2e-7."""
        return 1e-5

    @property
    def plain_sums(self) -> bool:
        return False

    def computes(self, scenario: Scenario) -> bool:
        """Return True for square windows of stride 1 with k >= 3 whose row fits a transform twice, and whole CHWc
        blocks."""
        s = scenario
        whole = blocks_within_groups(s, self.layout_in, self.layout_out)
        return s.square and s.stride == 1 and s.k >= LEAST_KERNEL and self._length(s) > 0 and whole

    def _length(self, scenario: Scenario) -> int:
        """Return the length of the transforms for a scenario; 0 if there is none."""
        fits = self.length >= 2 * (scenario.dilation * (scenario.k - 1) + 1)
        return best_length(scenario) if not self.length else self.length if fits else 0

    def workspace_bytes(self, scenario: Scenario) -> int:
        return Transforms(scenario, self._length(scenario)).workspace_bytes

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        s = scenario
        transforms = Transforms(s, self._length(s))
        x = image_of(self.layout_in, s.c, s.h, s.w, block)
        out = image_of(self.layout_out, s.m, s.out_h, s.out_w, block)
        inputs, outputs = StageOperand("workspace"), StageOperand("workspace", transforms.outputs_at)
        stages = (
            Stage(ForwardRows(transforms, x), (StageOperand("x"), inputs)),
            Stage(CoefficientProducts(transforms), (inputs, StageOperand("weights"), outputs)),
            Stage(
                InverseRows(transforms, out, epilogue),
                (outputs, StageOperand("out"), *epilogue_operand_places(epilogue)),
            ),
        )
        shape = (transforms.coefficients, *panels_shape(s.m, 2 * s.k * transforms.in_channels, s.groups, PANEL))
        return Lowering(stages, partial(transformed_weights, transforms, weights), shape, transforms.workspace_bytes)


def _primitives() -> tuple[Primitive, ...]:
    chw, hcw, hwc, chwc = Layout.CHW, Layout.HCW, Layout.HWC, Layout.CHWC
    layouts = ((chw, chw), (hcw, hcw), (hwc, hwc), (chwc, chwc), (chw, hwc), (hwc, chw))
    return (*(Fft(i, o) for i, o in layouts), Fft(chw, chw, 16), Fft(hwc, hwc, 16))


PRIMITIVES: tuple[Primitive, ...] = _primitives()
EMIT = {ForwardRows: emit_forward_rows, CoefficientProducts: emit_products, InverseRows: emit_inverse_rows}
