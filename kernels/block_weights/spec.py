"""Specs of products with weights in blocks, and the lowering of block_matmul to them.

With quantised activations a node has two steps: the activations of all rows become 8-bit numbers in a workspace, then
each row of work computes the channels of a panel for all rows. With f32 activations there is the second step alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import prod

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.block_weights.packing import BlockFormat, pack_blocks, pack_blocks_with_zeros, scale_type
from mavcg.kernels.builder.nest import collapse
from mavcg.kernels.builder.x86_tiles import ROW_BYTES, TILE_ROWS
from mavcg.kernels.int8.register_tile import GROUP, TILE_LANES, ProductForm, tile_product_fit
from mavcg.specs.kernel import F32_BYTES, KernelSpec, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.packed_constant import PackedConstant, WeightParts
from mavcg.specs.serialize import spec_format

PAIR_TERMS = 8  # neighbouring terms of a line, beside which lie those of the other line of a pair
GATE_WORK = 9  # of the silu of a gate and a product, as element-wise kernels count theirs
ROW_TERMS = 1024  # activations that a row of work quantises
# Of a quantised activation: 32 of them, in a block by itself, take some 60 instructions with AVX-512 and 90 with AVX2,
# scale and sum included; other kernels count lanes of instructions.
TERM_WORK = 16
DOT_LINES = 8  # of a register tile of dot products
ENDING_CYCLES = 1.5  # of a conversion, a product of scales and an fma of a block's sum, two of which start in a cycle
LINES_TOGETHER = 64  # lines whose sums over all blocks wait in scratch, as with 16 channels' in level 1
END_BYTES = 8  # of a block's scale, f32, and sum of numbers, i32
ALIGNMENT = 64  # of the parts of a workspace, in bytes


@spec_format("lines")
@dataclass(frozen=True)
class Lines:
    """`count` lines of `length` elements, `pitch` elements apart; `step` elements lie between two of a line."""

    count: int
    length: int
    pitch: int
    step: int


def block_pitch(x: Lines, block: int) -> int:
    """Return the bytes from the numbers of a block of all lines to those of the next, where numbers lie by blocks.

    An odd number of cache lines: else the blocks of a single line would share few sets of a cache.
    """
    return (-(-x.count * block // LINE_BYTES) | 1) * LINE_BYTES


@spec_format("quantized_blocks")
@dataclass(frozen=True)
class QuantizedBlocks(KernelSpec):
    """Lines of f32 as whole numbers of 8 bits, with a scale for each block (graph/reference/block_weights.py).

    gate: lines by whose silu x is multiplied before; None: there are none. A row of work is `row_blocks` blocks of a
    line. Operands: x, gate?; numbers i8, 0 after a line's end; ends, of each block
    the lines' scales, f32, then `factor` times the sums of their numbers, i32. Of a single line numbers are [blocks *
    block]; of several they are [pairs of lines, blocks * block / PAIR_TERMS, 2, PAIR_TERMS], as products of matrices
    read them, or, with by_blocks, [blocks, lines, block], with block_pitch bytes from a block to the next.
    """

    x: Lines
    block: int
    factor: int
    by_blocks: bool = False
    gate: Lines | None = None

    @property
    def family(self) -> str:
        return "quantized_blocks_f32" if self.gate is None else "gated_blocks_f32"

    @property
    def scratch_bytes(self) -> int:
        """Gated terms of a row of work."""
        return 0 if self.gate is None else self.row_blocks * self.block * F32_BYTES

    @property
    def symbol_shape(self) -> str:
        return sizes_text(self.x.count, self.x.length)

    @property
    def blocks(self) -> int:
        """Blocks of a line, the last of which may be partly empty."""
        return -(-self.x.length // self.block)

    @property
    def paired(self) -> bool:
        """True if numbers of two lines lie side by side."""
        return self.x.count > 1 and not self.by_blocks

    @property
    def row_blocks(self) -> int:
        """Blocks of a row of work."""
        return min(self.blocks, max(1, ROW_TERMS // self.block))

    @property
    def pieces(self) -> int:
        """Rows of work of a line."""
        return -(-self.blocks // self.row_blocks)

    @property
    def rows(self) -> int:
        return self.x.count * self.pieces

    @property
    def work(self) -> int:
        return (TERM_WORK + GATE_WORK * (self.gate is not None)) * self.x.count * self.x.length


@spec_format("block_product")
@dataclass(frozen=True)
class BlockProduct(KernelSpec):
    """out = x w + bias + residual, with packed weights in blocks. quantize: of quantised activations.

    x, out, residual: lines of f32; of quantised activations x has their count and length alone. per_index: lines for
    each index of the bounded dimension, whose length an operand gives; 0: their number is fixed. by_blocks: of
    QuantizedBlocks. in_tiles: True if a core that has tiles computes many lines in them. A row of work is a panel of
    output channels, of all lines. Operands: x, or numbers and ends of QuantizedBlocks; weights, out, bias?, residual?,
    length?. Scratch, by the core: for tiles a panel's numbers, i8, and scales, f32; else lines' sums, f32, and a
    block's numbers, i8.
    """

    x: Lines
    out: Lines
    weights: BlockFormat
    quantize: bool
    bias: bool
    per_index: int = 0
    by_blocks: bool = False
    in_tiles: bool = False
    residual: Lines | None = None

    @property
    def family(self) -> str:
        return f"block_product{self.weights.bits}_{'i8' if self.quantize else 'f32'}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(self.x.count, self.out.length), f"k{self.x.length}")

    @property
    def blocks(self) -> int:
        """Blocks of a sum, the last of which may be partly empty."""
        return -(-self.x.length // self.weights.block)

    @property
    def paired(self) -> bool:
        """True if numbers of two lines lie side by side."""
        return self.quantize and self.x.count > 1 and not self.by_blocks

    @property
    def blocked(self) -> bool:
        """True if the numbers of a block of all lines lie one after the other."""
        return self.x.count > 1 and self.by_blocks

    @property
    def tiled(self) -> bool:
        """True if there may be enough lines for tiles."""
        return self.blocked and self.in_tiles and self.x.count >= least_tile_lines(self.weights)

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel of packed weights."""
        return self.blocks * self.weights.block_bytes

    @property
    def unpacked_bytes(self) -> int:
        """Bytes of a panel's numbers, one a byte."""
        return self.blocks * self.weights.block * self.weights.panel

    @property
    def lines_bytes(self) -> int:
        """Bytes of a panel's sums of the lines that are computed together."""
        return min(self.x.count, LINES_TOGETHER) * self.weights.panel * F32_BYTES

    @property
    def scratch_bytes(self) -> int:
        by_lines = self.lines_bytes + self.weights.factor_bytes if self.blocked else 0
        of_tiles = self.unpacked_bytes + self.blocks * self.weights.panel * F32_BYTES if self.tiled else 0
        return max(by_lines, of_tiles)

    @property
    def rows(self) -> int:
        return -(-self.out.length // self.weights.panel) if self.x.count else 0

    @property
    def macs(self) -> int:
        return self.x.count * self.out.length * self.x.length

    @property
    def arithmetic(self) -> str:
        return "i8" if self.quantize else "f32"

    @property
    def work(self) -> int:
        return self.macs

    @property
    def by_channels(self) -> bool:
        return True

    @property
    def keeps_order(self) -> bool:
        # With AVX2, of 4 lines and a block of 32 numbers of 4 bits it makes 321 instructions of 264.
        return self.quantize

    @property
    def weight_parts(self) -> WeightParts:
        return WeightParts(max(1, self.rows), 1, max(1, self.rows))

    @property
    def panel_channels(self) -> int:
        return self.weights.panel


def tile_form(form: BlockFormat) -> ProductForm | None:
    """Return the form of products in AMX's tiles, in equal rows of a block's terms; None if there are no such rows."""
    rows = -(-form.block // ROW_BYTES)
    if form.panel != TILE_LANES or form.block % (rows * GROUP):
        return None
    return ProductForm("tdpbssd", TILE_LANES, 1, False, row_terms=form.block // rows)


@cache
def least_tile_lines(form: BlockFormat) -> int:
    """Return the fewest lines that take fewer cycles in a tile than by dot products, modelled; TILE_ROWS + 1: none.

    A tile of sums takes the time of all its rows; each is stored, loaded again, and added to the sums of all blocks.
    """
    tiles, dots, groups = tile_form(form), ProductForm("vnni", TILE_LANES, 1, False), form.block // GROUP
    if tiles is None:
        return TILE_ROWS + 1
    tile = groups * tiles.step_cycles(TILE_ROWS, 1) + TILE_ROWS * tile_product_fit().block_cycles
    of_lines = groups * dots.step_cycles(DOT_LINES, 1) / DOT_LINES + ENDING_CYCLES
    return min(TILE_ROWS, int(tile / of_lines)) + 1


def lines_of(view: View, name: str, node: Node) -> Lines:
    """Return a tensor as lines along its last axis. Raises: MavcgError for lines that are not evenly spaced."""
    outer = collapse(view.shape[:-1], (view.strides[:-1],))
    if len(outer.shape) > 1:
        raise MavcgError(
            f"node '{node.origin}' ({node.op}): the lines of %{name} are not evenly spaced; copy it before the node"
        )
    return Lines(prod(view.shape[:-1]), view.shape[-1], outer.strides[0][0], view.strides[-1])


def lower_block_matmul(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the steps of a block_matmul. Raises: MavcgError for weights of the run, and as lines_of."""
    x_name, *weights, bias, gate, residual = node.inputs
    if any(name and name not in graph.constants for name in weights):
        raise MavcgError(
            f"node '{node.origin}' ({node.op}): its weights are computed in the run; no kernel packs them then"
        )
    x, out = lines_of(views[x_name], x_name, node), lines_of(views[node.output], node.output, node)
    scales = graph.constants[weights[1]]
    floats = bool(weights[2]) and graph.constants[weights[2]].dtype == np.float32
    form = BlockFormat(
        node.attr("bits"), node.attr("block"), packing.lanes, scale_type(scales), bool(weights[2]), floats
    )
    quantize = node.attr("quantize")
    # Panels of 16 channels are those of x86, which has no products of pairs of lines.
    by_blocks = quantize and packing.lanes == TILE_LANES
    # The numbers of tiles are less their zero points, in 8 bits.
    small = form.bits == 8 or not form.zeros or int(graph.constants[weights[2]].max(initial=0)) < 1 << form.bits
    in_tiles = by_blocks and packing.int8_tiles and small
    added = lines_of(views[residual], residual, node) if residual else None
    product = BlockProduct(x, out, form, quantize, bool(bias), 0, by_blocks, in_tiles, added)
    packed = PackedConstant(
        pack_blocks_with_zeros if weights[2] else pack_blocks,
        tuple(filter(None, weights)),
        (form,),
        (product.rows, product.blocks, form.block_bytes),
        "uint8",
    )
    ends = [Operand(constant=packed), Operand(node.output, written=True), *map(Operand, filter(None, (bias, residual)))]
    if not product.quantize:
        return (Step(product, (Operand(x_name), *ends), node.origin),)
    lines = x.count + x.count % 2 if product.paired else x.count
    of_block = block_pitch(x, form.block) if product.blocked else lines * form.block
    numbers_bytes = -(-product.blocks * of_block // ALIGNMENT) * ALIGNMENT
    size = numbers_bytes + x.count * product.blocks * END_BYTES
    # A tile reads numbers of as many lines as it has rows.
    size += TILE_ROWS * form.block if product.tiled else 0
    read = [Operand(workspace_bytes=size, offset=offset) for offset in (0, numbers_bytes)]
    written = [Operand(workspace_bytes=size, offset=offset, written=True) for offset in (0, numbers_bytes)]
    factor = 1 if form.zeros else -form.middle
    gates = lines_of(views[gate], gate, node) if gate else None
    quantized = QuantizedBlocks(x, form.block, factor, by_blocks, gates)
    read_by_first = map(Operand, filter(None, (x_name, gate)))
    unplaced = replace(product, x=Lines(x.count, x.length, 0, 1))
    first = Step(quantized, (*read_by_first, *written), node.origin)
    return first, Step(unplaced, (*read, *ends), node.origin)
