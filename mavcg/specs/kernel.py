"""Kernel specs, views, operands and steps: the frozen types between a node of a graph and its machine code.

A *kernel* is one LLVM IR function, `void f(ptr args, i64 begin, i64 end, ptr scratch)`. args points at an array of
pointers, one an operand, each to the first element of its tensor or packed constant. begin and end are a range of the
kernel's rows: whatever it counts its work in, such that any two ranges may run at once and in any order. scratch
belongs to the calling thread alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.graph import DTYPES, TensorType
from mavcg.specs.packed_constant import PackedConstant
from mavcg.specs.serialize import spec_format
from mavcg.specs.weight_parts import WHOLE_WEIGHTS, WeightParts

Array = NDArray[Any]
F32_BYTES = 4


@spec_format("view")
@dataclass(frozen=True)
class View:
    """Memory layout of a tensor: element i, j, .. is at the sum of index x stride from the tensor's pointer.

    strides: in elements, one a dimension; that of a dimension of length 1 says nothing. A tensor inside a padded or
    concatenated buffer has strides larger than its shape needs.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return DTYPES[self.dtype].itemsize

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def dense(self) -> bool:
        """True if the elements lie row-major with nothing between them."""
        return all(
            length == 1 or have == want
            for length, have, want in zip(self.shape, self.strides, dense_strides(self.shape), strict=True)
        )


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the row-major strides of a dense array, in elements."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def dense_view(tensor: TensorType) -> View:
    """Return the view of a tensor that has a buffer to itself."""
    return View(tensor.dtype, tensor.shape, dense_strides(tensor.shape))


@dataclass(frozen=True)
class Machine:
    """Properties of the core that an emitter generates code for. They change speed, never results.

    arch: "aarch64" or "x86_64". llvm_cpu, llvm_features: for the function's attributes, features with their sign.
    vector_bytes: of one vector register, as far as it pays to use it; vector_registers: how many there are.
    in_order: whether the order of instructions matters. dot_product: 8-bit sums of four products into 32 bits in one
    instruction (NEON dot product, AVX-VNNI or AVX512-VNNI). A fused multiply-add of f32 is everywhere: on x86 a
    library for models needs x86-64-v3 at least.
    """

    name: str
    arch: str
    llvm_cpu: str
    llvm_features: tuple[str, ...] = ()
    vector_bytes: int = 16
    vector_registers: int = 32
    in_order: bool = False
    dot_product: bool = False


@dataclass(frozen=True)
class Packing:
    """Layout of packed constants that all versions of a library's kernels share (docs/design/kernels.md).

    lanes: output channels in a panel of packed weights; a multiple of every version's f32 vector length.
    """

    lanes: int


@dataclass(frozen=True)
class Operand:
    """One entry of a kernel's args: a tensor of the graph by name, the bytes of a packed constant, or a workspace.

    fault_word: instead of these, the 32 bits of a run that a kernel makes 1 where an index from outside does not exist.
    written: the kernel writes it. align: of a constant, in bytes. workspace_bytes: of memory that all steps of the node
    share, and that holds anything at first. offset: in bytes, from where any of these begins.
    """

    tensor: str = ""
    constant: Array | PackedConstant | None = None
    written: bool = False
    align: int = 64
    workspace_bytes: int = 0
    offset: int = 0
    fault_word: bool = False

    @property
    def in_buffer(self) -> bool:
        """True if the operand lies in a buffer of the run: it is neither a constant nor the run's fault word."""
        return self.constant is None and not self.fault_word


@dataclass(frozen=True)
class SumsOfProducts:
    """Sizes of a kernel's sums of products, as cache blocking and the choice of register tiles need them.

    out_channels, in_channels: of a group. rows, columns: output pixels, the rows of all images one below the other.
    kernel, stride, dilation: height, width. read_rows, read_columns: of the input that is read. panel: output channels
    of a row of work where that is cut along the channels. packed: weights are packed in panels. partial_sums: outputs
    can hold partial sums between blocks of terms. step_terms: terms that a step of a register tile takes. residual: one
    is added to the outputs. plain_rows: rows of a block where nothing is known of the caches; None: all.
    channels_outer: without a plan weights stay while rows pass over them. row_blocks: rows can be cut into blocks.
    shared_prefetch: register tiles can share a prefetch of the next channels' weights. single_panels: where work is
    cut along the channels, panels are computed one by one.
    """

    out_channels: int
    in_channels: int
    rows: int
    columns: int
    kernel: tuple[int, int] = (1, 1)
    read_rows: int = 1
    read_columns: int = 1
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    item_bytes: int = F32_BYTES
    panel: int = 1
    packed: bool = False
    partial_sums: bool = True
    step_terms: int = 1
    residual: bool = False
    plain_rows: int | None = None
    channels_outer: bool = False
    row_blocks: bool = False
    shared_prefetch: bool = False
    single_panels: bool = False


@dataclass(frozen=True)
class KernelSpec(ABC):
    """All that decides a kernel's code; two nodes with equal specs share one function. Families derive from it.

    Every field is hashable, and each class has @spec_format: the function's name ends in a digest of the serialised
    spec. No field depends on the core.
    """

    @property
    @abstractmethod
    def family(self) -> str:
        """Operation and type of the first operand, such as conv2d_f32; the first part of the function's name."""

    @property
    def symbol_shape(self) -> str:
        """Layouts, sizes, sum and window as the function's name has them (specs/kernel_symbol.py), such as
        nhwc_1x24x24x64_3x3x16s2."""
        return ""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The whole range: 0 to rows."""

    @property
    def scratch_bytes(self) -> int:
        """Scratch that a thread needs, in bytes."""
        return 0

    @property
    def shared_rows(self) -> int:
        """Rows of a call that are computed from one reading of the weights; 1 where each row reads them anyway."""
        return 1

    @property
    def work(self) -> int:
        """About how many elementary operations the whole range takes: for the size of tasks."""
        return self.rows

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the definition, of the whole range; 0 where nothing is a sum of products."""
        return 0

    @property
    def products(self) -> SumsOfProducts | None:
        """Sizes of the sums of products, if macro-tiles can be planned for the kernel; else None."""
        return None

    @property
    def by_channels(self) -> bool:
        """True if a row of work is output channels of all images, so that every row reads the whole input."""
        return False

    @property
    def disjoint_reads(self) -> bool:
        """True if no two rows of work read the same data."""
        return False

    @property
    def weight_parts(self) -> WeightParts:
        """Parts of the weights, of which a row of work reads one."""
        return WHOLE_WEIGHTS

    def loaded_iterations(self, weight_bytes: int) -> float | None:
        """Return the mean iterations of the loops whose bounds are loaded from weights of so many bytes; None: there
        are none."""
        return None

    @property
    def compute_bound(self) -> bool:
        """True if the time is that of the multiply-accumulates on every core."""
        return False

    @property
    def out_view(self) -> View | None:
        """The view of the tensor that is written; None where it is not known as one."""
        return None

    @property
    def accessed_elements(self) -> int | None:
        """Elements of the tensor written that the kernel touches; None: all of them."""
        return None

    @property
    def panel_channels(self) -> int:
        """Output channels in a panel of packed weights; 0 where weights are not packed, or there are none."""
        return 0


@dataclass(frozen=True)
class Step:
    """A kernel and its operands: what a node is lowered to."""

    spec: KernelSpec
    operands: tuple[Operand, ...]
    origin: str = ""
