"""Plan the memory of a lowered graph: offsets of buffers in the arena, and offsets of packed constants."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from mavcg.choose.lowering.lower import LoweredGraph, LoweredStep
from mavcg.graph import DTYPES
from mavcg.graph.counts import product_of
from mavcg.memory.arena import ALIGNMENT, Arena, Lifetime, align_size, place_buffers, share_beginnings
from mavcg.memory.locations import lifetimes_of
from mavcg.specs.kernel import Array, Operand
from mavcg.specs.model_program import OperandAddress
from mavcg.specs.packed_constant import PackedConstant


@dataclass(frozen=True)
class ConstantPlace:
    """The location of a constant (an array, or a recipe to pack one), in bytes from the start of all constants."""

    offset: int
    constant: Array | PackedConstant


@dataclass(frozen=True)
class MemoryPlan:
    """The addresses of all operands of a lowered graph.

    arena: placement of buffers and workspaces. addresses: addresses of each step's operands, in the order of the steps.
    constants: without repetition, in order of offset; constants_bytes: their total size. workspaces: (offset in the
    arena, size), in bytes, by a node's output. initial: offsets of the first values of states in the constants, by
    input; states without one begin with zeros.
    """

    arena: Arena
    addresses: tuple[tuple[OperandAddress, ...], ...]
    constants: tuple[ConstantPlace, ...]
    constants_bytes: int
    workspaces: Mapping[str, tuple[int, int]]
    initial: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        buffers = "".join(f"arena+{offset} %{name}\n" for name, offset in self.arena.offsets.items())
        constants = "".join(
            f"constants+{constant_place.offset} {constant_place.constant.nbytes} bytes\n"
            for constant_place in self.constants
        )
        return f"arena {self.arena.bytes} bytes, constants {self.constants_bytes} bytes\n{buffers}{constants}"


class ContentDigests:
    """A cache of SHA-256 digests of arrays, shared by several memory plans of the same constants."""

    def __init__(self) -> None:
        # The array is kept beside its digest, so that its id() is not reused.
        self._known: dict[int, tuple[Array, bytes]] = {}

    def of(self, array: Array) -> bytes:
        """Return the digest of an array's elements in row-major order."""
        if id(array) not in self._known:
            self._known[id(array)] = (array, hashlib.sha256(_bytes_of(array).data).digest())
        return self._known[id(array)][1]


def _bytes_of(array: Array) -> Array:
    """Return an array's elements in row-major order, as bytes; bf16 has no buffer protocol of its own."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def plan_memory(
    lowered: LoweredGraph,
    digests: ContentDigests | None = None,
    pool: "ConstantPool | None" = None,
    any_length: bool = False,
) -> MemoryPlan:
    """Assign an address to every buffer and constant.

    Equal constants are stored once, in the order of first use. pool: constants of all models of the same library;
    None: this model's only. any_length: runs may use the beginnings of buffers only.
    """
    workspaces = lowered.workspaces()
    lifetimes = _lifetimes(lowered, workspaces)
    arena = place_buffers(lifetimes)
    if any_length:
        arena = share_beginnings(lifetimes, arena)
    constants = ConstantPool() if pool is None else pool
    constants.begin_model(lowered.graph.constants, digests or ContentDigests())
    addresses = tuple(
        tuple(_address(operand, step.node.output, lowered, arena, constants) for operand in step.operands)
        for step in lowered.steps
    )
    initial = {
        state.input: constants.add(state.initial, ALIGNMENT)
        for state in lowered.graph.states
        if state.initial is not None and state.initial.size
    }
    begins = {output: arena.offsets[workspace_name(output)] for output in workspaces}
    return MemoryPlan(
        arena,
        addresses,
        tuple(constant_place for constant_place, _ in constants.placed),
        constants.end,
        {output: (begins[output], size) for output, size in workspaces.items()},
        initial,
    )


def workspace_name(output: str) -> str:
    """Return the name of a node's workspace in the arena, from the node's output; no tensor has this name."""
    return f"workspace of %{output}"


def _lifetimes(lowered: LoweredGraph, workspaces: Mapping[str, int]) -> list[Lifetime]:
    """Return the lifetimes of the buffers and workspaces of the arena."""
    graph = lowered.graph
    outside = {*graph.inputs, *graph.outputs}
    return [
        Lifetime(root, graph.types[root].bytes, first, last)
        for root, (first, last) in lifetimes_of(lowered.storage, graph.nodes).items()
        if root not in outside
    ] + [
        Lifetime(workspace_name(node.output), workspaces[node.output], index, index)
        for index, node in enumerate(graph.nodes)
        if node.outputs[0] in workspaces
    ]


def _address(
    operand: Operand, output: str, lowered: LoweredGraph, arena: Arena, constants: "ConstantPool"
) -> OperandAddress:
    if operand.constant is not None:
        return OperandAddress("constants", constants.add(operand.constant, operand.align) + operand.offset)
    if operand.fault_word:
        return OperandAddress("fault")
    if operand.count is not None:
        return OperandAddress("count", count=operand.count)
    if operand.workspace_bytes:
        return OperandAddress("arena", arena.offsets[workspace_name(output)] + operand.offset)
    return tensor_address(operand.tensor, lowered, arena, operand.offset)


def tensor_address(tensor: str, lowered: LoweredGraph, arena: Arena, offset: int = 0) -> OperandAddress:
    """Return the address of a tensor that is not a constant, plus an offset in bytes."""
    graph, location = lowered.graph, lowered.storage.locations[tensor]
    item_bytes = DTYPES[graph.types[tensor].dtype].itemsize
    offset += location.offset * item_bytes
    strides = tuple((loop, elements * item_bytes) for loop, elements in location.advance)
    counts = tuple((loop, product_of(item_bytes, elements)) for loop, elements in location.advance_counts)
    if location.root in graph.inputs:
        address = OperandAddress("input", offset, graph.inputs.index(location.root))
    elif location.root in graph.outputs:
        address = OperandAddress("output", offset, graph.outputs.index(location.root))
    else:
        address = OperandAddress("arena", arena.offsets[location.root] + offset)
    return replace(address, strides=strides, stride_counts=counts)


def buffer_sizes(lowered: LoweredGraph) -> dict[str, int]:
    """Return the size of each buffer and workspace of the arena, in bytes, by name."""
    graph = lowered.graph
    roots = {location.root for location in lowered.storage.locations.values()}
    sizes = {root: graph.types[root].bytes for root in roots if root not in (*graph.inputs, *graph.outputs)}
    return sizes | {workspace_name(output): size for output, size in lowered.workspaces().items()}


def operand_buffer(operand: Operand, step: LoweredStep, lowered: LoweredGraph) -> tuple[str, int]:
    """Return (name of the buffer that contains an operand, the operand's offset in it in bytes)."""
    if operand.workspace_bytes:
        return workspace_name(step.node.output), operand.offset
    location = lowered.storage.locations[operand.tensor]
    item = DTYPES[lowered.graph.types[operand.tensor].dtype].itemsize
    return location.root, location.offset * item + operand.offset


class ConstantPool:
    """The constants of one or several models, each stored once.

    Constants are equal if their bytes are, or their packing recipes and the source arrays of these. placed: each
    constant with the arrays that its recipe names. end: total size so far, in bytes.
    """

    def __init__(self) -> None:
        self.sources: Mapping[str, Array] = {}
        self.digests = ContentDigests()
        self.offsets: dict[object, int] = {}
        self.placed: list[tuple[ConstantPlace, Mapping[str, Array]]] = []
        self.end = 0

    def begin_model(self, sources: Mapping[str, Array], digests: ContentDigests) -> None:
        """Begin the constants of a model. sources: its arrays, by name."""
        self.sources, self.digests = sources, digests

    def add(self, constant: Array | PackedConstant, align: int) -> int:
        """Add a constant, unless an equal one exists, and return its offset in bytes."""
        key = (align, self._key(constant))
        if key not in self.offsets:
            start = align_size(self.end, align)
            self.offsets[key], self.end = start, start + constant.nbytes
            self.placed.append((ConstantPlace(start, constant), self.sources))
        return self.offsets[key]

    def _key(self, constant: Array | PackedConstant) -> object:
        if not isinstance(constant, PackedConstant):
            return self.digests.of(constant)
        arrays = [self.sources[name] for name in constant.sources]
        sources = tuple((array.shape, array.dtype.str, self.digests.of(array)) for array in arrays)
        return (constant.pack, constant.parameters, sources)
