"""A compiled program, with all that is needed to run, simulate and check it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Annotated, Any

from msgspec import Meta

from mavcg.accelerators.fixed_point import ROUNDINGS
from mavcg.accelerators.image.host import HostPlan, Radix, host_fault
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.target import HOST, ISAS, LEAST_BURST, MOST_BURST, VTA, VTA_SIZES, WHOLE, IsaTarget
from mavcg.errors import MavcgError
from mavcg.files.decode import decode

MOST_FEATURE_BYTES = 1 << 32  # offsets in the features segment have 32 bits
ENDS = ("misc.end", "compute.finish")  # last instructions of a segment
MOST_STEPS = 1 << 31  # maximum difference of two 32-bit biases
_Extent = Annotated[int, Meta(ge=1, le=1 << 20, description="a dimension from 1 to 2^20")]
_Multiplier = Annotated[int, Meta(ge=1, lt=1 << 16, description="a multiplier from 1 to 2^16 - 1")]
_Steps = Annotated[int, Meta(ge=-MOST_STEPS, le=MOST_STEPS, description="a number of steps within 32 bits")]


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in the features segment.

    height, width, channels: dimensions [H, W, C] of an image. radix: radix position. offset: its first byte. pixel:
    bytes from one pixel to the next, more than C if it is a part of a concatenation. images: size of the batch; the
    images follow one another.
    """

    name: str
    height: _Extent
    width: _Extent
    channels: _Extent
    radix: Radix
    offset: Annotated[int, Meta(ge=0, le=MOST_FEATURE_BYTES, description="an offset from 0 to 2^32")]
    pixel: Annotated[int, Meta(ge=1, le=1 << 24, description="a distance of 1 to 2^24 bytes")]
    images: _Extent = 1

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return the dimensions [N, H, W, C]."""
        return (self.images, self.height, self.width, self.channels)

    @property
    def row(self) -> int:
        """Return the bytes from one row to the next."""
        return self.width * self.pixel

    @property
    def end(self) -> int:
        """Return the offset after the last byte."""
        return self.offset + (self.images * self.height * self.width - 1) * self.pixel + self.channels


@dataclass(frozen=True)
class NodeRadix:
    """The quantiser's choices for a node.

    radix, weights: radix positions of its tensor and its weights. bias_steps: what is added to the integer bias of each
    output channel; () for nothing. multipliers: of the sums of each output channel; () for 1.
    """

    node: str
    radix: int
    weights: tuple[int, ...]
    bias_steps: tuple[int, ...] = ()
    multipliers: tuple[int, ...] = ()


@dataclass(frozen=True)
class AccelSegment:
    """A run of the accelerator between CPU parts: one job of the host, from misc.start to misc.end.

    nodes: names of the nodes that it computes. inputs: tensors that the host writes into the features segment before
    it. outputs: tensors that the host reads from there after it. operations: operations of its convolutions for the
    batch. cycles: simulated cycles of a batch; 0 before the simulation.
    """

    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: Annotated[int, Meta(ge=0, le=1 << 60, description="a count")]
    cycles: Annotated[int, Meta(ge=0, le=1 << 40, description="a count")] = 0


@dataclass(frozen=True)
class AccelProgram:
    """Code, parameters and description of a network that was compiled for a target.

    network: its name. instructions: code of all segments, one after another. feature_bytes: size of the features
    segment. nodes: names, to which the origins of instructions have indices. tensors: tensors in the features segment.
    segments: runs of the accelerator, in order. host: what the CPU does before, between and after. radices: choices for
    all nodes, for the reference. nchw: inputs whose model has the order N, C, H, W.
    """

    network: str
    target: IsaTarget
    instructions: tuple[AccelInstruction, ...]
    parameters: bytes
    feature_bytes: int
    nodes: tuple[str, ...]
    tensors: tuple[StoredTensor, ...]
    segments: tuple[AccelSegment, ...]
    host: HostPlan = HostPlan()
    radices: tuple[NodeRadix, ...] = ()
    nchw: tuple[str, ...] = ()

    def tensor(self, name: str) -> StoredTensor:
        """Return the stored tensor of this name."""
        return next(tensor for tensor in self.tensors if tensor.name == name)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the names of all tensors that the host writes into the features segment."""
        return _distinct(name for segment in self.segments for name in segment.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the names of all tensors that the host reads from the features segment."""
        return _distinct(name for segment in self.segments for name in segment.outputs)

    @property
    def operations(self) -> int:
        """Return the operations of the accelerator's convolutions for a batch."""
        return sum(segment.operations for segment in self.segments)

    @property
    def images(self) -> int:
        """Return the images that a run computes: the largest batch of its tensors."""
        return max((tensor.images for tensor in self.tensors), default=1)

    def jobs(self) -> tuple["AccelProgram", ...]:
        """Return the program of each segment alone, on the same segments of memory."""
        return tuple(
            replace(self, instructions=self.instructions[first:end], segments=(segment,))
            for segment, (first, end) in zip(self.segments, self.job_ranges(), strict=True)
        )

    def job_ranges(self) -> tuple[tuple[int, int], ...]:
        """Return the instructions [first, end) of each segment; a segment ends with one of ENDS."""
        ends = [at for at, one in enumerate(self.instructions, 1) if one.form.name in ENDS]
        bounds = [0, *ends[: len(self.segments) - 1], len(self.instructions)]
        return tuple(pairwise(bounds))

    @property
    def has_file_scales(self) -> bool:
        """Return True if tensors have the scales of an 8-bit file."""
        return any(tensor.scale is not None for tensor in self.host.tensors)

    @property
    def cpu_nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes that the CPU computes, in the order of execution."""
        return tuple(name for part in self.host.parts for name in part.nodes)

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the files of the CPU parts that were built."""
        return tuple(part.library for part in self.host.parts if part.library)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


_NAMES = ("nodes", "nchw")


def description(program: AccelProgram) -> dict[str, Any]:
    """Return all of a program except code and parameters, as a JSON table."""
    return {
        "network": program.network,
        "target": {**asdict(program.target), "sources": [list(pair) for pair in program.target.sources]},
        "feature_bytes": program.feature_bytes,
        "segments": [asdict(segment) for segment in program.segments],
        "host": asdict(program.host),
        "tensors": [asdict(tensor) for tensor in program.tensors],
        "radices": [
            [r.node, r.radix, list(r.weights), list(r.bias_steps), list(r.multipliers)] for r in program.radices
        ],
        **{key: list(getattr(program, key)) for key in _NAMES},
    }


@dataclass(frozen=True)
class _Description:
    """The table of `description`."""

    network: str
    target: IsaTarget
    feature_bytes: Annotated[int, Meta(ge=0, le=MOST_FEATURE_BYTES, description="a number of bytes up to 2^32")]
    segments: tuple[AccelSegment, ...]
    host: HostPlan
    tensors: tuple[StoredTensor, ...]
    radices: tuple[tuple[str, Radix, tuple[Radix, ...], tuple[_Steps, ...], tuple[_Multiplier, ...]], ...]
    nodes: tuple[str, ...]
    nchw: tuple[str, ...]


_REMEDY = "build the file again"


def from_description(
    table: Any, code: Callable[[IsaTarget], Sequence[AccelInstruction]], parameters: bytes, location: str
) -> AccelProgram:
    """Return the program of a description. code: returns the instructions, which a target's encoding decides.

    Raises: MavcgError naming location, key and value of a fault.
    """
    given = decode(table, _Description, location, _REMEDY)
    instructions = tuple(code(given.target))
    if wrong := _fault(given, instructions):
        raise MavcgError(f"{location}: {wrong}; {_REMEDY}")
    return AccelProgram(
        given.network,
        given.target,
        instructions,
        parameters,
        given.feature_bytes,
        given.nodes,
        given.tensors,
        given.segments,
        given.host,
        tuple(NodeRadix(*radix) for radix in given.radices),
        given.nchw,
    )


def _fault(given: _Description, instructions: tuple[AccelInstruction, ...]) -> str:
    """Return what is wrong in a description whose types are right, with its key; "" if nothing is."""
    for tensor in given.tensors:
        if tensor.end > given.feature_bytes or tensor.pixel < tensor.channels:
            return f"tensors: {tensor.name} is not a tensor in {given.feature_bytes} bytes of features"
    known = {tensor.name for tensor in given.tensors}
    if len(known) != len(given.tensors):
        return "tensors: a name is given twice"
    for number, segment in enumerate(given.segments):
        for key, names in (("inputs", segment.inputs), ("outputs", segment.outputs)):
            if lost := set(names) - known:
                return f"segments[{number}].{key}: {min(lost)} is not a tensor of the file"
    ends = sum(one.form.name in ENDS for one in instructions)
    if len(given.segments) != max(1, ends):
        return f"segments: {len(given.segments)}, but the code has {ends} instructions misc.end"
    if len(given.host.cpu) != len(given.segments) + 1:
        return f"host: cpu: {len(given.host.cpu)} parts around {len(given.segments)} segments; one more is needed"
    for index, one in enumerate(instructions):
        if one.origin is not None and not 0 <= one.origin.node < len(given.nodes):
            return f"nodes: instruction {index} belongs to node {one.origin.node}, of {len(given.nodes)} nodes"
    if wrong := host_fault(given.host):
        return f"host: {wrong}"
    moved = {tensor.name for tensor in given.host.tensors if tensor.radix is not None}
    if lost := {name for segment in given.segments for name in (*segment.inputs, *segment.outputs)} - moved:
        return f"host: {min(lost)} is not among the 8-bit tensors of the host"
    return _target_fault(given.target)


def _target_fault(target: IsaTarget) -> str:
    for key, size in VTA_SIZES.items() if target.isa == VTA else ():
        if getattr(target, key) != size:
            return f"target.{key}: {getattr(target, key)} is not VTA's {size}"
    for key, (low, high, unit) in WHOLE.items():
        if not low <= getattr(target, key) <= high:
            return f"target.{key}: {getattr(target, key)} is not {low} to {high} {unit}"
    if not LEAST_BURST <= target.ddr_burst_bytes <= MOST_BURST:
        return f"target.ddr_burst_bytes: {target.ddr_burst_bytes} is not {LEAST_BURST} to {MOST_BURST}"
    for key in ("frequency_mhz", "ddr_gb_per_s", "port_gb_per_s", *HOST):
        if (rate := getattr(target, key)) is not None and not 1e-6 <= rate <= 1e6:
            return f"target.{key}: {getattr(target, key)} is not a rate from 0.000001 to 1000000"
    if target.ic_parallel % 2 or target.rounding not in ROUNDINGS or target.isa not in ISAS:
        return f"target: ic_parallel {target.ic_parallel}, rounding {target.rounding!r}, isa {target.isa!r}"
    return ""
