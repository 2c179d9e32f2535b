"""Sparse constants of TFLite files: their layout in the file, and conversion to dense arrays.

Source: schema.fbs, SparsityParameters. A tensor of n dimensions, k of which are cut into blocks, is stored as a tree of
n + k levels. A level is a dimension (0 to n - 1; counted in blocks if it is cut) or the position inside a block (n to
n + k - 1). A dense level has all positions; a compressed level lists the stored positions of each parent.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.graph import Array
from mavcg.importers.tflite_tables import TfliteTables

_INDEX_VECTORS = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}  # schema.fbs, SparseIndexVector


@dataclass(frozen=True, eq=False)
class SparseLevel:
    """A level of the tree.

    size: number of positions of a dense level. segments, indices: of a compressed level, i64; None for a dense level.
    The stored positions of parent p are indices[segments[p] : segments[p + 1]].
    """

    size: int
    segments: Array | None = None
    indices: Array | None = None


@dataclass(frozen=True, eq=False)
class SparseLayout:
    """The layout of a sparse constant.

    order: number of each level's dimension or block position, from the root. block_map: dimensions that are cut into
    blocks. levels: in the same order.
    """

    order: tuple[int, ...]
    block_map: tuple[int, ...]
    levels: tuple[SparseLevel, ...]


@dataclass(frozen=True, eq=False)
class SparseData:
    """A sparse constant. values: stored elements, 1-D, in the order of the layout's leaves."""

    layout: SparseLayout
    values: Array

    def dense(self, shape: Sequence[int]) -> Array:
        """Return the dense array. Raises: ValueError if layout, values and shape contradict each other."""
        return make_dense(self.layout, self.values, shape)


def make_dense(layout: SparseLayout, values: Array, shape: Sequence[int]) -> Array:
    """Return a dense array of this shape with the stored values at their positions and 0 elsewhere.

    values: 1-D. Raises: ValueError if layout, values and shape contradict each other.
    """
    sizes = _level_sizes(layout, shape)
    leaves = _count_leaves(layout, sizes)
    if values.size != leaves:
        raise ValueError(f"{values.size} elements are stored, but its levels have {leaves}")
    blocks = {dim: sizes[len(shape) + k] for k, dim in enumerate(layout.block_map)}
    offsets = np.zeros(1, np.int64)  # element offset of each node of the current level, in stored order
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    for number, level in zip(layout.order, layout.levels, strict=True):
        inner = number >= len(shape)
        dim = layout.block_map[number - len(shape)] if inner else number
        step = strides[dim] * (1 if inner else blocks.get(dim, 1))
        if level.segments is None or level.indices is None:
            offsets = (offsets[:, None] + np.arange(sizes[number]) * step).reshape(-1)
        else:
            offsets = np.repeat(offsets, np.diff(level.segments)) + level.indices * step
    dense = np.zeros(math.prod(shape), values.dtype)
    dense[offsets] = values
    return dense.reshape(tuple(shape))


def _level_sizes(layout: SparseLayout, shape: Sequence[int]) -> dict[int, int]:
    """Return the number of positions of each level, by number: of a dimension (in blocks if cut) or inside a block."""
    order, cut = layout.order, layout.block_map
    if sorted(order) != list(range(len(shape) + len(cut))) or len(layout.levels) != len(order):
        raise ValueError(f"{len(layout.levels)} levels in the order {list(order)} do not match the shape {list(shape)}")
    if len(set(cut)) != len(cut) or any(not 0 <= d < len(shape) for d in cut):
        raise ValueError(f"its block map {list(cut)} does not name different dimensions of {list(shape)}")
    sizes = dict(enumerate(shape))
    stored = dict(zip(order, layout.levels, strict=True))
    for k, dim in enumerate(cut):
        block = stored[len(shape) + k]
        if block.segments is not None or block.size < 1 or shape[dim] % block.size:
            raise ValueError(f"blocks of {block.size} along dimension {dim} do not divide {list(shape)}")
        sizes[len(shape) + k], sizes[dim] = block.size, shape[dim] // block.size
    for number, level in stored.items():
        if level.segments is None and level.size != sizes[number]:
            raise ValueError(f"a dense level {number} of {level.size} positions should have {sizes[number]}")
    return sizes


def _count_leaves(layout: SparseLayout, sizes: Mapping[int, int]) -> int:
    """Return the number of stored elements.

    No memory beyond the file's own lists is allocated, because a small file may declare large sizes.
    """
    nodes = 1
    for number, level in zip(layout.order, layout.levels, strict=True):
        if level.segments is None or level.indices is None:
            nodes *= sizes[number]
        else:
            _check_compressed(level.segments, level.indices, nodes, sizes[number])
            nodes = level.indices.size
    return nodes


def _check_compressed(segments: Array, indices: Array, parents: int, size: int) -> None:
    """Check the two lists of a compressed level. Raises: ValueError if they contradict each other or `size`."""
    counts = np.diff(segments)
    if segments.size != parents + 1 or segments[0] != 0 or segments[-1] != indices.size or (counts < 0).any():
        raise ValueError(f"{segments.size} segments for {parents} parents contradict {indices.size} indices")
    starts = np.zeros(indices.size, bool)
    starts[segments[:-1][counts > 0]] = True
    steps = np.diff(indices, prepend=-1)
    if indices.size and (indices.min() < 0 or indices.max() >= size or (steps[~starts] <= 0).any()):
        raise ValueError(f"indices of a compressed level do not rise, or are outside of 0 to {size - 1}")


def read_layout(table: Any, file: TfliteTables) -> SparseLayout:
    """Return the layout in a flatbuffer's SparsityParameters. Raises: ValueError for a list that is longer than the
    file, or an unknown form."""
    order = tuple(_numbers(table, "TraversalOrder", file).tolist())
    block_map = tuple(_numbers(table, "BlockMap", file).tolist())
    count = table.DimMetadataLength()
    if count != len(order):
        raise ValueError(f"{count} levels, but an order of {len(order)}")
    levels = (_read_level(table.DimMetadata(i), file) for i in range(count))
    return SparseLayout(order, block_map, tuple(levels))


def _read_level(table: Any, file: TfliteTables) -> SparseLevel:
    form = table.Format()
    if form == file.tflite.DimensionType.DENSE:
        return SparseLevel(table.DenseSize())
    if form != file.tflite.DimensionType.SPARSE_CSR:
        raise ValueError(f"a level of unknown form {form}")
    segments = _index_vector(table.ArraySegmentsType(), table.ArraySegments(), file)
    return SparseLevel(0, segments, _index_vector(table.ArrayIndicesType(), table.ArrayIndices(), file))


def _index_vector(kind: int, at: Any, file: TfliteTables) -> Array:
    if kind not in _INDEX_VECTORS or at is None:
        raise ValueError(f"a list of unknown kind {kind}")
    vector = getattr(file.tflite, _INDEX_VECTORS[kind])()
    vector.Init(at.Bytes, at.Pos)
    return _numbers(vector, "Values", file)


def _numbers(table: Any, name: str, file: TfliteTables) -> Array:
    if getattr(table, name + "IsNone")():
        return np.zeros(0, np.int64)
    if getattr(table, name + "Length")() > len(file.data):
        raise ValueError(f"{name} has more than {len(file.data)} entries")
    numbers = np.asarray(getattr(table, name + "AsNumpy")())
    file.take(numbers.nbytes)
    return numbers.astype(np.int64)
