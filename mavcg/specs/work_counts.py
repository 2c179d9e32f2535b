"""Counted work of a kernel: products in register tiles, vector work, loops and bytes, as a cost model prices them.

A kernel's spec counts its own work (`KernelSpec.counts`). Every count but that of bytes has the name of the constant
that prices it, in [primitives.cycles] of profiles/fits.
"""

from dataclasses import dataclass
from enum import StrEnum

from mavcg.hardware.issue_rates import InstructionMix


class WorkUnit(StrEnum):
    """Unit of a count: elements of vectors, whole vectors, or multiply-adds of which each waits for the one before."""

    ELEMENTS = "elements"
    VECTORS = "vectors"
    CHAINED = "chained multiply-adds"


@dataclass(frozen=True)
class TileProduct:
    """`times` products of matrices in register tiles: `rows` scalars by `columns` elements of vectors, `terms` a sum.

    most_rows, most_vectors: the largest tile; None: as large as the core's registers allow. One of them is 1 for tiles
    of one scalar or of one vector, whose ends are part of the constant.
    """

    name: str
    rows: int
    columns: int
    terms: int
    times: float = 1.0
    most_rows: int | None = None
    most_vectors: int | None = None


@dataclass(frozen=True)
class VectorWork:
    """A number of elements that are copied, transposed, transformed or added, or of others of WorkUnit."""

    name: str
    count: float
    unit: WorkUnit = WorkUnit.ELEMENTS


@dataclass(frozen=True)
class LoopWork:
    """The iterations of a loop with these instructions. ends: number of times that a tile begins and ends."""

    name: str
    mix: InstructionMix
    iterations: float
    ends: float


@dataclass(frozen=True)
class WeightReads:
    """The reads of weights of `size` bytes. passes: times that they are read.

    divided: True if each row of work reads its own part, so that threads together read them no more often than one.
    """

    size: float
    passes: float = 1.0
    divided: bool = False


@dataclass(frozen=True)
class OperandBytes:
    """Bytes of an operand that a kernel reads or writes. touched: bytes touched until the same ones are used again.

    touched counts for a workspace, whose next use is another stage's; 0 there: what is moved stays in the nearest
    cache. How far apart two uses of an image are depends on the run.
    """

    size: float = 0.0
    touched: float = 0.0


NOTHING = OperandBytes()


@dataclass(frozen=True)
class WorkCounts:
    """The counted work of all rows of a kernel. read, written: its first operand and its output; within: scratch."""

    products: tuple[TileProduct, ...] = ()
    vectors: tuple[VectorWork, ...] = ()
    loops: tuple[LoopWork, ...] = ()
    read: OperandBytes = NOTHING
    written: OperandBytes = NOTHING
    within: OperandBytes = NOTHING
    weights: WeightReads | None = None


def vector_work(*counted: tuple[str, float]) -> tuple[VectorWork, ...]:
    """Return the vector work of named numbers of elements, without those that are 0."""
    return tuple(VectorWork(name, count) for name, count in counted if count)
