"""Primitives of the foreign family: im2's matrix of patches, multiplied by the CBLAS sgemm of a shared library.

A 1 x 1 kernel of stride 1 reads the image itself, without a copy of its patches. These primitives belong to a library
on one machine, so that all_primitives() does not have them; `foreign_primitives` returns those of a library.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from mavcg.kernels.primitives.common import align_workspace, epilogue_operand_places, image_of
from mavcg.kernels.primitives.foreign.product import EMIT as EMIT
from mavcg.kernels.primitives.foreign.product import ForeignProduct
from mavcg.kernels.primitives.im2.patches import Patches, PatchMatrix
from mavcg.specs.foreign_library import ForeignLibrary
from mavcg.specs.kernel import Array
from mavcg.specs.primitive import Epilogue, Layout, Lowering, Primitive, Scenario, Stage, StageOperand

FAMILY = "foreign"
PRIMITIVES: tuple[Primitive, ...] = ()  # without a library there are none


@dataclass(frozen=True)
class Foreign(Primitive):
    """A convolution by im2row from HWC or im2col from CHW, with a foreign library's product. Groups are not
    supported."""

    library: ForeignLibrary

    @property
    def family(self) -> str:
        return FAMILY

    @property
    def columns(self) -> bool:
        """True if patches are columns of the matrix (im2col), else rows (im2row)."""
        return self.layout_in is Layout.CHW

    @property
    def name(self) -> str:
        form = "im2col" if self.columns else "im2row"
        return f"{FAMILY}_{form}_{self.layout_in.lower()}_{self.layout_out.lower()}@{self.library.label}"

    def computes(self, scenario: Scenario) -> bool:
        return scenario.groups == 1

    def in_place(self, s: Scenario) -> bool:
        """Return True if the image itself is the matrix, without a copy of its patches."""
        return s.square and (s.k, s.stride, s.pad) == (1, 1, 0)

    def _patches(self, s: Scenario) -> Patches:
        return Patches(s.dense, self.layout_in, 1, self.columns, s.out_h * s.out_w)

    def workspace_bytes(self, scenario: Scenario) -> int:
        return 0 if self.in_place(scenario) else align_workspace(self._patches(scenario).matrix_bytes)

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        s, patches = scenario, self._patches(scenario)
        if self.in_place(s):
            stride = s.h * s.w if self.columns else s.c
        else:
            stride = patches.row_bytes // (patches.pixel_bytes if self.columns else patches.term_bytes)
        out = image_of(self.layout_out, s.m, s.out_h, s.out_w, block)
        spec = ForeignProduct(self.library, patches.terms, self.columns, stride, out, epilogue)
        ordered = weights.transpose(0, 2, 3, 1) if patches.taps_first else weights
        shape = (patches.terms, s.m) if spec.channels_last else (s.m, patches.terms)
        pack = partial(_pack, ordered.reshape(s.m, patches.terms), spec.channels_last)
        rest = (StageOperand("weights"), StageOperand("out"), *epilogue_operand_places(epilogue))
        if self.in_place(s):
            return Lowering((Stage(spec, (StageOperand("x"), *rest)),), pack, shape)
        copies = Stage(PatchMatrix(patches), (StageOperand("x"), StageOperand("workspace")))
        return Lowering((copies, Stage(spec, (StageOperand("workspace"), *rest))), pack, shape, self.workspace_bytes(s))


def _pack(matrix: Array, transposed: bool) -> Array:
    """Return weights [M, terms], transposed if sgemm reads them so."""
    return np.ascontiguousarray(matrix.T if transposed else matrix, np.float32)


def foreign_primitives(library: ForeignLibrary) -> tuple[Primitive, ...]:
    """Return the primitives that call a library, for all pairs of the layouts HWC and CHW."""
    layouts = (Layout.HWC, Layout.CHW)
    return tuple(Foreign(source, target, library) for source in layouts for target in layouts)
