"""Kernel of the product of sparse weights with a matrix of inputs [terms, output pixels].

Vectors run along the pixels. For a tile of pixels and a row of blocks, each stored block loads the vectors of its
term's inputs and multiplies them by each of its weights. After Elsen, Dukhan, Gale and Simonyan, "Fast Sparse
ConvNets" (CVPR 2020), whose kernels have 16 to 32 pixels by 1, 2 or 4 output channels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.hardware.issue_rates import InstructionMix
from mavcg.kernels.builder.activation import finish
from mavcg.kernels.builder.emit import (
    F32,
    I32,
    I64,
    address,
    const,
    finish_rows,
    fma,
    kernel_function,
    operands,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import f32_splat, splat
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile, TermPointers
from mavcg.kernels.builder.tiles import emit_full_or_tail
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.kernels.primitives.common import Image, epilogue_operands, load_partial, store_partial
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.kernel_symbol import shape_text
from mavcg.specs.packed_constant import WeightParts
from mavcg.specs.primitive import F32_BYTES, Epilogue
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import LoopWork, OperandBytes, WeightReads, WorkCounts

Value: TypeAlias = ir.Value

PIECE_PIXELS = 128  # pixels of a row of work: 8 vectors of 16 lanes
MOST_VECTORS = 8  # maximum vectors of a tile: sums that hide the latency of a multiply-add
FEW_ROWS = 16  # with fewer pieces the output channels are cut too, so that all threads have work
LEAST_BLOCKS = 8  # minimum rows of blocks of such a part


def tile_vectors(machine: Machine, rows: int) -> int:
    """Return the vectors of pixels of a tile whose sums of `rows` channels, inputs and a weight fit the registers."""
    if rows == 1:
        return MOST_VECTORS  # inputs are memory operands of the multiply-adds
    return max(1, min(MOST_VECTORS // 2, (machine.vector_registers - 4) // (rows + 1)))


@spec_format("sparse_product")
@dataclass(frozen=True)
class SparseProduct(KernelSpec):
    """act(bias + weights x inputs + residual); operands: inputs, weights (pattern.pack_sparse), out, bias?, residual?.

    terms: terms of a sum. term_bytes: bytes from a term's inputs to the next term's; a term's pixels are contiguous.
    out: in layout CHW. block_rows: output channels of a block of weights. A row of work is a piece of the pixels for
    all output channels, or a part of them.
    """

    terms: int
    term_bytes: int
    out: Image
    block_rows: int
    epilogue: Epilogue

    @property
    def family(self) -> str:
        return "csr_product_f32" if self.block_rows == 1 else f"bcsr{self.block_rows}_product_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(self.out.layout_text, self.out.sizes_text, f"k{self.terms}")

    @property
    def pixels(self) -> int:
        """Number of pixels of the output."""
        return self.out.height * self.out.width

    @property
    def pieces(self) -> int:
        """Number of pieces of the pixels."""
        return -(-self.pixels // PIECE_PIXELS)

    @property
    def blocks(self) -> int:
        """Number of rows of blocks."""
        return -(-self.out.channels // self.block_rows)

    @property
    def part_blocks(self) -> int:
        """Number of rows of blocks of a part."""
        parts = -(-FEW_ROWS // self.pieces)
        return max(1, self.blocks if parts == 1 else min(self.blocks, max(LEAST_BLOCKS, -(-self.blocks // parts))))

    @property
    def parts(self) -> int:
        """Number of parts of the output channels."""
        return -(-self.blocks // self.part_blocks)

    @property
    def rows(self) -> int:
        return self.pieces * self.parts

    @property
    def weight_parts(self) -> WeightParts:
        return WeightParts(self.parts)

    def loaded_iterations(self, weight_bytes: int) -> float:
        """Return the mean number of stored blocks in a row of blocks, from the size of the packed weights."""
        elements = weight_bytes // F32_BYTES - (self.blocks + 1)
        return max(0.0, elements / (1 + self.block_rows) / self.blocks)

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        rows, lanes, matrix = self.block_rows, lanes_f32(machine), self.terms * self.pixels * F32_BYTES
        vectors = tile_vectors(machine, rows)
        used = min(vectors, -(-self.pixels // lanes))
        entry = InstructionMix(fma=rows * used, loads=used + 1 + rows, other=4, chain=1)
        tiles = -(-self.pixels // (vectors * lanes))
        entries = self.loaded_iterations(int(weight_bytes)) * self.blocks
        return WorkCounts(
            loops=(LoopWork("sparse", entry, tiles * entries, tiles * self.blocks),),
            read=OperandBytes(matrix, 2 * matrix),
            written=self.out.operand_bytes,
            weights=WeightReads(weight_bytes),
        )

    @property
    def work(self) -> int:
        """Elementary operations if a tenth of the weights is stored; the spec does not have the real number."""
        return max(1, 2 * self.terms * self.out.channels * self.pixels // 10)


def emit_sparse_product(module: ir.Module, spec: SparseProduct, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    emitter = _SparseProductEmitter(b, spec, machine)
    return finish_rows(b, emitter.row)


class _SparseProductEmitter:
    """Emitter of the loops of one function."""

    def __init__(self, b: ir.IRBuilder, spec: SparseProduct, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        self.lanes = lanes_f32(machine)
        self.inputs, self.w, self.out = operands(b, "inputs", "weights", "out")
        self.bias, self.residual = epilogue_operands(b, spec.epilogue, 3)
        self.entries = address(b, self.w, (spec.blocks + 1) * F32_BYTES, "entries")

    def row(self, index: Value) -> None:
        """Emit one row of work."""
        b, spec = self.b, self.spec
        piece, part = b.udiv(index, const(spec.parts)), b.urem(index, const(spec.parts))
        first = scale_index(b, part, spec.part_blocks)
        end = b.add(first, const(spec.part_blocks))
        end = b.select(b.icmp_unsigned("<", end, const(spec.blocks)), end, const(spec.blocks))
        pixel = scale_index(b, piece, PIECE_PIXELS)
        last = b.icmp_unsigned("==", piece, const(spec.pieces - 1))
        full = min(PIECE_PIXELS, spec.pixels)
        rest = spec.pixels - (spec.pieces - 1) * PIECE_PIXELS
        emit_full_or_tail(b, last, full, rest, lambda pixels: self.piece(pixel, pixels, first, end))

    def piece(self, pixel: Value, pixels: int, first: Value, end: Value) -> None:
        """Emit the tiles of a piece of `pixels` pixels, for the rows of blocks from `first` to `end`."""
        step = tile_vectors(self.machine, self.spec.block_rows) * self.lanes
        whole = pixels // step
        if whole:
            repeat(
                self.b,
                0,
                whole * step,
                lambda i: self.tile(self.b.add(pixel, i), step // self.lanes, self.lanes, first, end),
                "tile",
                step,
            )
        left = pixels - whole * step
        if left:
            vectors = -(-left // self.lanes)
            used = left - (vectors - 1) * self.lanes
            self.tile(self.b.add(pixel, const(whole * step)), vectors, used, first, end)

    def tile(self, pixel: Value, vectors: int, used: int, first: Value, end: Value) -> None:
        """Emit the rows of blocks of a tile; used: lanes of its last vector."""
        b, spec = self.b, self.spec
        at = scale_index(b, pixel, F32_BYTES)
        rows = spec.out.channels - (spec.blocks - 1) * spec.block_rows

        def block_row(index: Value) -> None:
            sums = self.sums(index, address(b, self.inputs, at), vectors, used)
            last = b.icmp_unsigned("==", index, const(spec.blocks - 1))
            emit_full_or_tail(b, last, spec.block_rows, rows, lambda count: self.store(index, at, sums, count, used))

        repeat(b, first, end, block_row, "block_row")

    def sums(self, index: Value, inputs: Value, vectors: int, used: int) -> Sequence[Sequence[Value]]:
        """Emit the sums of a row of blocks; return them by channel, then vector of the tile."""
        b, rows = self.b, self.spec.block_rows
        begin, end = (self.count(b.add(index, const(i))) for i in (0, 1))
        used_lanes = [self.lanes] * (vectors - 1) + [used]

        def entry(number: Value, count: int) -> Iterator[TermPointers]:
            here = address(b, self.entries, scale_index(b, number, (1 + rows) * F32_BYTES), "entry")
            offset = b.zext(b.load(here, align=4, typ=I32, name="offset"), I64)
            yield TermPointers(here, address(b, inputs, offset, "line"))

        def weights(at: TermPointers) -> Iterator[Value]:
            for row in range(rows):
                weight = b.load(address(b, at.left, (1 + row) * F32_BYTES), align=4, typ=F32, name="weight")
                yield splat(b, weight, self.lanes, "factor")

        def pixels(at: TermPointers) -> Iterator[Value]:
            for v, lanes in enumerate(used_lanes):
                pointer = address(b, at.right, v * self.lanes * F32_BYTES)
                yield load_partial(b, self.machine, pointer, self.lanes, lanes, "x")

        def multiply_add(total: Value, factor: Value, x: Value, row: int, v: int) -> Value:
            return fma(b, factor, x, total, "sum")

        products = ProductLoop(b, SumTile(rows, vectors), weights, pixels, multiply_add)
        flat = products.loop(begin, end, 1, entry, [f32_splat(0.0, self.lanes)] * (rows * vectors), "entry")
        return [flat[row * vectors : (row + 1) * vectors] for row in range(rows)]

    def count(self, index: Value) -> Value:
        """Emit the load of the number of stored blocks before a row of blocks."""
        b = self.b
        return b.zext(b.load(address(b, self.w, scale_index(b, index, F32_BYTES)), align=4, typ=I32, name="count"), I64)

    def store(self, index: Value, at: Value, sums: Sequence[Sequence[Value]], rows: int, used: int) -> None:
        """Emit bias, residual and activation of the first `rows` channels of a row of blocks, and the stores."""
        b, spec = self.b, self.spec
        plane = spec.out.channel_step * F32_BYTES
        channel = scale_index(b, index, spec.block_rows)
        begin = b.add(scale_index(b, channel, plane), at)
        for row in range(rows):
            bias = None
            if self.bias is not None:
                bias_address = address(b, self.bias, scale_index(b, b.add(channel, const(row)), F32_BYTES))
                bias = splat(b, b.load(bias_address, align=4, typ=F32, name="bias"), self.lanes)
            for v, value in enumerate(sums[row]):
                count = used if v == len(sums[row]) - 1 else self.lanes
                offset = b.add(begin, const(row * plane + v * self.lanes * F32_BYTES))
                residual = None
                if self.residual is not None:
                    bias_address = address(b, self.residual, offset)
                    residual = load_partial(b, self.machine, bias_address, self.lanes, count, "residual")
                total = b.fadd(value, bias, name="with_bias") if bias is not None else value
                total = finish(b, spec.epilogue, total, residual)
                store_partial(b, self.machine, total, address(b, self.out, offset), self.lanes, count)


EMIT = {SparseProduct: emit_sparse_product}
