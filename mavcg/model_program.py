"""What the engine runs: steps in order, every operand's place decided. The C of a model library is written from it."""

from dataclasses import dataclass

from mavcg.graph import TensorType


@dataclass(frozen=True)
class Place:
    """Where an operand lies: base is "arena", "constants", "input" or "output"; index: which input or output;
    offset: in bytes."""

    base: str
    offset: int = 0
    index: int = 0


@dataclass(frozen=True)
class ProgramStep:
    """One call of a kernel.

    name: of the node in the user's file. kernel: linkage name without the version. rows: its whole range. grain: rows
    that a task takes; as large as rows where the step is not worth a second thread. work: elementary operations.
    """

    name: str
    op: str
    kernel: str
    operands: tuple[Place, ...]
    rows: int
    grain: int
    work: int


@dataclass(frozen=True)
class ProgramTensor:
    """An input or output as the user sees it: dense, row-major."""

    name: str
    type: TensorType


@dataclass(frozen=True)
class Program:
    """A model ready to run.

    arena_bytes: of one context, without scratch; scratch_bytes: of each thread. arena_lower_bound_bytes: the largest
    sum of buffers in use at once. constants_bytes: packed weights, read-only, shared by all contexts.
    """

    name: str
    inputs: tuple[ProgramTensor, ...]
    outputs: tuple[ProgramTensor, ...]
    steps: tuple[ProgramStep, ...]
    arena_bytes: int
    scratch_bytes: int
    constants_bytes: int
    arena_lower_bound_bytes: int
