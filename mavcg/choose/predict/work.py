"""Work of a step: operations, and the bytes of its operands, for kernels of all families."""

from dataclasses import astuple, dataclass
from typing import Any

from mavcg.specs.kernel import KernelSpec
from mavcg.specs.model_program import WORDS, OperandAddress
from mavcg.specs.packed_constant import WHOLE_WEIGHTS, WeightParts

INPUT, WEIGHT, OUTPUT = "input", "weight", "output"


@dataclass(frozen=True)
class Touch:
    """An operand in memory. role: INPUT, WEIGHT (any constant) or OUTPUT.

    base, begin: the buffer, such as "arena", and its first byte. bytes: of its elements. span: from its first byte to
    its last, gaps included.
    """

    role: str
    base: str
    begin: int
    bytes: int
    span: int

    @property
    def end(self) -> int:
        """The byte after its last byte."""
        return self.begin + self.span


@dataclass(frozen=True)
class StepWork:
    """Work of a step.

    macs: multiply-accumulates, 0 if it has none. operations: elementary operations, two per MAC, as the kernel's spec
    counts them for the size of tasks. call_rows: rows of a task. by_channels: a task is output channels of all images,
    so every task reads the whole input; else it is rows of the output, and every task reads all weights, or a part of
    them (weight_parts). disjoint_reads: no two tasks read the same. min_chunk_rows: minimum rows that a thread takes;
    0: a task. operands: as the kernel gets them; none for a library whose note lacks them. trips: iterations of the
    loop that repeats it, each with all other figures.
    """

    name: str
    op: str
    kernel: str
    family: str
    rows: int
    call_rows: int
    macs: int
    operations: int
    touches: tuple[Touch, ...]
    by_channels: bool = False
    disjoint_reads: bool = False
    min_chunk_rows: int = 0
    weight_parts: WeightParts = WHOLE_WEIGHTS
    operands: tuple[OperandAddress, ...] = ()
    trips: int = 1

    @property
    def chunk_rows(self) -> int:
        """Minimum rows of a chunk."""
        return self.min_chunk_rows or self.call_rows

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return -(-self.rows // self.call_rows)

    def bytes_of(self, role: str) -> int:
        """Return the unique bytes touched as INPUT, WEIGHT or OUTPUT."""
        return sum(touch.bytes for touch in self.touches if touch.role == role)

    @property
    def first_weight_bytes(self) -> int:
        """Size of the first constant, which is the weights of a kernel that has weights; 0 without constants."""
        return next((touch.bytes for touch in self.touches if touch.role == WEIGHT), 0)

    def as_json(self) -> dict[str, Any]:
        """Return a document from which `works_from_json` restores the step's work."""
        return {
            "macs": self.macs,
            "by_channels": self.by_channels,
            "apart": self.disjoint_reads,
            "weight_parts": list(astuple(self.weight_parts)),
            "touches": [[t.role, t.base, t.begin, t.bytes, t.span] for t in self.touches],
            "call_rows": self.call_rows,
            "operands": [[o.base, o.offset, o.index] for o in self.operands],
        } | ({"trips": self.trips} if self.trips > 1 else {})


def base_of(operand: OperandAddress) -> str:
    """Return the name of the buffer that an operand lies in, as Touch.base."""
    return operand.base if operand.base in ("arena", "constants", *WORDS) else f"{operand.base} {operand.index}"


def rows_per_reading(spec: KernelSpec, call_rows: int) -> int:
    """Return the rows that share one read of the weights: of a task, or of a part of a call."""
    return min(spec.rows, spec.shared_rows) if spec.shared_rows > 1 else call_rows


def works_from_json(steps: list[dict[str, Any]]) -> tuple[StepWork, ...]:
    """Read the work of the steps in a library's note; each has as_json's entries beside its own."""
    return tuple(
        StepWork(
            s["name"],
            s["op"],
            s["kernel"],
            s["kernel"].rpartition("_")[0],
            s["rows"],
            s.get("call_rows", s["grain"]),
            s["macs"],
            max(1, s["work"]),
            tuple(Touch(*touch) for touch in s["touches"]),
            s["by_channels"],
            s.get("apart", False),
            weight_parts=WeightParts(*s.get("weight_parts", ())),
            operands=tuple(OperandAddress(*operand) for operand in s.get("operands", ())),
            trips=s.get("trips", 1),
        )
        for s in steps
    )
