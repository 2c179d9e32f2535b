"""Primitives of the foreign family: im2's matrix of patches, multiplied by the CBLAS sgemm of a shared library.

A 1 x 1 kernel of stride 1 reads the image itself, without a copy of its patches. These primitives belong to a library
on one machine, so that all_primitives() does not have them; `foreign_primitives` returns those of a library.

Bias and residual come before the product, the activation after it. The kernel calls a function
(ForeignLibrary.call_symbol) of the program that it is linked into, which calls the library's sgemm.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.kernels.builder.activation import finish
from mavcg.kernels.builder.emit import (
    F32,
    I32,
    I64,
    PTR,
    address,
    const,
    kernel_function,
    operands,
    repeat,
    scale_index,
    vector,
)
from mavcg.kernels.builder.lanes import f32_splat, load_vector, splat, store_vector
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.kernels.primitives.common import Image, align_workspace, epilogue_operand_places, epilogue_operands, image_of
from mavcg.kernels.primitives.im2.patch_copy import PatchMatrix
from mavcg.kernels.primitives.im2.patches import Patches
from mavcg.kernels.primitives.runs import along
from mavcg.specs.foreign_library import ForeignLibrary
from mavcg.specs.kernel import Array, KernelSpec, Machine
from mavcg.specs.kernel_symbol import shape_text
from mavcg.specs.primitive import F32_BYTES, Epilogue, Layout, Lowering, Primitive, Scenario, Stage, StageOperand
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value
ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112  # CblasRowMajor, CblasNoTrans, CblasTrans of cblas.h


@spec_format("foreign_product")
@dataclass(frozen=True)
class ForeignProduct(KernelSpec):
    """act(bias + inputs x weights + residual); operands: inputs, weights, out, bias?, residual?.

    columns: inputs are [terms, pixels], else [pixels, terms]; stride: elements from one row of inputs to the next. out:
    in layout HWC or CHW. Weights are [terms, M] if out is HWC, else [M, terms]. A row of work is a pixel (HWC) or an
    output channel (CHW); a range of rows is one call of sgemm.
    """

    library: ForeignLibrary
    terms: int
    columns: bool
    stride: int
    out: Image
    epilogue: Epilogue

    @property
    def family(self) -> str:
        return f"{self.library.name}_product_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(self.out.layout_text, self.out.sizes_text, f"k{self.terms}")

    @property
    def channels_last(self) -> bool:
        """True if output channels are contiguous in the output."""
        return self.out.layout is Layout.HWC

    @property
    def pixels(self) -> int:
        """Number of pixels of the output."""
        return self.out.height * self.out.width

    @property
    def rows(self) -> int:
        return self.pixels if self.channels_last else self.out.channels

    @property
    def row_elements(self) -> int:
        """Number of elements of a row of work in the output."""
        return self.out.channels if self.channels_last else self.pixels

    @property
    def shared_rows(self) -> int:
        return self.rows

    @property
    def multiply_adds(self) -> int:
        return self.terms * self.out.channels * self.pixels

    @property
    def work(self) -> int:
        return 2 * self.multiply_adds


def emit_foreign_product(module: ir.Module, spec: ForeignProduct, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    function, b = kernel_function(module, spec, machine)
    emitter = _ForeignProductEmitter(b, spec, machine)
    begins = bool(spec.epilogue.bias or spec.epilogue.residual)
    with b.if_then(b.icmp_signed("<", function.args[1], function.args[2])):
        if begins:
            emitter.each_row(emitter.begin)
        emitter.multiply(1.0 if begins else 0.0)
        if spec.epilogue.act != "none":
            emitter.each_row(emitter.activate)
    b.ret_void()
    return function


class _ForeignProductEmitter:
    """Emitter of the loops of one function."""

    def __init__(self, b: ir.IRBuilder, spec: ForeignProduct, machine: Machine) -> None:
        self.b, self.spec, self.lanes = b, spec, lanes_f32(machine)
        self.first, self.end = b.function.args[1:3]
        self.x, self.w, self.out = operands(b, "inputs", "weights", "out")
        self.bias, self.residual = epilogue_operands(b, spec.epilogue, 3)

    def each_row(self, body: Callable[[Value, Value, Value, int], None]) -> None:
        """Emit body(row, element of the row, its offset in bytes, lanes) over all vectors of the range of rows."""
        b, length = self.b, self.spec.row_elements

        def row(index: Value) -> None:
            at = scale_index(b, index, length * F32_BYTES)
            along(b, length, self.lanes, lambda i, n: body(index, i, b.add(at, scale_index(b, i, F32_BYTES)), n))

        repeat(b, self.first, self.end, row, "row")

    def begin(self, row: Value, element: Value, offset: Value, lanes: int) -> None:
        """Emit the store of a vector of bias + residual, to which sgemm adds the product."""
        b, value = self.b, f32_splat(0.0, lanes)
        if self.bias is not None and self.spec.channels_last:
            value = load_vector(b, self._f32(self.bias, element), vector(F32, lanes), name="bias")
        elif self.bias is not None:
            value = splat(b, b.load(self._f32(self.bias, row), align=4, typ=F32, name="bias"), lanes)
        if self.residual is not None:
            residual = load_vector(b, address(b, self.residual, offset), vector(F32, lanes), name="residual")
            value = b.fadd(value, residual, name="with_residual")
        store_vector(b, value, address(b, self.out, offset))

    def activate(self, row: Value, element: Value, offset: Value, lanes: int) -> None:
        """Emit the activation of a vector of outputs in place."""
        pointer = address(self.b, self.out, offset)
        value = load_vector(self.b, pointer, vector(F32, lanes), name="sum")
        store_vector(self.b, finish(self.b, self.spec.epilogue, value, None), pointer)

    def multiply(self, beta: float) -> None:
        """Emit the call of sgemm, out = product + beta * out, for the range of rows."""
        b, s = self.b, self.spec
        integer = I64 if s.library.wide else I32
        types = [I32] * 3 + [integer] * 3 + [F32, PTR, integer, PTR, integer, F32, PTR, integer]
        rows = b.sub(self.end, self.first, name="rows")
        rows = rows if s.library.wide else b.trunc(rows, I32)
        if s.channels_last:
            # The range's first pixel is a column of [terms, pixels], a row of [pixels, terms].
            left = self._f32(self.x, self.first if s.columns else scale_index(b, self.first, s.stride))
            left_step, left_turned = s.stride, s.columns
            right, right_step, right_turned = self.w, s.out.channels, False
        else:
            left = self._f32(self.w, scale_index(b, self.first, s.terms))
            left_step, left_turned = s.terms, False
            right, right_step, right_turned = self.x, s.stride, not s.columns
        words: list[Value] = [
            const(ROW_MAJOR, I32),
            const(TRANSPOSED if left_turned else AS_IT_IS, I32),
            const(TRANSPOSED if right_turned else AS_IT_IS, I32),
            rows,
            const(s.row_elements, integer),
            const(s.terms, integer),
            ir.Constant(F32, 1.0),
            left,
            const(left_step, integer),
            right,
            const(right_step, integer),
            ir.Constant(F32, beta),
            self._f32(self.out, scale_index(b, self.first, s.row_elements)),
            const(s.row_elements, integer),
        ]
        name, kind = s.library.call_symbol, ir.FunctionType(ir.VoidType(), types)
        b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), words)

    def _f32(self, base: Value, index: Value) -> Value:
        return address(self.b, base, scale_index(self.b, index, F32_BYTES))


def foreign_libraries(specs: Iterable[KernelSpec]) -> tuple[ForeignLibrary, ...]:
    """Return the libraries that kernels call, each once."""
    return tuple(dict.fromkeys(spec.library for spec in specs if isinstance(spec, ForeignProduct)))


EMIT = {ForeignProduct: emit_foreign_product}


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
    def stem(self) -> str:
        return f"{FAMILY}_{'im2col' if self.columns else 'im2row'}"

    @property
    def name(self) -> str:
        return f"{super().name}@{self.library.label}"

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
