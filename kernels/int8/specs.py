"""Specs of 8-bit convolutions: everything that decides their code except the core."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mavcg.kernels.builder.quantize import Int8Epilogue, QuantizedSum
from mavcg.kernels.conv.spec import Convolution
from mavcg.kernels.int8.excess import least_parts
from mavcg.kernels.int8.register_tile import (
    GROUP,
    MATRIX_GROUP,
    TOGETHER,
    ProductForm,
    SumRun,
    choose_tiling,
    form_of,
    tile_form,
)
from mavcg.profiles.cost_fits import all_cores_fit
from mavcg.specs.kernel import F32_BYTES as F32_BYTES
from mavcg.specs.kernel import Machine, View, Words
from mavcg.specs.row_kernel import RowProducts
from mavcg.specs.serialize import spec_format
from mavcg.specs.sums_of_products import TilingRules

Array: TypeAlias = NDArray[Any]


EXCESS_OPERAND = 5  # number of the table of second parts among the operands, if there is one


class EightBitConvolution(Convolution):
    """Base of the specs of convolutions over 8-bit images, for all epilogues.

    narrow: no packed weight is -128. in_i16: number of groups whose products i16 can sum (register_tile.sums_in_i16).
    terms: neighbouring terms of a sum in packed weights, GROUP or MATRIX_GROUP. window_sums: True if the sum of each
    output's inputs is needed too. beyond: bytes after a run of inputs that may be read as well, to fill its last group.
    excess: as in QConv2d; 0 if weights are in one part.
    """

    narrow: bool
    in_i16: int
    terms: int
    beyond: int = 0
    excess: int = 0

    words: Words

    @property
    @abstractmethod
    def operand_count(self) -> int:
        """Number of operands before words."""

    @property
    def single_pixels(self) -> bool:
        return super().single_pixels and not self.words

    @property
    def arithmetic(self) -> str:
        return "i8" if self.in_i16 else "i16"

    @property
    def window_sums(self) -> bool:
        return False

    @property
    def family(self) -> str:
        return f"qconv2d_{self.x.dtype}"

    @property
    def tiling_rules(self) -> TilingRules:
        return replace(
            super().tiling_rules,
            packed=True,
            partial_sums=False,
            step_terms=self.terms,
            channels_outer=True,
            single_panels=True,
        )

    @property
    def panel_channels(self) -> int:
        return self.lanes

    @property
    def run(self) -> SumRun:
        """The loops of a sum over its inputs: rows of taps, taps, channels; contiguous ones are merged into one
        level."""
        _, row, col, _ = self.x.strides
        steps = (self.dilation[0] * row, self.dilation[1] * col)
        run = merged_run(list(zip(self.kernel, steps, strict=True)), self.in_channels, self.terms)
        return run.in_whole_groups(self.beyond)

    @property
    def free_tap_rows(self) -> bool:
        """True if packed weights suit rows of taps that lie anywhere: no row continues the one before it."""
        levels = self.run.levels
        return self.kernel[0] == 1 or (bool(levels) and levels[0][0] == self.kernel[0])

    @property
    def panel_bytes(self) -> int:
        """Size of the packed weights of one panel, in bytes."""
        return self.run.steps * self.lanes * self.terms

    @property
    def weight_bytes(self) -> int:
        return self.groups * self.panels * self.panel_bytes

    @property
    def work(self) -> int:
        return self.read_elements

    def form(self, machine: Machine) -> ProductForm:
        """Return the machine's form of the products: of tiles where it has them and they take fewer cycles."""
        form = form_of(machine, self.lanes, self.x.dtype, self.in_i16, self.window_sums, self.terms)
        tiles = tile_form(self.x.dtype, self.run, machine) if self.fits_tiles else None
        return tiles if tiles is not None and self._gains(tiles, form, machine) else form

    @property
    def fits_tiles(self) -> bool:
        """True if its sums may be in AMX's tiles: a run sets nothing of it, and inputs are not summed, too."""
        return not (self.free_rows or self.words or self.window_sums or self.excess or 0 in self.out.shape)

    def _gains(self, tiles: ProductForm, form: ProductForm, machine: Machine) -> bool:
        """True if a row of pixels takes fewer cycles in tiles, whose sums are stored and loaded again."""
        return _row_cycles(self, tiles, machine) < _row_cycles(self, form, machine)


@spec_format("q_conv2d")
@dataclass(frozen=True)
class QConv2d(EightBitConvolution):
    """A requantized convolution of 8-bit images: clamp(round(f32(sum + bias) * multiplier + shift) + zero, lo, hi).

    x, out: N, H, W, C. kernel, stride, dilation: (height, width). Operands: x, packed weights i8 [groups, panels,
    steps, lanes, terms], out, bias i32 [2 * groups * panels * lanes + 16], multiplier f32 [1, groups * panels * lanes],
    or multiplier and shift [2, ..]. The bias includes the zero point of x; its parts are for inputs taken as i8, for
    inputs taken as u8, and 16 words of bytes 128, which convert one to the other. bounded: as in tile.to_eight_bits.
    residual: N, H, W, C, 8 bits, the last operand, which `sum` adds before the result is rounded again; `sum` may also
    only scale the rounded result. free_rows: as in Convolution. words: as in Conv2d, the last operands. beyond: as in
    filled_for_tiles. excess: 0, or the words of a place in the table of weights' second parts, i32 (excess_table), the
    operand before the residual. A row of work is a row of output pixels, or, where by_channels, a panel.
    """

    x: View
    out: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    lanes: int
    epilogue: Int8Epilogue
    narrow: bool
    in_i16: int = 0
    terms: int = GROUP
    shift: bool = False
    bounded: bool = False
    residual: View | None = None
    sum: QuantizedSum | None = None
    free_rows: bool = False
    words: Words = ()
    beyond: int = 0
    excess: int = 0

    @property
    def residual_operand(self) -> int:
        """Number of the residual among the operands."""
        return EXCESS_OPERAND + bool(self.excess)

    @property
    def operand_count(self) -> int:
        return self.residual_operand + (self.residual is not None)

    @property
    def tiling_rules(self) -> TilingRules:
        return replace(super().tiling_rules, residual=self.residual is not None)


# Cores with products of matrices, of tiles, and of byte pairs, for the choice of a packing, which does not depend on
# their other properties.
_MATRIX_CORE = Machine("matrix", "aarch64", "generic", dot_product=True, matrix_product=True)
_TILE_CORE = Machine(
    "tiles", "x86_64", "generic", vector_bytes=64, vector_registers=32, dot_product=True, int8_tiles=True
)


_PAIR_CORE = Machine("pairs", "x86_64", "generic", vector_bytes=32, vector_registers=16)
# Largest ratio of the modelled cycles of weights in two parts to those of whole ones at which they are in two parts. On
# a Zen 3 additions of i16 take issue slots from products, which the model does not count: two groups at once, without
# second parts, take 0.82 of the time of one (interleaved, quiet) and 0.75 of the modelled cycles.
EXCESS_GAIN = 0.85


def filled_for_tiles(spec: QConv2d) -> QConv2d:
    """Return the spec with runs of whole groups of inputs if sums in tiles, which need these, then take fewer cycles.

    Such runs are rows of taps of three channels. What is read after a run, by weights of zero, lies in the same row of
    x: to the right of the last window there must be a column.
    """
    beyond = -spec.run.length % GROUP
    columns = spec.x.shape[2] - 1 - (spec.out.shape[2] - 1) * spec.stride[1] - (spec.kernel[1] - 1) * spec.dilation[1]
    if not beyond or 0 in spec.out.shape or beyond > columns * spec.x.strides[2]:
        return spec
    filled = replace(spec, beyond=beyond)
    return filled if filled.form(_TILE_CORE).in_tiles else spec


def packed_terms(spec: EightBitConvolution, most: int) -> int:
    """Return the neighbouring terms in packed weights for which a core with products of matrices needs fewest cycles.

    Such products compute two pixels at once, and their sums are sorted by pixels at the end: one pixel, few terms, or
    runs of terms that eight does not divide gain less or nothing.

    spec: of a convolution with GROUP terms. most: of the build (Packing).
    """
    paired = replace(spec, terms=MATRIX_GROUP)  # type: ignore[call-arg]  # a field of every subclass
    if most < MATRIX_GROUP or paired.run.length < MATRIX_GROUP:
        return GROUP
    return min(
        (GROUP, spec),
        (MATRIX_GROUP, paired),
        key=lambda choice: _row_cycles(choice[1], choice[1].form(_MATRIX_CORE), _MATRIX_CORE),
    )[0]


def in_byte_pairs(spec: QConv2d, packed: Array) -> QConv2d:
    """Return the spec with weights in two parts if sums of byte pairs in i16 then take fewer cycles.

    spec: with in_i16 of the whole weights. packed: i8 [groups, panels, steps, lanes, 4].
    """
    if spec.terms != GROUP or spec.run.length < GROUP or 0 in spec.out.shape:
        return spec
    best, least = spec, EXCESS_GAIN * _row_cycles(spec, spec.form(_PAIR_CORE), _PAIR_CORE)
    for together in TOGETHER:
        if together <= spec.in_i16:
            break
        split = replace(spec, in_i16=together, excess=len(spec.run.levels) + 1)
        parts = least_parts(packed, spec.run, together) / (packed.shape[0] * packed.shape[1])
        cycles = _row_cycles(split, split.form(_PAIR_CORE), _PAIR_CORE, parts)
        if cycles < least:
            best, least = split, cycles
    return best


def _row_cycles(spec: EightBitConvolution, form: ProductForm, machine: Machine, more: float = 0.0) -> float:
    """Return the modelled cycles of a row of output pixels by a form of products.

    more: groups of the sum that are multiplied beside those of the run, one by one.
    """
    width, vectors, panel = spec.run_pixels, -(-spec.out_channels // form.lanes), max(1, spec.lanes // form.lanes)
    tiling = choose_tiling(form, form.available(machine), width, vectors, panel, spec.run.steps, spec.pixel_rows)
    sorting = width * vectors / all_cores_fit().int8_register_tile.multiplies_per_cycle if form.matrix else 0.0
    apart = tiling.row_cycles(replace(form, together=1), vectors, more, spec.pixel_rows) if more else 0.0
    return tiling.row_cycles(form, vectors, spec.run.steps, spec.pixel_rows) + sorting + apart


def merged_run(levels: list[tuple[int, int]], length: int, terms: int = GROUP) -> SumRun:
    """Return equivalent loops with as few levels as possible: a level that continues its inner level is merged with it.

    levels: (count, step in bytes), outermost first, around runs of `length` contiguous bytes. terms: bytes of a group.
    """
    merged: list[tuple[int, int]] = []
    for count, step in reversed(levels):
        if count == 1:
            continue
        if not merged and step == length:
            length *= count
        elif merged and step == merged[0][0] * merged[0][1]:
            merged[0] = (count * merged[0][0], merged[0][1])
        else:
            merged.insert(0, (count, step))
    return SumRun(tuple(merged), length, terms)


CHANNELS = 32  # packed constants are padded to a multiple of this, the channels of the longest vector


class EightBitDepthwise(RowProducts):
    """Base of the specs of depthwise convolutions of 8-bit images, for all epilogues.

    x, out: N, H, W, C, with equally many channels. C' is C padded to whole vectors. narrow: i16 can hold the sum of
    two products of i8 inputs. A row of work is a row of output pixels.
    """

    narrow: bool

    words: Words

    @property
    def free_rows(self) -> bool:
        """True if a run computes only the first rows, as many as it has (docs/lengths.md)."""
        return False

    @property
    @abstractmethod
    def operand_count(self) -> int:
        """Number of operands before words."""

    @property
    def single_pixels(self) -> bool:
        return super().single_pixels and not self.words

    @property
    @abstractmethod
    def weight_bytes(self) -> int:
        """Size of one weight in bytes: 1 for i8, 2 for i16."""

    @property
    def padded_channels(self) -> int:
        """C': channels padded to a multiple of CHANNELS."""
        return -(-self.out.shape[3] // CHANNELS) * CHANNELS


@spec_format("q_depthwise")
@dataclass(frozen=True)
class QDepthwise(EightBitDepthwise):
    """A requantized depthwise convolution of 8-bit images with equally many channels in and out.

    Operands: x, weights i8 [taps, C'], out, bias i32 [2, C'], multiplier f32 [1, C'], or multiplier and shift [2, C'].
    The bias includes the zero point of x, as in QConv2d. narrow: no weight is -128. shift, bounded: as in QConv2d.
    free_rows: as in Convolution. words: as in Conv2d, the last operands.
    """

    x: View
    out: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    epilogue: Int8Epilogue
    narrow: bool
    shift: bool = False
    bounded: bool = False
    free_rows: bool = False
    words: Words = ()

    @property
    def operand_count(self) -> int:
        return 5

    @property
    def family(self) -> str:
        return f"qdepthwise_{self.x.dtype}"

    @property
    def weight_bytes(self) -> int:
        return 1


def in_vectors(values: Array) -> Array:
    """Pad [rows, C] with zeros to [rows, C'], C' a multiple of CHANNELS."""
    rows, channels = values.shape
    filled = np.zeros((rows, -(-channels // CHANNELS) * CHANNELS), values.dtype)
    filled[:, :channels] = values
    return filled
