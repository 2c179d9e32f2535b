"""Kernel specs, views, operands and steps: the frozen types between a node of a graph and its machine code.

A *kernel* is one LLVM IR function, `void f(ptr args, i64 begin, i64 end, ptr scratch)`. args points to an array with a
pointer for each operand, to the first element of its tensor or packed constant. begin and end are a range of the
kernel's rows of work; disjoint ranges may be computed at the same time and in any order. scratch is memory of the
calling thread.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mavcg.graph import DTYPES, TensorType
from mavcg.graph.counts import Count
from mavcg.graph.layout import dense_strides
from mavcg.hardware.machine import Machine as Machine
from mavcg.specs.packed_constant import WHOLE_WEIGHTS, PackedConstant, WeightParts
from mavcg.specs.serialize import spec_format
from mavcg.specs.sums_of_products import F32_BYTES as F32_BYTES
from mavcg.specs.sums_of_products import SumsOfProducts
from mavcg.specs.work_counts import WorkCounts

Array = NDArray[Any]


@spec_format("view")
@dataclass(frozen=True)
class View:
    """Memory layout of a tensor: element (i, j, ..) lies i * strides[0] + j * strides[1] + .. elements from its
    pointer.

    strides: in elements, one per dimension; the stride of a dimension of length 1 has no meaning. A tensor inside of a
    padded or concatenated buffer has larger strides than its shape needs.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def item_bytes(self) -> int:
        """Size of one element, in bytes."""
        return DTYPES[self.dtype].itemsize

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def dense(self) -> bool:
        """True if the elements are contiguous in row-major order."""
        return all(
            length == 1 or have == want
            for length, have, want in zip(self.shape, self.strides, dense_strides(self.shape), strict=True)
        )


def dense_view(tensor: TensorType) -> View:
    """Return the view of a tensor in a buffer of its own."""
    return View(tensor.dtype, tensor.shape, dense_strides(tensor.shape))


# Terms of a bf16 sum that products of pairs, of matrices, and of tile registers' rows take at once.
BF16_PAIR_TERMS, BF16_TERMS, BF16_TILE_TERMS = 2, 4, 32


@dataclass(frozen=True)
class Packing:
    """The layout of packed constants, which all versions of a library's kernels share (docs/design/kernels.md).

    lanes: output channels in a panel of packed weights; a multiple of every version's f32 vector length. terms: most
    neighbouring terms of an 8-bit sum that the weights of a channel keep together: 4 for dot products, 8 for products
    of matrices. bf16_terms: the same of a bf16 sum: 2 for products of pairs, 4 for products of matrices, 1 where
    factors are widened to f32; 32 for blocks of up to 32 terms, of which two lie together. int8_tiles: True if a
    version has tiles of 8-bit sums, for which runs of inputs are filled up to whole groups where rows are long enough.
    byte_pairs: True if all cores add pairs of products of bytes as i16 (x86 without dot products): weights that are too
    large for such sums are then packed in two parts.
    pixel_lanes: `lanes` of products of a single pixel that have many channels; 0: as of others. long_blocks: True if
    Winograd's blocks may have so many tiles that they take as many bytes as the weights (winograd/family.py).
    """

    lanes: int
    terms: int = 4
    bf16_terms: int = 1
    int8_tiles: bool = False
    byte_pairs: bool = False
    pixel_lanes: int = 0
    long_blocks: bool = False


@dataclass(frozen=True)
class Operand:
    """An operand of a kernel: a tensor of the graph, a constant, a workspace, or the run's fault word.

    tensor: its name, or "". constant: an array or the recipe of one. written: True if the kernel writes it. align:
    alignment of a constant, in bytes. workspace_bytes: size of the memory that all steps of the node share, which is
    uninitialised at first. offset: from the beginning of the tensor, constant or workspace, in bytes. fault_word: True
    for the 32 bits of a run that a kernel sets to 1 if an index of the input is out of range. count: for 32 bits
    with a number that follows from the lengths of a run (graph/counts.py).
    """

    tensor: str = ""
    constant: Array | PackedConstant | None = None
    written: bool = False
    align: int = 64
    workspace_bytes: int = 0
    offset: int = 0
    fault_word: bool = False
    count: Count | None = None

    @property
    def in_buffer(self) -> bool:
        """True if the operand lies in a buffer, that is if it is neither a constant nor a word of the context."""
        return self.constant is None and not self.fault_word and self.count is None


# Of a spec's integers that a run sets: for each (path, word), where the path leads to the integer, "nest.strides.0.1",
# and the word is the number of an operand of 32 bits, counted from the first such operand, which are the last ones. The
# integer in the spec is that of the longest lengths; of one with a minus before its path it is negative.
Words: TypeAlias = tuple[tuple[str, int], ...]


def arithmetic_of(dtype: str) -> str:
    """Return the type in which elements of a type are multiplied; f32 for integers of more than a byte, whose products
    no instruction makes faster."""
    if DTYPES[dtype].itemsize == 1:
        return "i8"
    return dtype if dtype in ("f64", "f16", "bf16") else "f32"


@dataclass(frozen=True)
class KernelSpec(ABC):
    """Base class of kernel specs: everything that decides a kernel's code except the core.

    Nodes with equal specs share one function. Every field is hashable, and each class has @spec_format, as the
    function's name ends in a digest of the serialised spec.
    """

    @property
    @abstractmethod
    def family(self) -> str:
        """Operation and type of the first operand, such as conv2d_f32: the first part of the function's name."""

    @property
    def symbol_shape(self) -> str:
        """Layouts, sizes, sum and window in the function's name, such as nhwc_1x24x24x64_3x3x16s2
        (kernel_symbol.py)."""
        return ""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of rows of work; the whole range is 0 to rows."""

    @property
    def scratch_bytes(self) -> int:
        """Scratch of each thread, in bytes."""
        return 0

    @property
    def shared_rows(self) -> int:
        """Number of rows of a call for which weights are read once; 1 if each row reads them."""
        return 1

    @property
    def least_shared_rows(self) -> int:
        """Number of rows that are worth a read of the weights, where threads share them: at most shared_rows."""
        return self.shared_rows

    @property
    def work(self) -> int:
        """Approximate number of elementary operations of the whole range, from which sizes of chunks follow."""
        return self.rows

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates of the operator's definition; 0 if it is not a sum of products."""
        return 0

    @property
    def multiply_adds(self) -> int:
        """Number of multiply-adds of the kernel's own algorithm, which may need fewer than the definition; an addition
        of a transform counts as one."""
        return self.macs

    @property
    def arithmetic(self) -> str:
        """Type in which the kernel multiplies: f32, f64, f16, bf16, i8 for bytes, or i16 for bytes of which i16 cannot
        hold two products, so that x86 without dot products widens them."""
        return "f32"

    @property
    def products(self) -> SumsOfProducts | None:
        """The sizes of the sums of products if macro-tiles can be planned for the kernel, else None."""
        return None

    @property
    def by_channels(self) -> bool:
        """True if a row of work is a range of output channels of all images, so that every row reads the whole
        input."""
        return False

    @property
    def keeps_order(self) -> bool:
        """True if LLVM's machine scheduler, which orders instructions for latency, makes the kernel spill more."""
        return False

    @property
    def disjoint_reads(self) -> bool:
        """True if no two rows of work read the same data."""
        return False

    @property
    def weight_parts(self) -> WeightParts:
        """The division of the weights into parts, of which a row of work reads one."""
        return WHOLE_WEIGHTS

    def loaded_iterations(self, weight_bytes: int) -> float | None:
        """Return the mean trip count of loops whose bounds are loaded from weights of this size; None without such
        loops."""
        return None

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts | None:
        """Return the counted work of all rows; None for a kernel for which no constants are fitted.

        weight_bytes: size of the weights, for kernels whose spec does not have it.
        """
        return None

    @property
    def compute_bound(self) -> bool:
        """True if the multiply-accumulates take most of the time on every core."""
        return False

    @property
    def out_view(self) -> View | None:
        """The view of the written tensor; None if the spec does not have it."""
        return None

    @property
    def accessed_elements(self) -> int | None:
        """Number of elements of the written tensor that the kernel accesses; None: all."""
        return None

    @property
    def panel_channels(self) -> int:
        """Output channels of a panel of packed weights; 0 without packed weights."""
        return 0


@dataclass(frozen=True)
class Step:
    """A kernel with its operands, in the engine's program. origin: node of the user's file."""

    spec: KernelSpec
    operands: tuple[Operand, ...]
    origin: str = ""
