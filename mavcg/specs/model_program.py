"""The engine's step list with the address of every operand, from which a model library's C tables are written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mavcg.graph import TensorType
from mavcg.graph.counts import Count, Dimension, Length, is_symbolic

# The copies of a state that an operand may address: its only one, the one that the run reads, the one that it writes.
ONLY_COPY, READ_COPY, WRITTEN_COPY = 0, 1, 2


WORDS = ("fault", "count", "counted")  # bases that are words of the context, not memory of the model


@dataclass(frozen=True)
class OperandAddress:
    """The address of an operand.

    base: "arena", "constants", "input", "output", "state", "fault" (the context's fault word), "count" (32 bits, the
    number `count` in a run) or "counted" (64 bits, a length that the run decides). offset: from the base, in bytes.
    index: number of the input, output or counted word; of a state the copy that is meant, ONLY_COPY, READ_COPY or
    WRITTEN_COPY. strides: (number of a loop around the step, bytes that the address advances by in each iteration of
    it). stride_counts: (number of such a loop, how many bytes that are in a run, up or down), where they follow from
    its lengths; `strides` has those of the longest.
    """

    base: str
    offset: int = 0
    index: int = 0
    strides: tuple[tuple[int, int], ...] = ()
    count: Count | None = None
    stride_counts: tuple[tuple[int, Count], ...] = ()


@dataclass(frozen=True)
class ProgramStep:
    """A step of the engine's program: one kernel over all of its rows of work.

    name: node of the user's file. kernel: linkage name without the version. rows: number of rows of work.
    min_chunk_rows: minimum rows of a chunk; equal to rows if the step is not worth a second thread. work: elementary
    operations. core_speeds: (label of a version, relative speed of its cores in this step), such as
    (("cortex-a55", 256), ("cortex-a75", 700)), from 1 to 65535; an absent label counts as the slowest; if empty, all
    cores are alike. call_rows: maximum rows of one call of the kernel, 0: min_chunk_rows; in a program with dimensions
    the last call takes up to a quarter more. Between two calls a thread that was migrated to another core type changes
    the version. row_count: rows that a run computes, the first
    ones, where they follow from its lengths; `rows` is their number at the longest. None: a run computes all rows.
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
    row_count: Count | None = None


@dataclass(frozen=True)
class ProgramLoop:
    """Steps begin .. end - 1, which a run repeats before it goes on.

    trips: number of iterations. condition: a bool that is read before each iteration and ends the loop if it is false;
    None: all iterations are run. number: by which operands name the loop. trip_count: number of iterations of a run,
    where it follows from the lengths of bounded dimensions; trips is that of the longest ones. The offset of an operand
    that moves down is its first one at the longest lengths; its last one is the same at all lengths.
    """

    begin: int
    end: int
    trips: int
    condition: OperandAddress | None = None
    number: int = 0
    trip_count: Count | None = None


@dataclass(frozen=True)
class ProgramPhase:
    """A phase of a program that is computed by parts of rows: some rows of a step, or a copy within the arena.

    first_row, rows: the rows of the step. operands: addresses in this phase, given for row 0, and possibly before the
    arena. moved_bytes: if not 0, the phase copies this many bytes, a multiple of 64, from the first operand to the
    second, which do not overlap.
    """

    step: int
    first_row: int
    rows: int
    operands: tuple[OperandAddress, ...]
    moved_bytes: int = 0


@dataclass(frozen=True)
class PagedWeights:
    """Constants begin to end - 1, in bytes, and what a run does with their pages.

    advice: "release" lets go of them before the phase begins; "release_beside" does so, and "map" maps them, while this
    phase and those that follow compute, in this order.
    """

    phase: int
    begin: int
    end: int
    advice: str


@dataclass(frozen=True)
class ThreadPlan:
    """A choice of threads: their number, the caller's included, and their core types, by the labels of versions.

    relative_time: predicted time of a run, in the same unit for all plans of a program.
    """

    cores: tuple[str, ...]
    threads: int
    relative_time: float


@dataclass(frozen=True)
class ProgramStage:
    """A stage of a pipeline: steps begin .. end - 1, which run at the same time as other stages.

    cores: labels of the versions of the CPUs that were predicted for the stage; empty without a prediction. threads:
    number of its threads.
    """

    begin: int
    end: int
    cores: tuple[str, ...] = ()
    threads: int = 0


@dataclass(frozen=True)
class RingBuffer:
    """A ring of copies of a buffer that one stage of a pipeline passes to another, one copy per frame in turn.

    offset: of the first copy in the arena, in bytes. stride: from a copy to the next, in bytes. copies: their number.
    Operands' addresses refer to the first copy; the engine adds the frame's.
    """

    offset: int
    stride: int
    copies: int


@dataclass(frozen=True)
class ProgramTensor:
    """An input or output of the model, dense and row-major.

    axes: the length of each axis in a run, where any follows from the program's bounded dimensions, for whose longest
    lengths `type` is; empty: that of `type`. counted_axis: of an output, the axis of which a run makes as many indices
    as counted word number `counted` says; `type` has the most.
    """

    name: str
    type: TensorType
    axes: tuple[Count, ...] = ()
    counted_axis: int | None = None
    counted: int = 0


@dataclass(frozen=True)
class ProgramState:
    """A tensor that stays in a context between runs.

    input, output: numbers of the graph's input that reads it, and of the output that is its next value. offset: of its
    only copy, or of the first of two, from the context's states, in bytes. in_place: a run reads and writes one copy;
    otherwise it writes a second one, Program.swapped_bytes after the first, and the two change places. initial: offset
    of its first value in the constants, in bytes; None: zeros. axes: as a ProgramTensor's; a run reads and writes the
    state dense in these lengths, and what the longest ones have beside that lies behind it. next_axes: of a state that
    grows, the lengths that a run leaves, for whose longest `type` is; empty: those of `axes`.
    """

    name: str
    type: TensorType
    input: int
    output: int
    offset: int
    in_place: bool
    initial: int | None = None
    axes: tuple[Count, ...] = ()
    next_axes: tuple[Count, ...] = ()

    @property
    def shaped_axes(self) -> int:
        """The number of axes up to the last one that follows from the lengths of a run."""
        return max((i + 1 for i, axis in enumerate(self.axes) if is_symbolic(axis)), default=0)

    @property
    def moves(self) -> bool:
        """True if an element's place depends on the lengths: of two layers' sequences, say, not of sequences alone."""
        return self.type.bytes > 0 and any(length > 1 for length in self.type.shape[: max(self.shaped_axes - 1, 0)])


@dataclass(frozen=True)
class Program:
    """A model's step list, ready to run.

    arena_bytes: arena of a context, without scratch. scratch_bytes: scratch of each thread. arena_lower_bound_bytes:
    live peak. constants_bytes: packed weights, read-only, shared by all contexts. thread_plans: a context without a
    given number of threads takes the fastest plan that its CPUs allow; without plans it has a thread per CPU. phases:
    the order of execution by parts of rows; if empty, each step is run as a whole. stages: the stages of a pipeline,
    which cover all steps in order; rings: the buffers between them. states: tensors that stay in a context between
    runs, those in place first; state_bytes: memory of all their copies. swapped_bytes: of one copy of those that have
    two. moved_bytes: memory behind them, in which the largest state whose elements change places with the lengths is
    ordered. dimensions: the bounded ones, of which each run has its own lengths. loops: of whole steps, in order; one
    that is in another comes after it. counted: number of words of a context with lengths that a run decides.
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
    states: tuple[ProgramState, ...] = ()
    state_bytes: int = 0
    swapped_bytes: int = 0
    moved_bytes: int = 0
    dimensions: tuple[Dimension, ...] = ()
    loops: tuple[ProgramLoop, ...] = ()
    counted: int = 0

    @property
    def grown_lengths(self) -> Mapping[str, Count]:
        """The next length of each dimension that no input tells and the context holds, by its name."""
        return {
            length.name: following
            for state in self.states
            for length, following in zip(state.axes, state.next_axes, strict=False)
            if isinstance(length, Length) and length != following
        }

    def with_addresses(self, change: Callable[[OperandAddress], OperandAddress]) -> "Program":
        """Return the program with the address that `change` returns for each operand's of its steps and phases."""
        return replace(
            self,
            steps=tuple(replace(step, operands=tuple(map(change, step.operands))) for step in self.steps),
            phases=tuple(replace(phase, operands=tuple(map(change, phase.operands))) for phase in self.phases),
        )
