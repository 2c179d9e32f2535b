"""The engine's step list, with the address of every operand; a model library's C tables are written from it."""

from dataclasses import dataclass

from mavcg.graph import TensorType


@dataclass(frozen=True)
class OperandAddress:
    """Address of an operand: base is "arena", "constants", "input", "output" or "fault", the fault word of a context;
    index: number of the input or output; offset: in bytes."""

    base: str
    offset: int = 0
    index: int = 0


@dataclass(frozen=True)
class ProgramStep:
    """One call of a kernel.

    name: of the node in the user's file. kernel: linkage name without the version. rows: its whole range.
    min_chunk_rows: rows that a thread takes at least; as large as rows where the step is not worth a second thread.
    work: elementary operations. core_speeds: (label of a version, relative speed of its cores in this step), such as
    (("cortex-a55", 256), ("cortex-a75", 700)), from 1 to 65535; a label that is not there counts as the slowest that
    is, and with none all are alike. call_rows: rows that one call of the kernel gets at most, 0: min_chunk_rows;
    between two calls a thread that was moved to another core type changes the version.
    """

    name: str
    op: str
    kernel: str
    operands: tuple[OperandAddress, ...]
    rows: int
    min_chunk_rows: int
    work: int
    core_speeds: tuple[tuple[str, int], ...] = ()
    call_rows: int = 0


@dataclass(frozen=True)
class ProgramPhase:
    """Rows of a step, from first_row on, with the operands' addresses in this phase: those of row 0, which may lie
    before the arena. moved_bytes: instead, so many bytes are copied from the first operand to the second, which do not
    overlap; a multiple of 64."""

    step: int
    first_row: int
    rows: int
    operands: tuple[OperandAddress, ...]
    moved_bytes: int = 0


@dataclass(frozen=True)
class ThreadPlan:
    """A number of threads, the caller's included, on core types: the labels of their versions ("generic" is one).

    relative_time: predicted, of a run, in the same unit for all plans of a program.
    """

    cores: tuple[str, ...]
    threads: int
    relative_time: float


@dataclass(frozen=True)
class ProgramStage:
    """Steps of a pipeline's partition, `begin` to before `end`, which run at the same time as other stages.

    cores: labels of the versions of the CPUs that were predicted for it, none where nothing was; threads: of them.
    """

    begin: int
    end: int
    cores: tuple[str, ...] = ()
    threads: int = 0


@dataclass(frozen=True)
class RingBuffer:
    """A buffer of the arena that stages hand on: `copies` of `stride` bytes from `offset` on, which frames take in
    turn. Operands that lie in the first copy are moved to the frame's."""

    offset: int
    stride: int
    copies: int


@dataclass(frozen=True)
class ProgramTensor:
    """An input or output as the user sees it: dense, row-major."""

    name: str
    type: TensorType


@dataclass(frozen=True)
class Program:
    """A model ready to run.

    arena_bytes: of one context, without scratch; scratch_bytes: of each thread. arena_lower_bound_bytes: the largest
    sum of buffers in use at once. constants_bytes: packed weights, read-only, shared by all contexts. thread_plans:
    what a context without a given number of threads picks the fastest from, of those that its CPUs allow; with
    none it takes a thread per CPU. phases: what is run where steps are computed by parts of rows; with none each step
    is run as a whole. stages: of a pipeline, which cover all steps in order, with the buffers between them (rings).
    """

    name: str
    inputs: tuple[ProgramTensor, ...]
    outputs: tuple[ProgramTensor, ...]
    steps: tuple[ProgramStep, ...]
    arena_bytes: int
    scratch_bytes: int
    constants_bytes: int
    arena_lower_bound_bytes: int
    thread_plans: tuple[ThreadPlan, ...] = ()
    phases: tuple[ProgramPhase, ...] = ()
    stages: tuple[ProgramStage, ...] = ()
    rings: tuple[RingBuffer, ...] = ()
