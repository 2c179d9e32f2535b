"""Steps whose rows read a bounded dimension as a whole, such as the range of a tensor: kernels that read its length.

The kernels of two lengths are compared as those of free rows are (first_rows.py): they must be equal but for these
counts, each a multiple of the length. Such a kernel has the length as an operand, in place of a constant of its code.
Kernels with several such numbers, or strides, are those of run_words.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from mavcg.choose.lengths.first_rows import plain_spec
from mavcg.graph.counts import Count, product_of, quotient_of, sum_of
from mavcg.kernels.block_weights.spec import BlockProduct
from mavcg.kernels.builder.nest import Nest
from mavcg.kernels.conv.transpose_phases import ConvTranspose2d
from mavcg.kernels.int8.mean_pool import QAvgPoolSpec
from mavcg.kernels.int8.means import QMeanSpec
from mavcg.kernels.tensor.dynamic_range import DynamicRange, Extremes
from mavcg.kernels.tensor.pad import PadBorder
from mavcg.kernels.tensor.pool import Pool
from mavcg.kernels.tensor.run_indices import ScatterSpec
from mavcg.kernels.tensor.transpose import TransposeSpec
from mavcg.specs.kernel import KernelSpec

_Merged = tuple[KernelSpec, bool]
_Merge = Callable[[Any, Any, int, int], _Merged | None]  # merge_by_length of two specs of one class


def _nest(long: KernelSpec, short: KernelSpec, most: int, length: int, *, name: str) -> _Merged | None:
    """A nest that counts indices in its outermost loop. name: of the field with the nest."""
    nests: tuple[Nest, Nest] = getattr(long, name), getattr(short, name)
    counts = nests[0].shape[0], nests[1].shape[0]
    per_index = per_index_of(*counts, most, length)
    resized: dict[str, Any] = {name: replace(nests[1], shape=(counts[0], *nests[1].shape[1:]))}
    if not per_index or replace(short, **resized) != long:
        return None
    counted: dict[str, Any] = {"per_index": per_index}
    return replace(long, **counted), True


def _dynamic_range(long: KernelSpec, short: KernelSpec, most: int, length: int) -> _Merged | None:
    """All pairs are read at every length: those behind it are zeros, which a row of Extremes writes."""
    return long, False


def _block_product(long: BlockProduct, short: BlockProduct, most: int, length: int) -> _Merged | None:
    per_index = per_index_of(long.x.count, short.x.count, most, length)
    lines = replace(short.x, count=long.x.count), replace(short.out, count=long.out.count)
    counted: dict[str, Any] = {"x": lines[0], "out": lines[1]}
    if short.residual is not None:
        counted["residual"] = replace(short.residual, count=long.x.count)
    if not per_index or replace(short, **counted) != long:
        return None
    return replace(long, per_index=per_index), True


def _scatter(long: ScatterSpec, short: ScatterSpec, most: int, length: int) -> _Merged | None:
    per_index = per_index_of(long.count, short.count, most, length)
    if not per_index or replace(short, count=long.count) != long:
        return None
    return replace(long, per_index=per_index), True


def _pool(long: Pool | QAvgPoolSpec, short: Pool | QAvgPoolSpec, most: int, length: int) -> _Merged | None:
    """The height of an image; pads below, of a length in ceil mode too, are where windows go on."""
    if (long.x.shape[:2], short.x.shape[:2]) != ((1, most), (1, length)):
        return None
    x, out = (
        replace(view, shape=(1, like.shape[1], *view.shape[2:]))
        for view, like in ((short.x, long.x), (short.out, long.out))
    )
    top, left, _, right = short.pads
    if replace(short, x=x, out=out, pads=(top, left, long.pads[2], right)) != long:
        return None
    return replace(long, counts_rows=True), True


def _conv_transpose(long: ConvTranspose2d, short: ConvTranspose2d, most: int, length: int) -> _Merged | None:
    """The height of an image, of which no row behind the last one is read."""
    if (long.x.shape[:2], short.x.shape[:2]) != ((1, most), (1, length)):
        return None
    x, out = (
        replace(view, shape=(1, like.shape[1], *view.shape[2:]))
        for view, like in ((short.x, long.x), (short.out, long.out))
    )
    same = plain_spec(replace(short, x=x, out=out)) == plain_spec(long)
    return (replace(long, counts_rows=True), True) if same else None


def _border(long: PadBorder, short: PadBorder, most: int, length: int) -> _Merged | None:
    """A border after the last row; without one, the first rows are as those of all others."""
    at = long.axis
    if not long.after[at] or (long.out.shape[at], short.out.shape[at]) != (most, length):
        return None
    longest = tuple(most if i == at else n for i, n in enumerate(short.out.shape))
    if replace(short, out=replace(short.out, shape=longest)) != long:
        return None
    return replace(long, counts_rows=True), True


def _transpose(long: TransposeSpec, short: TransposeSpec, most: int, length: int) -> _Merged | None:
    """A transpose from or to an array of the caller's whose rows are as long as the run says, such as N, C, L."""
    nests = long.nest, short.nest
    free = [i for i, (n, m) in enumerate(zip(nests[0].shape, nests[1].shape, strict=False)) if n != m]
    if len(nests[0].shape) != len(nests[1].shape) or len(free) != 1:
        return None
    pairs = {
        (number, dim): (nests[0].strides[number][dim], nests[1].strides[number][dim])
        for number in (0, 1)
        for dim in range(len(nests[0].shape))
    }
    scaled = tuple(place for place, (n, m) in pairs.items() if n != m)
    merged = replace(long, free=free[0], longest=most, scaled=scaled)
    lengths = [nest.shape[free[0]] for nest in nests], *(pairs[place] for place in scaled)
    outer_rows = free[0] in long.outer and merged.row_loops[0][0] == free[0] == long.outer[0]
    inside = {(0, len(nests[0].shape) - 1), (1, long.across)}
    if not scaled or not inside.issuperset(scaled) or replace(short, nest=nests[0]) != long:
        return None
    if not all(per_index_of(n, m, most, length) for n, m in lengths) or (free[0] in long.outer and not outer_rows):
        return None
    return merged, True


def rows_at(spec: KernelSpec, count: Count) -> Count | None:
    """Return the rows of a kernel that reads a count, in blocks of it; None: as many as tensors have, or all."""
    if not isinstance(spec, TransposeSpec):
        return None
    per_count = spec.nest.shape[spec.free] // spec.longest
    blocks = quotient_of(sum_of(product_of(per_count, count), spec.free_block - 1), spec.free_block)
    return product_of(spec.rows // spec.row_loops[0][1], blocks)


def per_index_of(long: int, short: int, most: int, length: int) -> int | None:
    """Return how many of a count are of each index; 0 if it is fixed, None if it is no multiple of the length."""
    if long == short:
        return 0
    return long // most if long % most == 0 and long // most * length == short else None


_MERGES: Mapping[type[KernelSpec], _Merge] = MappingProxyType(
    {
        BlockProduct: _block_product,
        ConvTranspose2d: _conv_transpose,
        DynamicRange: _dynamic_range,
        Extremes: partial(_nest, name="nest"),
        PadBorder: _border,
        Pool: _pool,
        QAvgPoolSpec: _pool,
        QMeanSpec: partial(_nest, name="reduced"),
        ScatterSpec: _scatter,
        TransposeSpec: _transpose,
    }
)


def has_all_rows(spec: KernelSpec) -> bool:
    """Return True if a kernel that reads the length computes all rows at every length, also those behind it."""
    return isinstance(spec, Extremes)


def merge_by_length(specs: Sequence[KernelSpec], indices: Sequence[int]) -> _Merged | None:
    """Return the spec for the longest length of a kernel that takes every length, and whether it reads the length.

    specs: at several lengths, of which the first is the longest, and the others may be equal to it. indices: the
    lengths of an axis there. None: no such kernel, or they differ otherwise.
    """
    longest, merge = specs[0], _MERGES.get(type(specs[0]))
    if merge is None or any(type(spec) is not type(longest) for spec in specs):
        return None
    pairs = zip(specs[1:], indices[1:], strict=True)
    found = [merge(longest, spec, indices[0], count) for spec, count in pairs if spec != longest]
    return found[0] if found and all(each == found[0] for each in found) else None
