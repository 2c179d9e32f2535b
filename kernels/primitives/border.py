"""The stage that copies an image into a larger one with a border of zeros, for convolutions with padding."""

from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    F32,
    address,
    const,
    finish_rows,
    kernel_function,
    operand,
    repeat,
    scale_index,
)
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.kernels.primitives.common import Image, align_workspace, image_of, padded_image
from mavcg.kernels.primitives.runs import copy_run, fill_zeros
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.kernel_symbol import shape_text
from mavcg.specs.primitive import F32_BYTES, Layout, Scenario, Stage, StageOperand
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import WorkCounts, vector_work

Value: TypeAlias = ir.Value


@spec_format("padded_image")
@dataclass(frozen=True)
class Padded(KernelSpec):
    """A copy of an image into a larger image with a border of zeros.

    pad: rows of zeros above and below, and columns on either side unless pad_across gives these. phases: phases of the
    columns of the larger image (common.Image). Operands: image, larger image, every element of which is written. A row
    of work is a row of the larger image.
    """

    image: Image
    pad: int
    phases: int = 1
    pad_across: int | None = None

    @property
    def pads(self) -> tuple[int, int]:
        """(rows of zeros above and below, columns on either side)."""
        return self.pad, self.pad if self.pad_across is None else self.pad_across

    @property
    def family(self) -> str:
        return "padded_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(self.out.layout_text, self.out.sizes_text)

    @property
    def out(self) -> Image:
        """The larger image, with its border."""
        return padded_image(self.image, self.pads, self.phases)

    @property
    def rows(self) -> int:
        return self.out.height

    @property
    def work(self) -> int:
        return self.out.elements

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        copied = vector_work(("gather" if self.phases > 1 else "copy", self.out.values))
        return WorkCounts(vectors=copied, read=self.image.operand_bytes)  # the copy's bytes are part of the constant


def emit_padded(module: ir.Module, spec: Padded, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    x, y = operand(b, 0, "image"), operand(b, 1, "larger")
    image, out = spec.image, spec.out
    # Contiguous runs of a row: one for each channel, one for each block, or a single one, by the layout.
    runs, step_in, step_out = {
        Layout.CHW: (image.channels, image.channel_step, out.channel_step),
        Layout.HCW: (image.channels, image.channel_step, out.channel_step),
        Layout.HWC: (1, 0, 0),
        Layout.CHWC: (image.blocks, image.block_step, out.block_step),
    }[image.layout]
    unit = image.column_step
    lanes = lanes_f32(machine)
    pad, pad_across = spec.pads

    def run(source: Value, target: Value) -> None:
        if spec.phases > 1:
            _in_phases(b, spec, source, target)
            return
        fill_zeros(b, target, pad_across * unit, lanes)
        copy_run(b, source, address(b, target, pad_across * unit * F32_BYTES), image.width * unit, lanes)
        fill_zeros(b, address(b, target, (pad_across + image.width) * unit * F32_BYTES), pad_across * unit, lanes)

    def row(y_out: Value) -> None:
        y_in = b.sub(y_out, const(pad), name="y_in")
        inside = b.and_(b.icmp_signed(">=", y_in, const(0)), b.icmp_signed("<", y_in, const(image.height)))
        source = address(b, x, scale_index(b, y_in, image.row_step * F32_BYTES))
        target = address(b, y, scale_index(b, y_out, out.row_step * F32_BYTES))

        def at(base: Value, index: Value, step: int) -> Value:
            return address(b, base, scale_index(b, index, step * F32_BYTES)) if step else base

        with b.if_else(inside) as (copied, empty):
            with copied:
                repeat(b, 0, runs, lambda i: run(at(source, i, step_in), at(target, i, step_out)), "run")
            with empty:
                length = out.row_width * unit
                repeat(b, 0, runs, lambda i: fill_zeros(b, at(target, i, step_out), length, lanes), "run")

    return finish_rows(b, row)


def _in_phases(b: ir.IRBuilder, spec: Padded, source: Value, target: Value) -> None:
    """Emit the copy of one row of one channel, one element at a time: it is small beside the convolution's
    arithmetic."""
    image, out, phases, pad = spec.image, spec.out, spec.phases, spec.pads[1]
    for phase in range(phases):
        line = address(b, target, out.column(phase) * F32_BYTES)
        first = max(0, -(-(pad - phase) // phases))  # the first column of the phase that is inside the image
        last = max(first, min(-(-(pad + image.width - phase) // phases), out.row_width // phases))
        fill_zeros(b, line, first, 1)

        def element(i: Value, line: Value = line, phase: int = phase) -> None:
            column = b.add(scale_index(b, i, phases), const(phase - pad))
            value = b.load(address(b, source, scale_index(b, column, F32_BYTES)), name="pixel", align=4, typ=F32)
            b.store(value, address(b, line, scale_index(b, i, F32_BYTES)), align=4)

        repeat(b, first, last, element, "column")
        fill_zeros(b, address(b, line, last * F32_BYTES), out.row_width // phases - last, 1)


@dataclass(frozen=True)
class BorderedInput:
    """The input of a convolution with its border, and where it is after `stages` have run.

    operand: x itself or a copy in the workspace. workspace_bytes: size of the copy; 0 without one.
    """

    image: Image
    operand: StageOperand
    stages: tuple[Stage, ...] = ()
    workspace_bytes: int = 0


def input_with_border(
    scenario: Scenario, layout: Layout, block: int, phases: int = 1, offset: int = 0
) -> BorderedInput:
    """Return the input with its border of zeros: x itself if there are no padding and phases, else a workspace copy.

    Each image of a batch is copied by a stage of its own. block: channels of a block of CHWc. phases: phases of the
    copy's columns. offset: offset of the copy in the workspace, in bytes.
    """
    image = image_of(layout, scenario.c, scenario.h, scenario.w, block)
    pad, pad_across = scenario.pads
    if pad == pad_across == 0 and phases == 1:
        return BorderedInput(image, StageOperand("x"))
    spec = Padded(image, pad, phases, None if pad == pad_across else pad_across)
    copy, read, written = (StageOperand("workspace", offset), *(i.elements * F32_BYTES for i in (image, spec.out)))
    stages = tuple(
        Stage(spec, (StageOperand("x", i * read), StageOperand("workspace", offset + i * written)))
        for i in range(scenario.batch)
    )
    return BorderedInput(spec.out, copy, stages, align_workspace(scenario.batch * written))


EMIT = {Padded: emit_padded}
