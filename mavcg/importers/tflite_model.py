"""Plain values for a TFLite file: its tensors and operators."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mavcg.graph import DTYPES, Array
from mavcg.importers.declared_shapes import Dims
from mavcg.importers.limits import UnsupportedOp
from mavcg.importers.tflite_sparse import SparseData


@dataclass(frozen=True, eq=False)
class Quant:
    """The quantization of a tensor, whose integers q represent (q - zero) * scale.

    scale: f32[n], each finite and above 0; zero: i64[n]; n is 1, or the length of dimension `axis`. block: 0, or
    elements along the last dimension, then `axis`, that share a scale, which has the tensor's shape else, as has zero.
    """

    scale: Array
    zero: Array
    axis: int
    block: int = 0

    def same(self, other: "Quant | None") -> bool:
        """Return True if equal integers represent equal real numbers."""
        return (
            other is not None
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero, other.zero)
            and (self.scale.size == 1 or self.axis == other.axis)
            and self.block == other.block
        )


@dataclass(frozen=True, eq=False)
class TfliteTensor:
    """A tensor as the file describes it.

    dtype: element type; "" for a type that graphs do not have; constants of 4 bits are i8. kind: the file's name of the
    type. shape: as in the file; not reliable for an operator's result, which may be for another batch. free: numbers of
    the free dimensions. data: elements of a dense constant. sparse: elements of a sparse constant. declared: the shape
    that the file states for every run, with None for a free dimension; None if it states none.
    """

    index: int
    name: str
    dtype: str
    kind: str
    shape: tuple[int, ...]
    free: tuple[int, ...]
    quant: Quant | None
    data: Array | None
    variable: bool
    sparse: SparseData | None = None
    declared: Dims | None = None

    @property
    def label(self) -> str:
        """The tensor's name in messages."""
        return f"tensor {self.index} '{shorten_name(self.name)}'"

    @property
    def element_type(self) -> str:
        """Element type of graphs. Raises: UnsupportedOp for a type that they do not have."""
        if not self.dtype:
            raise UnsupportedOp(f"{self.label}: elements of type {self.kind}; supported: {', '.join(DTYPES)}")
        return self.dtype

    @property
    def eight_bit(self) -> bool:
        """True if the tensor holds 8-bit integers that represent real numbers."""
        return self.quant is not None and self.dtype in ("i8", "u8")

    @property
    def packed(self) -> bool:
        """True for a constant of numbers of 4 or 2 bits, or with scales of blocks, which kernels read packed."""
        return self.eight_bit and (self.kind in ("int4", "int2") or bool(self.quant and self.quant.block))


@dataclass(frozen=True, eq=False)
class TfliteOperator:
    """An operator of the file. inputs, outputs: indices of tensors, -1 for an absent input.

    options: by the accessor's name, such as StrideH; a list of integers is a tuple.
    """

    index: int
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TfliteModel:
    """The operators and tensors of a file's main subgraph.

    inputs, outputs: indices of tensors. subgraphs: number in the file; the others are bodies of control flow, or
    further signatures. shared: indices of tensors whose buffer a tensor of the same index in another subgraph has too;
    of a body None if the file has too many to compare.
    bodies: the subgraphs that operators of the file run, by number.
    """

    name: str
    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    subgraphs: int = 1
    shared: frozenset[int] | None = frozenset()
    bodies: "Mapping[int, TfliteModel]" = field(default_factory=dict)

    def label(self, operator: TfliteOperator) -> str:
        """Return the name of an operator in errors and reports: its first result's, or its own if it has none."""
        name = self.tensors[operator.outputs[0]].name if operator.outputs else operator.op
        return f"{operator.index}:{shorten_name(name)}"


def shorten_name(name: str) -> str:
    """Return a name shortened for messages: names of fused operators have hundreds of letters."""
    return name if len(name) <= 80 else name[:77] + "..."
