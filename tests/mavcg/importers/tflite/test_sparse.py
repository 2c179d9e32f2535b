"""Constants that a file stores sparse: every order and form of levels, against LiteRT's DENSIFY; damaged ones."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.importers.tflite_sparse import SparseLayout, SparseLevel, make_dense
from tests.conftest import examples
from tests.mavcg.importers.tflite.conftest import Checker, Writer, litert, schema


def encode(
    dense: Array, order: tuple[int, ...], cut: dict[int, int], compressed: set[int]
) -> tuple[SparseLayout, Array]:
    """A layout and the stored values of an array, built node by node. cut: dimensions' block sizes, in order."""
    rank, dims = dense.ndim, list(cut)
    sizes = {d: n // cut.get(d, 1) for d, n in enumerate(dense.shape)}
    sizes |= {rank + k: cut[d] for k, d in enumerate(dims)}

    def part(node: dict[int, int]) -> Array:
        """The elements below a node."""
        elements = dense
        for d in range(rank):
            block = cut.get(d, 1)
            at = np.arange(dense.shape[d])
            inner = rank + dims.index(d) if d in cut else None
            keep = np.ones(at.size, bool)
            keep &= (at // block == node[d]) if d in node else True
            keep &= (at % block == node[inner]) if inner is not None and inner in node else True
            elements = np.compress(keep, elements, axis=d)
        return elements

    nodes: list[dict[int, int]] = [{}]
    levels = []
    for number in order:
        if number not in compressed:
            nodes = [node | {number: i} for node in nodes for i in range(sizes[number])]
            levels.append(SparseLevel(sizes[number]))
            continue
        segments, indices, below = [0], list[int](), []
        for node in nodes:
            kept = [i for i in range(sizes[number]) if part(node | {number: i}).any()]
            indices += kept
            below += [node | {number: i} for i in kept]
            segments.append(len(indices))
        nodes = below
        levels.append(SparseLevel(0, np.array(segments), np.array(indices, np.int64)))
    values = np.array([part(node).item() for node in nodes], dense.dtype)
    return SparseLayout(order, tuple(dims), tuple(levels)), values


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Array, SparseLayout, Array]:
    """An array of 1 to 4 dimensions with zeros; its dimensions' levels in any order, those in blocks last."""
    rank = draw(st.integers(1, 4))
    cut = {d: draw(st.integers(1, 3)) for d in range(rank) if draw(st.booleans())}
    shape = tuple(draw(st.integers(1, 3)) * cut.get(d, 1) for d in range(rank))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    keep = rng.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.7, 1.0]))
    dense = (rng.integers(1, 100, shape) * keep).astype(draw(st.sampled_from([np.float32, np.int8])))
    order = (*draw(st.permutations(range(rank))), *range(rank, rank + len(cut)))
    compressed = set(draw(st.lists(st.integers(0, rank - 1), max_size=rank)))
    return (dense, *encode(dense, order, cut, compressed))


def store(writer: Writer, dense: Array, layout: SparseLayout, values: Array, dtype: str = "f32") -> int:
    """A constant stored sparse; lists of indices in 8, 16 and 32 bits in turn."""
    index = writer.tensor(dense.shape, dtype, data=values)
    table = writer.graph.tensors[index].sparsity = schema.SparsityParametersT()
    table.traversalOrder, table.blockMap, table.dimMetadata = list(layout.order), list(layout.block_map), []
    kinds = ("Uint8Vector", "Uint16Vector", "Int32Vector")
    for i, level in enumerate(layout.levels):
        meta = schema.DimensionMetadataT()
        if level.segments is not None and level.indices is not None:
            meta.format = schema.DimensionType.SPARSE_CSR
            segments, indices = kinds[i % 3], kinds[(i + 1) % 3]
            meta.arraySegmentsType = getattr(schema.SparseIndexVector, segments)
            meta.arrayIndicesType = getattr(schema.SparseIndexVector, indices)
            meta.arraySegments, meta.arrayIndices = getattr(schema, segments + "T")(), getattr(schema, indices + "T")()
            meta.arraySegments.values, meta.arrayIndices.values = level.segments.tolist(), level.indices.tolist()
        else:
            meta.format, meta.denseSize = schema.DimensionType.DENSE, level.size
        table.dimMetadata.append(meta)
    return index


def densified(dense: Array, layout: SparseLayout, values: Array) -> bytes:
    """A file that adds a densified constant to its input."""
    writer = Writer()
    made = writer.op("DENSIFY", [store(writer, dense, layout, values)], shape=dense.shape, options="DensifyOptions")
    return writer.bytes(writer.op("ADD", [writer.input(dense.shape), made], options="AddOptions"))


@settings(max_examples=examples(20, 4))
@given(layouts())
def test_every_layout_gives_the_dense_array(case: tuple[Array, SparseLayout, Array]) -> None:
    dense, layout, values = case
    made = make_dense(layout, values, dense.shape)
    assert made.dtype == dense.dtype
    np.testing.assert_array_equal(made, dense)


@pytest.mark.parametrize(
    ("shape", "order", "cut", "compressed"),
    [
        ((4, 6), (0, 1), {}, {1}),
        ((6, 4), (1, 0), {}, {0, 1}),
        ((4, 8), (0, 1, 2), {1: 4}, {1}),
        ((8, 3, 3, 4), (0, 1, 2, 3, 4, 5), {0: 4, 3: 2}, {3}),
    ],
)
def test_densify_is_litert_s(
    check: Checker, shape: tuple[int, ...], order: tuple[int, ...], cut: dict[int, int], compressed: set[int]
) -> None:
    rng = np.random.default_rng(len(shape))
    dense = (rng.standard_normal(shape) * (rng.random(shape) < 0.3)).astype(np.float32)
    data = densified(dense, *encode(dense, order, cut, compressed))
    np.testing.assert_array_equal(litert(data, [np.zeros(shape, np.float32)])[0], dense)
    check.agrees(data)


def damaged() -> dict[str, tuple[SparseLayout, Any]]:
    """Layouts for a [3, 4] that contradict themselves, by what the error says."""
    rows, columns = np.array([0, 1, 1, 3]), np.array([2, 0, 3])
    good = SparseLevel(0, rows, columns)

    def case(*levels: SparseLevel, order: tuple[int, ...] = (0, 1), cut: tuple[int, ...] = (), values: int = 3) -> Any:
        return SparseLayout(order, cut, levels), np.ones(values, np.float32)

    return {
        "4 elements are stored, but its levels have 3": case(SparseLevel(3), good, values=4),
        "in the order": case(SparseLevel(3), good, order=(0, 0)),
        "its block map": case(SparseLevel(3), good, SparseLevel(2), order=(0, 1, 2), cut=(5,)),
        "blocks of 3 along dimension 1": case(SparseLevel(3), good, SparseLevel(3), order=(0, 1, 2), cut=(1,)),
        "a dense level 0 of 1000000000": case(SparseLevel(10**9), good),
        "4 segments for 4 parents": case(SparseLevel(4), good, order=(1, 0)),
        "do not rise": case(SparseLevel(3), SparseLevel(0, rows, np.array([2, 3, 0]))),
        "are outside of 0 to 3": case(SparseLevel(3), SparseLevel(0, rows, np.array([2, 0, 4]))),
    }


@pytest.mark.parametrize("words", list(damaged()))
def test_damaged_ones_are_refused(check: Checker, words: str) -> None:
    layout, values = damaged()[words]
    data = densified(np.zeros((3, 4), np.float32), layout, values)
    with pytest.raises(MavcgError) as refused:
        check.load(data)
    assert words in str(refused.value) and "is stored sparse" in str(refused.value)


def test_a_small_file_that_claims_much_is_refused_at_once() -> None:
    shape = (1 << 14, 1 << 14)
    layout = SparseLayout((0, 1), (), tuple(SparseLevel(n) for n in shape))
    with pytest.raises(ValueError, match=f"1 elements are stored, but its levels have {math.prod(shape)}"):
        make_dense(layout, np.ones(1, np.float32), shape)
