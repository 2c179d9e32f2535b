"""The fft family: a convolution as the sum of 1-D convolutions along rows, each by the convolution theorem.

Transforms are along rows only, which takes less space than 2-D ones: rows of taps, and channels, are summed among the
coefficients. Weights are transformed when the library is built. Source: Anderson and Gregg (CGO 2018), section 4.
"""

from dataclasses import dataclass

from mavcg.kernel import Array
from mavcg.kernels.primitives.common import epilogue_places, image_of
from mavcg.kernels.primitives.fft_specs import (
    CoefficientProducts,
    ForwardRows,
    InverseRows,
    Transforms,
    transformed_weights,
)
from mavcg.kernels.primitives.fft_stages import emit_forward_rows, emit_inverse_rows, emit_products
from mavcg.kernels.primitives.im2_product import blocks_fit
from mavcg.primitive import Epilogue, Layout, Lowering, Place, Primitive, Scenario, Stage

LENGTHS = (8, 16, 32, 64, 128)
LEAST_KERNEL = 3
NEARLY = 1.1


def best_length(scenario: Scenario) -> int:
    """The shortest length with nearly as few multiplications as any: weights take as many bytes as it has pixels.

    0 where a kernel's row does not fit twice into any.
    """
    reach = scenario.dilation * (scenario.k - 1) + 1
    found = [Transforms(scenario, length) for length in LENGTHS if length >= 2 * reach]
    least = min((t.tiles * t.coefficients for t in found), default=0)
    return next((t.length for t in found if t.tiles * t.coefficients <= NEARLY * least), 0)


@dataclass(frozen=True)
class Fft(Primitive):
    """length: of the transforms; 0: the best one for each scenario."""

    length: int = 0

    @property
    def family(self) -> str:
        return "fft"

    @property
    def name(self) -> str:
        return f"fft{self.length or ''}_{self.layout_in.lower()}_{self.layout_out.lower()}"

    @property
    def error_bound(self) -> float:
        """As of plain sums: over 400 random scenarios without epilogue, of up to 1,900 terms a coefficient, the largest
        error is 1.1e-6 of the largest output, the median 2.2e-7."""
        return 1e-5

    @property
    def plain_sums(self) -> bool:
        return False

    def applies(self, scenario: Scenario) -> bool:
        """Stride 1, a kernel of 3 or more whose row fits a transform twice; in CHWc blocks must not straddle groups."""
        s = scenario
        whole = blocks_fit(s, self.layout_in, self.layout_out)
        return s.stride == 1 and s.k >= LEAST_KERNEL and self._length(s) > 0 and whole

    def _length(self, scenario: Scenario) -> int:
        """0: none."""
        fits = self.length >= 2 * (scenario.dilation * (scenario.k - 1) + 1)
        return best_length(scenario) if not self.length else self.length if fits else 0

    def workspace_bytes(self, scenario: Scenario) -> int:
        return Transforms(scenario, self._length(scenario)).workspace_bytes

    def lower(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        s = scenario
        transforms = Transforms(s, self._length(s))
        x = image_of(self.layout_in, s.c, s.h, s.w, block)
        out = image_of(self.layout_out, s.m, s.out_h, s.out_w, block)
        inputs, outputs = Place("workspace"), Place("workspace", transforms.outputs_at)
        stages = (
            Stage(ForwardRows(transforms, x), (Place("x"), inputs)),
            Stage(CoefficientProducts(transforms), (inputs, Place("weights"), outputs)),
            Stage(InverseRows(transforms, out, epilogue), (outputs, Place("out"), *epilogue_places(epilogue))),
        )
        return Lowering(stages, transformed_weights(transforms, weights), transforms.workspace_bytes)


def _primitives() -> tuple[Primitive, ...]:
    chw, hcw, hwc, chwc = Layout.CHW, Layout.HCW, Layout.HWC, Layout.CHWC
    ends = ((chw, chw), (hcw, hcw), (hwc, hwc), (chwc, chwc), (chw, hwc), (hwc, chw))
    return (*(Fft(i, o) for i, o in ends), Fft(chw, chw, 16), Fft(hwc, hwc, 16))


PRIMITIVES: tuple[Primitive, ...] = _primitives()
EMIT = {ForwardRows: emit_forward_rows, CoefficientProducts: emit_products, InverseRows: emit_inverse_rows}
