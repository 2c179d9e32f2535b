"""Kernels whose first rows of work are all the rows of a shorter length.

Where the kernels of a step are equal except for the count of their outermost loop, the kernel for the longest lengths
computes, in its first rows, what a kernel for shorter ones computes in all of its rows: the count is the bound of a
loop, and neither strides nor sums depend on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeGuard

from mavcg.kernels.block_weights.expand import ExpandedBlocks
from mavcg.kernels.block_weights.spec import Lines, QuantizedBlocks
from mavcg.kernels.builder.nest import Nest, NestKernel
from mavcg.kernels.conv.depthwise import Depthwise
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.conv.transpose_phases import ConvTranspose2d
from mavcg.kernels.conv.unpacked_matmul import MatMul
from mavcg.kernels.int8.integer_sums import IntegerConv2d, IntegerDepthwise
from mavcg.kernels.int8.matmul import QMatMul
from mavcg.kernels.int8.mean_pool import QAvgPoolSpec
from mavcg.kernels.int8.means import QMeanSpec
from mavcg.kernels.int8.specs import QConv2d, QDepthwise
from mavcg.kernels.tensor.arg_reduce import ArgReduce
from mavcg.kernels.tensor.arg_top import ArgTop
from mavcg.kernels.tensor.copies import CopySpec
from mavcg.kernels.tensor.cumulative import Cumulative
from mavcg.kernels.tensor.elementwise import ElementwiseSpec
from mavcg.kernels.tensor.gather import GatherSpec, LookupSpec
from mavcg.kernels.tensor.layer_norm import LayerNormSpec
from mavcg.kernels.tensor.local_response import LrnSpec
from mavcg.kernels.tensor.pad import PadBorder
from mavcg.kernels.tensor.pool import Pool
from mavcg.kernels.tensor.reduce import Reduce
from mavcg.kernels.tensor.resample import ResampleSpec
from mavcg.kernels.tensor.run_indices import FlatIndexSpec
from mavcg.kernels.tensor.softmax import Softmax
from mavcg.kernels.tensor.transpose import TransposeSpec
from mavcg.kernels.tensor.tree_leaves import TreeLeaves
from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.row_kernel import RowKernel

# The fields of a spec whose first length, apart from lengths of 1, counts the outermost loop over rows of work.
_COUNTED: Mapping[type[KernelSpec], tuple[str, ...]] = MappingProxyType(
    {
        ArgReduce: ("kept",),
        ArgTop: ("lines",),
        Conv2d: ("x", "out", "residual"),
        ConvTranspose2d: ("x", "out"),
        CopySpec: ("nest",),
        Cumulative: ("outer",),
        Depthwise: ("x", "out", "residual"),
        ElementwiseSpec: ("nest",),
        ExpandedBlocks: ("w", "scales", "zeros", "out"),
        FlatIndexSpec: ("nest",),
        GatherSpec: ("nest",),
        IntegerConv2d: ("x", "out", "residual"),
        IntegerDepthwise: ("x", "out", "residual"),
        LayerNormSpec: ("outer",),
        LookupSpec: ("nest",),
        LrnSpec: ("outer",),
        MatMul: ("batch",),
        PadBorder: ("out",),
        Pool: ("x", "out"),
        QAvgPoolSpec: ("x", "out"),
        QConv2d: ("x", "out", "residual"),
        QDepthwise: ("x", "out"),
        QMatMul: ("batch",),
        QMeanSpec: ("kept",),
        QuantizedBlocks: ("x", "gate"),
        Reduce: ("kept",),
        ResampleSpec: ("nest",),
        Softmax: ("outer",),
        TransposeSpec: ("nest",),
        TreeLeaves: ("samples",),
    }
)

MATRIX_STRIDES = ("a_strides", "b_strides", "out_strides", "residual_strides")  # of products of two matrices


def counted_spec(specs: Sequence[KernelSpec], indices: Sequence[int]) -> KernelSpec | None:
    """Return a spec whose rows may end after any index; None if that is not so.

    specs: of a step, whose outermost loops go over these numbers of indices.
    """
    longest = specs[0]
    if type(longest) not in _COUNTED or any(type(spec) is not type(longest) for spec in specs):
        return None
    pairs = zip(specs[1:], indices[1:], strict=True)
    found = [_first_rows(longest, spec, indices[0], count) for spec, count in pairs]
    return None if any(spec is None for spec in found) else found[0]


def _first_rows(long: KernelSpec, short: KernelSpec, most: int, length: int) -> KernelSpec | None:
    """Return the spec whose rows are those of `most` indices, each by itself; None if its first rows are not those of
    `short`, which has `length` indices."""
    spec, other = _single_rows(long, most), _single_rows(short, length)
    if _is_column(spec) and _is_column(other):  # windows read as many rows of x as those of out need
        other = replace(other, x=replace(other.x, shape=(1, spec.x.shape[1], *other.x.shape[2:])))  # type: ignore[call-arg]
        resized = _resize(spec, most, length, ("out", "residual"))
    else:
        resized = _resize(spec, most, length)
    inside = isinstance(spec, TransposeSpec) and spec.outer[:1] != (0,)
    whole = spec.rows % most == 0 and other.rows * most == spec.rows * length
    if inside or not whole or plain_spec(resized) != plain_spec(other):
        return None
    return spec


def _is_column(spec: KernelSpec) -> TypeGuard[RowKernel]:
    """Return True for windows over the height of a single image."""
    return isinstance(spec, RowKernel) and spec.x.shape[0] == spec.out.shape[0] == 1


def _single_rows(spec: KernelSpec, count: int) -> KernelSpec:
    """Return the spec with the loop over `count` indices apart from the loops inside, if it counts rows by a nest."""
    match spec:
        case NestKernel() if spec.nest.shape[0] % count == 0:
            return replace(spec, nest=_single(spec.nest, count))  # type: ignore[call-arg]
        case FlatIndexSpec() | ResampleSpec() if spec.nest.shape[0] % count == 0:
            return replace(spec, nest=_single(spec.nest, count))
        case QMeanSpec() if spec.kept.shape[0] % count == 0:
            return replace(spec, kept=_single(spec.kept, count))
    return spec


def _single(nest: Nest, count: int) -> Nest:
    """Return the nest with `count` indices of its outermost loop, each a row of work or several."""
    inside, rest = nest.shape[0] // count, nest.shape[1:]
    if inside == 1 and rest:
        return replace(nest, single=True)
    # The stride of a loop of length 1 is free: 1 lets vectors of a line be loaded and stored, 0 is for a broadcast.
    strides = tuple((s[0] * inside, s[0] if inside > 1 else min(s[0], 1), *s[1:]) for s in nest.strides)
    return Nest((count, inside, *rest), strides, single=True)


def _resize(spec: KernelSpec, most: int, length: int, among: Sequence[str] | None = None) -> KernelSpec:
    """Return the spec for `length` indices in place of `most`; the spec itself where it does not count them.

    among: the fields that are changed; None: all that count.
    """
    names = [name for name in _COUNTED[type(spec)] if among is None or name in among]
    changed = {name: _with_count(getattr(spec, name), most, length) for name in names}
    return replace(spec, **changed)


def _with_count(value: View | Nest | Lines | Sequence[int] | None, most: int, length: int) -> object:
    match value:
        case None:
            return None
        case Lines():
            return replace(value, count=value.count // most * length)
        case Nest() | View():
            return replace(value, shape=_with_first(value.shape, most, length))
    return _with_first(value, most, length)


def _with_first(shape: Sequence[int], most: int, length: int) -> tuple[int, ...]:
    """Return a shape with its first length other than 1 for `length` indices in place of `most`; -1 if it does not
    count them."""
    at = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return (*shape[:at], *(-1 if n % most else n // most * length for n in shape[at : at + 1]), *shape[at + 1 :])


def plain_spec(spec: KernelSpec) -> KernelSpec:
    """Return the spec with strides along dimensions of length 1, which have no meaning, as 0."""
    plain: dict[str, object] = {}
    for name in _COUNTED.get(type(spec), ()):
        match getattr(spec, name):
            case View() as view:
                plain[name] = replace(view, strides=_meaningful(view.shape, view.strides))
            case Nest() as nest:
                strides = tuple(_meaningful(nest.shape, strides) for strides in nest.strides)
                plain[name] = replace(nest, strides=strides)
    if isinstance(spec, MatMul | QMatMul):
        for name in MATRIX_STRIDES:
            if (own := getattr(spec, name, None)) is not None:
                plain[name] = (*_meaningful(spec.batch, own[:-2]), *own[-2:])
    return replace(spec, **plain) if plain else spec


def _meaningful(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(stride if length > 1 else 0 for length, stride in zip(shape, strides, strict=True))
