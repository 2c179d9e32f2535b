"""Integers of a spec that its kernel can read in a run, under which conditions, and the rows of work by these.

A spec of another kind than those here has a kernel of its lengths alone. Some integers no kernel reads, so they may be
any in a run; others have to be at least 1, or make sums of the same bits only under conditions on strides.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mavcg.choose.lengths.first_rows import MATRIX_STRIDES
from mavcg.choose.lengths.run_views import RunView
from mavcg.graph.counts import Count, Dimension, bounds_of, product_of, quotient_of, sum_of, value_at
from mavcg.kernels.attention.spec import Attention
from mavcg.kernels.builder.nest import Nest, NestKernel
from mavcg.kernels.conv.depthwise import Depthwise
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.conv.transpose_phases import ConvTranspose2d
from mavcg.kernels.conv.unpacked_matmul import PIECE_ROWS, MatMul
from mavcg.kernels.int8.integer_sums import IntegerConv2d, IntegerDepthwise
from mavcg.kernels.int8.mean_pool import QAvgPoolSpec
from mavcg.kernels.int8.specs import EightBitConvolution, QConv2d, QDepthwise
from mavcg.kernels.tensor.arg_reduce import ArgReduce
from mavcg.kernels.tensor.arg_top import ArgTop
from mavcg.kernels.tensor.copies import CopySpec
from mavcg.kernels.tensor.cumulative import Cumulative
from mavcg.kernels.tensor.elementwise import ElementwiseSpec
from mavcg.kernels.tensor.gather import GatherSpec
from mavcg.kernels.tensor.layer_norm import LayerNormSpec
from mavcg.kernels.tensor.local_response import LrnSpec
from mavcg.kernels.tensor.pad import PadBorder, PadMapped
from mavcg.kernels.tensor.pool import Pool
from mavcg.kernels.tensor.reduce import Reduce
from mavcg.kernels.tensor.resample import ResampleSpec
from mavcg.kernels.tensor.run_indices import FlatIndexSpec, ScatterSpec
from mavcg.kernels.tensor.softmax import Softmax
from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.row_kernel import RowKernel

_OF_POOLS = ("x.shape", "out.shape", "x.strides", "out.strides", "pads.0", "pads.1")
_OF_IMAGES = (
    "out.shape.1",
    "out.shape.2",
    *(f"{name}.strides.{i}" for name in ("x", "out", "residual") for i in (0, 1)),
)
# The integers of a spec that its kernel can read in a run: paths, or the beginnings of paths.
_OF_RUN: Mapping[type[KernelSpec], tuple[str, ...]] = MappingProxyType(
    {
        ArgReduce: ("kept", "length", "stride"),
        ArgTop: ("lines", "length", "stride", "out_stride"),
        Attention: (
            "outer",
            "keys",
            *(f"{name}.{dim}" for name in ("query", "key", "value", "out") for dim in (0, 2)),
            *(f"mask.{dim}" for dim in (0, 1, 2)),
        ),
        Conv2d: _OF_IMAGES,
        ConvTranspose2d: (*_OF_IMAGES, "x.shape.1", "x.shape.2"),
        CopySpec: ("nest", "source_offset", "target_offset"),
        Cumulative: ("outer", "axis", "line"),
        Depthwise: _OF_IMAGES,
        ElementwiseSpec: ("nest",),
        FlatIndexSpec: ("nest", "lengths", "index_strides"),
        GatherSpec: ("nest", "length", "step"),
        LayerNormSpec: ("outer", "inner.shape"),
        LrnSpec: ("outer",),
        MatMul: ("batch", "m", "k", "n", *MATRIX_STRIDES),
        PadBorder: ("out", "before", "after"),
        PadMapped: ("x", "out"),
        Pool: _OF_POOLS,
        QAvgPoolSpec: _OF_POOLS,
        **dict.fromkeys((IntegerConv2d, IntegerDepthwise, QConv2d, QDepthwise), _OF_IMAGES),
        Reduce: ("kept", "reduced"),
        ResampleSpec: ("nest", "length", "step"),
        ScatterSpec: ("count", "length"),
        Softmax: ("outer", "axis", "line"),
    }
)
# Integers that no kernel reads: the rows of all images are a step's rows of work, and windows end where rows do.
_UNREAD: Mapping[type[KernelSpec], tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(
            (Conv2d, Depthwise, IntegerConv2d, IntegerDepthwise, QConv2d, QDepthwise),
            ("x.shape", "out.shape.0", "residual.shape"),
        ),
        ConvTranspose2d: ("x.shape.0", "out.shape.0"),
        **dict.fromkeys((Pool, QAvgPoolSpec), ("x.shape.0", "out.shape.0", "pads.2", "pads.3")),
    }
)
# For specs of images: the number of the operand of each of their views; -1: the last one.
VIEWS: Mapping[type[KernelSpec], Mapping[str, int]] = MappingProxyType(
    {
        **dict.fromkeys(
            (Conv2d, Depthwise, IntegerConv2d, IntegerDepthwise, QConv2d), {"x": 0, "out": 2, "residual": -1}
        ),
        QDepthwise: {"x": 0, "out": 2},
        ConvTranspose2d: {"x": 0, "out": 2},
        PadBorder: {"out": 0},
        PadMapped: {"x": 0, "out": 1},
        **dict.fromkeys((Pool, QAvgPoolSpec), {"x": 0, "out": 1}),
    }
)
# Kernels that read no element of a tensor that has none in a run.
_TAKES_NOTHING = (CopySpec, Cumulative, ElementwiseSpec, Reduce, Softmax)
_AT_FIXED_PLACES = (Attention, GatherSpec)  # kernels whose operands begin where they do at all lengths


def has_run_numbers(spec: KernelSpec) -> bool:
    """Return True if a spec's kernel can read numbers of the run."""
    return type(spec) in _OF_RUN


def is_unread(spec: KernelSpec, path: str) -> bool:
    """Return True for an integer of a spec, by its path, that its kernel does not read."""
    return _begins(path, _UNREAD.get(type(spec), ()))


def has_meaning(spec: KernelSpec, path: str) -> bool:
    """Return False for a stride of a spec, by its path, along a dimension of length 1."""
    if not isinstance(spec, MatMul) or not _begins(path, MATRIX_STRIDES):
        return True
    return path not in {f"{name}.{at}" for name in MATRIX_STRIDES for at, n in enumerate(spec.batch) if n == 1}


def may_go_back(spec: KernelSpec, path: str) -> bool:
    """Return True for a stride of a spec, by its path, that may be negative in a run, as of a reversed slice."""
    return isinstance(spec, CopySpec) and _begins(path, ("nest.strides.0",))


def begins_anywhere(spec: KernelSpec) -> bool:
    """Return True if the tensors of a kernel may begin elsewhere in their buffers at other lengths."""
    return type(spec) not in _AT_FIXED_PLACES


def computes_alike(
    spec: KernelSpec, read: Mapping[str, Count], image: RunView | None, dimensions: Sequence[Dimension]
) -> bool:
    """Return True if a kernel has the same results with these integers as numbers of the run.

    read: integers of the spec that the kernel reads, by path. image: place of its first operand, where it is known.
    """
    if not all(_begins(path, _OF_RUN[type(spec)]) for path in read):
        return False
    if type(spec) not in _TAKES_NOTHING and any(_can_be_nothing(*each, dimensions) for each in read.items()):
        return False
    match spec:
        case LayerNormSpec(inner=Nest(shape=(_, _, *_))):  # it reads the length of a single inner loop
            return not any(_begins(path, ("inner",)) for path in read)
        case MatMul():
            last = len(spec.batch) + 1
            return spec.dtype != "f16" and read.keys().isdisjoint(f"{name}.{last}" for name in MATRIX_STRIDES)
        case Softmax(line=1):
            return read.keys().isdisjoint(("axis.1", "axis.2"))
        case Reduce(reduced=Nest(strides=((*_, 1), *_))):
            return f"reduced.strides.0.{len(spec.reduced.shape) - 1}" not in read
    return "x.strides.1" not in read or _has_free_tap_rows(spec, image, dimensions)


def _begins(path: str, beginnings: Sequence[str]) -> bool:
    return any(f"{path}.".startswith(f"{each}.") for each in beginnings)


def _can_be_nothing(path: str, count: Count, dimensions: Sequence[Dimension]) -> bool:
    """Return True for a length that may be 0 in a run; strides and pads may."""
    least = {dimension.name: dimension.least for dimension in dimensions}
    free = "strides" in path or _begins(path, ("before", "after", "pads"))
    return not free and not value_at(count, least)


def _has_free_tap_rows(spec: KernelSpec, image: RunView | None, dimensions: Sequence[Dimension]) -> bool:
    """Return True if a window's rows of taps may lie anywhere, with the same sums.

    Sums of f16 are cut otherwise where a row of taps continues the one before it, as in images that are as wide as the
    window: so no image may be. image: place of the first operand.
    """
    match spec:
        case EightBitConvolution():
            return spec.free_tap_rows
        case ConvTranspose2d():
            return spec.packed
        case Conv2d(x=View(dtype="f16"), kernel=(height, width), dilation=(down, right)) if height > 1:
            return image is not None and down * bounds_of(image.shape[2], dimensions)[0] > right * width
    return True


def rows_of(spec: KernelSpec, counts: Mapping[str, Count]) -> Count:
    """Return the rows of work of a spec in a run. counts: its integers, by path."""
    match spec:
        case NestKernel() | ResampleSpec():
            at, block = spec.nest.row_split
            outer = (counts[f"nest.shape.{i}"] for i in range(at))
            return product_of(*outer, quotient_of(sum_of(counts[f"nest.shape.{at}"], block - 1), block))
        case ArgReduce():
            return product_of(*(counts[f"kept.shape.{i}"] for i in range(len(spec.kept.shape))))
        case ArgTop():
            return product_of(*(counts[f"lines.shape.{i}"] for i in range(len(spec.lines.shape))))
        case Cumulative() | LayerNormSpec() | LrnSpec() | Softmax():
            return product_of(*(counts[f"outer.shape.{i}"] for i in range(len(spec.outer.shape))))
        case FlatIndexSpec():
            positions = product_of(*(counts[f"nest.shape.{i}"] for i in range(len(spec.nest.shape))))
            return quotient_of(sum_of(positions, spec.row_positions - 1), spec.row_positions)
        case ScatterSpec():
            return spec.rows
        case Attention():
            return product_of(counts["outer.0"], counts["outer.1"], spec.heads[1])
        case MatMul():
            batch = (counts[f"batch.{i}"] for i in range(len(spec.batch)))
            return product_of(*batch, quotient_of(sum_of(counts["m"], PIECE_ROWS - 1), PIECE_ROWS))
        case RowKernel():
            return product_of(counts["out.shape.0"], counts["out.shape.1"])
        case PadBorder():
            return counts[f"out.shape.{spec.axis}"]
        case PadMapped():
            return product_of(*(counts[f"out.shape.{i}"] for i in range(len(spec.out.shape) - 1)))
        case Reduce():
            return product_of(*(counts[f"kept.shape.{i}"] for i in range(len(spec.kept.shape) - spec.along)))
    raise AssertionError(f"{type(spec).__name__} reads no numbers of the run")
