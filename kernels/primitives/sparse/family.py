"""Primitives of the sparse family: the image, or its patches, times weights of which only nonzero ones are stored."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from mavcg.kernels.primitives.common import align_workspace, epilogue_operand_places, image_of
from mavcg.kernels.primitives.im2.patches import Patches, PatchMatrix
from mavcg.kernels.primitives.sparse.pattern import BLOCK_ROWS, pack_sparse, packed_bytes, packed_elements
from mavcg.kernels.primitives.sparse.product import EMIT as EMIT
from mavcg.kernels.primitives.sparse.product import SparseProduct
from mavcg.specs.kernel import Array
from mavcg.specs.primitive import (
    F32_BYTES,
    Epilogue,
    Layout,
    Lowering,
    Primitive,
    Scenario,
    SparseWeights,
    Stage,
    StageOperand,
)


@dataclass(frozen=True)
class Sparse(Primitive):
    """A convolution with sparse weights: 1x1 on the image itself if its planes are contiguous, else on im2col's
    patches.

    block_rows: output channels that share the positions of their nonzero weights; 1: each has its own.
    """

    block_rows: int

    @property
    def family(self) -> str:
        return "sparse"

    @property
    def name(self) -> str:
        kind = "csr" if self.block_rows == 1 else f"bcsr{self.block_rows}"
        return f"sparse_{kind}_{self.layout_in.lower()}_{self.layout_out.lower()}"

    def computes(self, scenario: Scenario) -> bool:
        """Return True for every convolution without groups, whatever its sparsity."""
        return scenario.groups == 1

    def cost_scenario(self, scenario: Scenario) -> Scenario:
        """Return the scenario unchanged: the time depends on the sparsity."""
        return scenario

    def expected_weight_bytes(self, scenario: Scenario) -> float:
        return packed_bytes(scenario, self.block_rows)

    def in_place(self, s: Scenario) -> bool:
        """Return True if the image itself is the matrix, without a copy of its patches."""
        return self.layout_in is Layout.CHW and s.square and (s.k, s.stride, s.pad) == (1, 1, 0)

    def _patches(self, s: Scenario, block: int) -> Patches:
        block = block if self.layout_in is Layout.CHWC else 1
        return Patches(s.dense, self.layout_in, block, True, s.out_h * s.out_w)

    def workspace_bytes(self, scenario: Scenario) -> int:
        return 0 if self.in_place(scenario) else align_workspace(self._patches(scenario, 1).matrix_bytes)

    def product(self, s: Scenario, block: int, epilogue: Epilogue) -> SparseProduct:
        """Return the spec of the stage that multiplies."""
        term_bytes = s.h * s.w * F32_BYTES if self.in_place(s) else self._patches(s, block).term_bytes
        out = image_of(self.layout_out, s.m, s.out_h, s.out_w, block)
        return SparseProduct(s.c * s.taps, term_bytes, out, self.block_rows, epilogue)

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        s, spec = scenario, self.product(scenario, block, epilogue)
        terms, term_bytes = spec.terms, spec.term_bytes
        matrix = np.asarray(weights, np.float32).reshape(s.m, terms)
        elements = packed_elements(matrix, self.block_rows)
        entries = (elements - spec.blocks - 1) // (1 + self.block_rows)
        form = SparseWeights(spec.blocks, self.block_rows, terms, term_bytes, entries)
        pack = partial(pack_sparse, matrix, self.block_rows, term_bytes)
        rest = (StageOperand("weights"), StageOperand("out"), *epilogue_operand_places(epilogue))
        if self.in_place(s):
            return Lowering((Stage(spec, (StageOperand("x"), *rest)),), pack, (elements,), sparse=form)
        stages = (
            Stage(PatchMatrix(self._patches(s, block)), (StageOperand("x"), StageOperand("workspace"))),
            Stage(spec, (StageOperand("workspace"), *rest)),
        )
        return Lowering(stages, pack, (elements,), self.workspace_bytes(s), form)


PRIMITIVES: tuple[Primitive, ...] = tuple(
    Sparse(layout, Layout.CHW, rows) for layout in (Layout.CHW, Layout.HWC) for rows in (1, BLOCK_ROWS)
)
