"""Primitives of the sparse family: the image, or its patches, times weights of which only nonzero ones are stored.

The rows of a block are neighbouring output channels that share the positions of their nonzero weights: 1 row (CSR,
compressed sparse rows) or BLOCK_ROWS (block CSR). Source: Saad, "Iterative Methods for Sparse Linear Systems", 3.4.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mavcg.kernels.primitives.common import align_workspace, epilogue_operand_places, image_of
from mavcg.kernels.primitives.im2.patch_copy import PatchMatrix
from mavcg.kernels.primitives.im2.patches import Patches
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

BLOCK_ROWS = 4
LEAST_PERCENT = 30  # percentage of zeros below which a dense product is the fastest on every core
STEP_PERCENT = 5  # percentages are rounded to this step, so that measured costs apply to similar scenarios


def measured_sparsity(weights: Array) -> tuple[int, int]:
    """Return (percentage of zeros, percentage of blocks of BLOCK_ROWS output channels that are all zero).

    weights: [M, ..], the other dimensions being the terms of a sum. Both percentages are rounded down to a multiple of
    STEP_PERCENT; they are 0 below LEAST_PERCENT.
    """
    matrix = weights.reshape(weights.shape[0], -1)
    blocks = _blocks(matrix, BLOCK_ROWS)
    return _percent(matrix), _percent(blocks)


def _percent(matrix: Array) -> int:
    if not matrix.size:
        return 0
    zeros = 100 * (matrix.size - np.count_nonzero(matrix)) // matrix.size
    return int(zeros // STEP_PERCENT * STEP_PERCENT) if zeros >= LEAST_PERCENT else 0


def with_sparsity(scenario: Scenario, weights: Array) -> Scenario:
    """Return the scenario with the sparsity of these weights, [M, ..]."""
    sparsity, block_sparsity = measured_sparsity(weights)
    return replace(scenario, sparsity=sparsity, block_sparsity=block_sparsity)


def _blocks(matrix: Array, rows: int) -> Array:
    """Return a mask, [ceil(M / rows), terms], of the blocks with a nonzero element."""
    count = -(-matrix.shape[0] // rows)
    filled = np.zeros((count * rows, matrix.shape[1]), bool)
    filled[: matrix.shape[0]] = matrix != 0
    return np.asarray(filled.reshape(count, rows, -1).any(axis=1))


def mask_of(scenario: Scenario, seed: int = 0) -> Array:
    """Return a random mask of nonzero weights, [M, C / groups, KH, KW], with the scenario's sparsity.

    Zero blocks are drawn first, then single zeros in the other blocks, until both percentages are reached.
    """
    s, source = scenario, np.random.default_rng(seed)
    terms = s.c // s.groups * s.taps
    count = -(-s.m // BLOCK_ROWS)
    kept = source.permutation(count * terms)[: round(count * terms * (100 - s.block_sparsity) / 100)]
    blocks = np.zeros(count * terms, bool)
    blocks[kept] = True
    mask = np.repeat(blocks.reshape(count, 1, terms), BLOCK_ROWS, axis=1).reshape(-1, terms)[: s.m].reshape(-1)
    ones = np.flatnonzero(mask)
    excess = ones.size - round(mask.size * (100 - s.sparsity) / 100)
    if excess > 0:
        mask[source.permutation(ones)[:excess]] = False
    return mask.reshape(s.weights_shape)


def pack_sparse(weights: Array, rows: int, term_bytes: int) -> Array:
    """Pack sparse weights as the kernel reads them.

    Args:
        weights: [M, terms]. rows: output channels of a block. term_bytes: bytes from a term's inputs to the next one's.
    Returns:
        f32: for each row of blocks the number of blocks before it, and once more the total; then for each block its
        term's offset in bytes and its `rows` weights. Counts and offsets are the bits of 32-bit integers.
    """
    filled = _blocks(weights, rows)
    count = filled.shape[0]
    block_row, term = np.nonzero(filled)
    padded = np.zeros((count * rows, weights.shape[1]), np.float32)
    padded[: weights.shape[0]] = weights
    entries = np.empty((term.size, 1 + rows), np.float32)
    entries[:, 0] = (term * term_bytes).astype(np.int32).view(np.float32)
    entries[:, 1:] = padded.reshape(count, rows, -1)[block_row, :, term]
    begins = np.concatenate([[0], np.cumsum(filled.sum(axis=1))]).astype(np.int32).view(np.float32)
    return np.concatenate([begins, entries.reshape(-1)])


def even_packed(size: int, block_rows: int, rows: int, terms: int, term_bytes: int) -> Array:
    """Return packed weights of a size in bytes whose blocks are spread evenly over rows of blocks and terms.

    size: as pack_sparse makes it, padding behind it allowed. block_rows: rows of blocks; rows, terms, term_bytes:
    output channels of a block, terms of a sum, bytes from a term's inputs to the next one's.
    """
    count = min(terms * block_rows, max(0, (size // F32_BYTES - block_rows - 1) // (1 + rows)))
    begins = np.arange(block_rows + 1) * count // block_rows
    entries = np.full((count, 1 + rows), 0.5, np.float32)
    for begin, end in zip(begins, begins[1:], strict=False):
        term = np.arange(end - begin) * terms // max(1, end - begin)
        entries[begin:end, 0] = (term * term_bytes).astype(np.int32).view(np.float32)
    return np.concatenate([begins.astype(np.int32).view(np.float32), entries.reshape(-1)])


def packed_elements(weights: Array, rows: int) -> int:
    """Return the number of elements of the result of pack_sparse for weights [M, terms]."""
    filled = _blocks(weights, rows)
    return int(filled.shape[0] + 1 + np.count_nonzero(filled) * (1 + rows))


def stored_blocks(scenario: Scenario, rows: int) -> float:
    """Return the expected number of stored (nonzero) blocks of a scenario's weights, from its percentages."""
    s = scenario
    terms = s.c // s.groups * s.taps
    percent = s.sparsity if rows == 1 else s.block_sparsity
    return -(-s.m // rows) * terms * (100 - percent) / 100


def packed_bytes(scenario: Scenario, rows: int) -> float:
    """Return the expected size of packed weights, in bytes, from the scenario's percentages."""
    return (stored_blocks(scenario, rows) * (1 + rows) + -(-scenario.m // rows) + 1) * F32_BYTES


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
    def stem(self) -> str:
        kind = "csr" if self.block_rows == 1 else f"bcsr{self.block_rows}"
        return f"sparse_{kind}"

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
