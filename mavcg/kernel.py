"""What passes between a node of a graph and the machine code that computes it: plain frozen types.

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

Array = NDArray[Any]
F32_BYTES = 4


@dataclass(frozen=True)
class View:
    """How a tensor lies in memory: element i, j, .. is at the sum of index x stride from the tensor's pointer.

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
        """How many elements it has."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def dense(self) -> bool:
        """Whether its elements lie row-major with nothing between them."""
        return all(
            length == 1 or have == want
            for length, have, want in zip(self.shape, self.strides, dense_strides(self.shape), strict=True)
        )


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of a dense array, in elements."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def dense_view(tensor: TensorType) -> View:
    """The view of a tensor that has a buffer to itself."""
    return View(tensor.dtype, tensor.shape, dense_strides(tensor.shape))


@dataclass(frozen=True)
class Machine:
    """What an emitter knows about the core it emits for. It changes speed, never results.

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
    """What all versions of a library's kernels agree on about packed constants (docs/design/kernels.md).

    lanes: output channels in a panel of packed weights; a multiple of every version's f32 vector length.
    """

    lanes: int


@dataclass(frozen=True)
class Operand:
    """One entry of a kernel's args: a tensor of the graph by name, the bytes of a packed constant, or a workspace.

    written: the kernel writes it. align: of a constant, in bytes. workspace_bytes: of memory that all steps of the node
    share, and that holds anything at first. offset: in bytes, from where any of these begins.
    """

    tensor: str = ""
    constant: Array | None = None
    written: bool = False
    align: int = 64
    workspace_bytes: int = 0
    offset: int = 0


@dataclass(frozen=True)
class KernelSpec(ABC):
    """All that decides a kernel's code; two nodes with equal specs share one function. Families derive from it.

    Every field is hashable and prints, since the function's name is made of a digest of repr(spec). Nothing of a core
    is in here.
    """

    @property
    @abstractmethod
    def family(self) -> str:
        """The first part of the function's name, such as conv2d_f32."""

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


@dataclass(frozen=True)
class Step:
    """A kernel and its operands: what a node is lowered to."""

    spec: KernelSpec
    operands: tuple[Operand, ...]
    origin: str = ""
