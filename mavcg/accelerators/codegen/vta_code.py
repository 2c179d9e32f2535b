"""State of a program for VTA during code generation: instructions with the memory that they touch, and four memories.

DDR memory: loads read the features segment only after the barrier of their group, an instruction that moves nothing and
passes the tokens of earlier stores on, since VTA has no tokens between load and store.
"""

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from mavcg.accelerators.codegen.onchip import OnChipMemory
from mavcg.accelerators.codegen.parameters import WeightSlice, dense_weights, is_depthwise, result_shifts
from mavcg.accelerators.codegen.regions import Region
from mavcg.accelerators.codegen.tokens import with_tokens
from mavcg.accelerators.image.program import StoredTensor
from mavcg.accelerators.isa.datapath import Datapath, blocks
from mavcg.accelerators.isa.footprint import DDR_FEATURES, AccessedRange
from mavcg.accelerators.isa.instruction import AccelInstruction, Origin, check_instruction
from mavcg.accelerators.isa.vta import (
    BLOCK,
    INPUTS,
    MICRO_OPS,
    MOST_SHIFT,
    SUMS,
    VTA_FORMS,
    WEIGHTS,
    pack_micro_ops,
)
from mavcg.accelerators.xgraph import XGraph, XNode

MicroOp = tuple[int, int, int]
_GATE = "barrier"  # written by barriers, read by the loads of the features segment after them
_ALIGNMENT = WEIGHTS.element_bytes  # of everything in the parameters segment


@dataclass(frozen=True)
class VectorTile:
    """Blocks of channels [first, first + count) of a region of a map on chip: pixel by pixel, row by row.

    address: first vector. first: channel, a multiple of BLOCK. count: blocks of BLOCK channels.
    """

    address: int
    region: Region
    first: int
    count: int

    def at(self, row: int, column: int) -> int:
        """Return the address of a pixel of the map."""
        return self.address + ((row - self.region.top) * self.region.columns + column - self.region.left) * self.count

    @property
    def end(self) -> int:
        """Return the address after the last vector."""
        return self.address + self.region.rows * self.region.columns * self.count


@dataclass
class VtaCode:
    """State of code generation; `tensors`, `jobs`, `packed` as in CodeState. accessed: ranges of each instruction."""

    graph: XGraph
    path: Datapath
    tensors: Mapping[str, StoredTensor]
    by_name: Mapping[str, XNode] = field(init=False)
    numbers: Mapping[str, int] = field(init=False)
    readers: Mapping[str, tuple[str, ...]] = field(init=False)
    instructions: list[AccelInstruction] = field(default_factory=list)
    accessed: list[tuple[AccessedRange, ...]] = field(default_factory=list)
    jobs: list[tuple[list[AccelInstruction], list[tuple[AccessedRange, ...]]]] = field(default_factory=list)
    parameters: bytearray = field(default_factory=bytearray)
    packed: dict[Hashable, int] = field(default_factory=dict)
    memories: dict[str, OnChipMemory] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = self.graph.by_name()
        self.numbers = {node.name: number for number, node in enumerate(self.graph.nodes)}
        self.readers = self.graph.readers()
        self.memories = self._empty()

    def _empty(self) -> dict[str, OnChipMemory]:
        return {m.name: OnChipMemory(m.name, m.depth) for m in (INPUTS, WEIGHTS, SUMS, MICRO_OPS)}

    @property
    def sums(self) -> OnChipMemory:
        """Return the accumulators."""
        return self.memories[SUMS.name]

    @property
    def inputs(self) -> OnChipMemory:
        """Return the memory of input vectors."""
        return self.memories[INPUTS.name]

    @property
    def weights(self) -> OnChipMemory:
        """Return the memory of weight blocks."""
        return self.memories[WEIGHTS.name]

    def begin_job(self) -> None:
        """Begin the code of a segment, which finds nothing on chip."""
        self.memories = self._empty()

    def end_job(self) -> None:
        """End the code of a segment."""
        self.emit("compute.finish", {}, ())
        self.jobs.append((self.instructions, self.accessed))
        self.instructions, self.accessed = [], []

    def snapshot(self) -> tuple[int, dict[str, OnChipMemory]]:
        """Return a snapshot of the state; `restore` undoes the code generated after it."""
        return len(self.instructions), copy.deepcopy(self.memories)

    def restore(self, saved: tuple[int, dict[str, OnChipMemory]]) -> None:
        """Undo the code since a snapshot; packed parameters stay."""
        del self.instructions[saved[0] :], self.accessed[saved[0] :]
        self.memories = copy.deepcopy(saved[1])

    def rewind(self) -> None:
        """Place the next buffer of each memory at its beginning."""
        for memory in self.memories.values():
            memory.rewind()

    def program_code(self) -> tuple[AccelInstruction, ...]:
        """Return the code of all segments, with tokens."""
        return tuple(one for instructions, accessed in self.jobs for one in with_tokens(instructions, accessed))

    def emit(
        self,
        mnemonic: str,
        values: Mapping[str, int],
        accessed: Sequence[AccessedRange],
        origin: Origin | None = None,
    ) -> None:
        """Append an instruction with the memory that it touches; fields that are not given are 0."""
        form = VTA_FORMS[mnemonic]
        whole = {field.name: values.get(field.name, 0) for field in form.fields}
        instruction = AccelInstruction(form, whole, origin=origin)
        check_instruction(instruction, f"{self.graph.name}: {mnemonic}")
        self.instructions.append(instruction)
        self.accessed.append(tuple(accessed))

    def origin(self, node: XNode, region: Region, channel: int) -> Origin:
        """Return the origin of an instruction that computes a region of a node's tensor, from a channel on."""
        return Origin(self.numbers[node.name], region.row_of_batch(node.shape[1]), region.left, channel)

    def begin_group(self) -> None:
        """Order the loads of the group after the stores of earlier ones, and forget the maps on chip."""
        self.inputs.forget()
        self.sums.forget()
        if self.instructions:
            every = AccessedRange(DDR_FEATURES, 0, 1 << 32, False)
            self.emit("compute.load_uops", {}, (every, AccessedRange(_GATE, 0, 1, True)))

    def load_map(self, name: str, region: Region, first: int, count: int, to_sums: bool) -> VectorTile:
        """Return a pinned tile of a stored tensor, loaded as input vectors or extended to 32 bits."""
        memory = self.sums if to_sums else self.inputs
        key = None if to_sums else ("map", name, region, first, count)
        known = None if key is None else memory.find(key)
        if known is not None:
            return VectorTile(known, region, first, count)
        tile = VectorTile(memory.allocate(region.rows * region.columns * count, key), region, first, count)
        for values, begin, end in self._moves(name, tile, region):
            ranges = (AccessedRange(_GATE, 0, 1, False), AccessedRange(memory.name, begin, end, True))
            self.emit("compute.load_bytes" if to_sums else "load.inputs", values, ranges)
        return tile

    def store(self, name: str, tile: VectorTile, region: Region) -> None:
        """Store a region of a tile of results, whose values have 8 bits."""
        for values, begin, end in self._moves(name, tile, region):
            last = values["dram_base"] + (values["y_size"] - 1) * values["x_stride"] + values["x_size"]
            written = AccessedRange(DDR_FEATURES, values["dram_base"] * BLOCK, last * BLOCK, True)
            self.emit("store.outputs", values, (AccessedRange(SUMS.name, begin, end, False), written))

    def _moves(self, name: str, tile: VectorTile, region: Region) -> list[tuple[dict[str, int], int, int]]:
        """Return the fields of as few transfers as move a region of a tile, with the range on chip of each.

        A transfer has rows of one distance in DDR memory, and follows itself on chip.
        """
        stored, whole = self.tensors[name], tile.region
        pixel, row = stored.pixel // BLOCK, stored.row // BLOCK
        first = (stored.offset + tile.first) // BLOCK + region.image * stored.height * row
        packed = pixel == tile.count
        lines = range(region.top, region.bottom)
        if region.columns == whole.columns and (packed or region.columns * pixel == row):
            lines = range(region.top, region.top + 1)  # one transfer for all rows
        moves = []
        for line in lines:
            count = region.rows if len(lines) == 1 else 1
            shape = (count, region.columns * tile.count, row) if packed else (count * region.columns, tile.count, pixel)
            values = dict(zip(("y_size", "x_size", "x_stride"), shape, strict=True))
            values["sram_base"] = tile.at(line, region.left)
            values["dram_base"] = first + line * row + region.left * pixel
            if count == 1 and packed:
                values["x_stride"] = values["x_size"]
            moves.append((values, values["sram_base"], values["sram_base"] + shape[0] * shape[1]))
        return moves

    def load_parameters(self, mnemonic: str, key: Hashable, elements: int, content: Callable[[], bytes]) -> int:
        """Return the address of pinned parameters, after a load if they are not on chip. key: names the content."""
        memory = {"load.weights": WEIGHTS, "compute.load_uops": MICRO_OPS, "compute.load_sums": SUMS}[mnemonic]
        address = self.memories[memory.name].find(key)
        if address is not None:
            return address
        address = self.memories[memory.name].allocate(elements, key)
        if key not in self.packed:
            self.parameters += bytes(-len(self.parameters) % _ALIGNMENT)
            self.packed[key] = len(self.parameters)
            self.parameters += content()
        values = {"sram_base": address, "dram_base": self.packed[key] // memory.element_bytes}
        values |= {"y_size": 1, "x_size": elements, "x_stride": elements}
        self.emit(mnemonic, values, (AccessedRange(memory.name, address, address + elements, True),))
        return address

    def load_weights(self, part: WeightSlice) -> int:
        """Return the address of a pinned slice of weight blocks, by block of outputs, position and block of inputs."""
        node = self.by_name[part.node]
        in_ch = self.by_name[node.inputs[0]].channels
        weights = self.graph.parameters[part.node].weights
        content = partial(pack_blocks, node, weights, in_ch, part)
        return self.load_parameters("load.weights", part, slice_blocks(node, in_ch, part), content)

    def load_entries(self, node: XNode, first: int, end: int) -> tuple[int, list[int] | int]:
        """Return the address of pinned biases, with the rounding's half, and the shift, or addresses of its vectors."""
        source, count = self.by_name[node.inputs[0]], blocks(end - first, BLOCK)
        shifts = result_shifts(node, source.radix or 0)[first:end].astype(np.int64)
        bias = self.graph.parameters[node.name].bias[first:end].astype(np.int64)
        if self.path.rounding == "half_up":
            bias = bias + np.where(shifts > 0, 1 << np.maximum(shifts - 1, 0), 0)
        vectors = [bias]
        if len(np.unique(shifts)) > 1:
            low = np.minimum(shifts, MOST_SHIFT)
            vectors += [low, shifts - low] if (shifts > MOST_SHIFT).any() else [low]
        padded = np.zeros((len(vectors), count * BLOCK), "<i4")
        padded[:, : end - first] = vectors
        key = ("entries", node.name, first, end)
        address = self.load_parameters("compute.load_sums", key, len(vectors) * count, padded.tobytes)
        one = len(vectors) == 1
        return address, int(shifts[0]) if one else [address + at * count for at in range(1, len(vectors))]

    def load_micro_ops(self, micro_ops: tuple[MicroOp, ...]) -> int:
        """Return the address of micro-operations for the next instruction of the same unit, which needs no pin."""
        content = partial(pack_micro_ops, micro_ops)
        address = self.load_parameters("compute.load_uops", micro_ops, len(micro_ops), content)
        self.memories[MICRO_OPS.name].release(address)
        return address


def slice_blocks(node: XNode, in_ch: int, part: WeightSlice) -> int:
    """Return the weight blocks of a slice."""
    depth = 1 if is_depthwise(node, in_ch) else blocks(part.in_end - part.in_first, BLOCK)
    return blocks(part.end - part.first, BLOCK) * node.kernel[0] * node.kernel[1] * depth


def pack_blocks(node: XNode, weights: np.ndarray, in_ch: int, part: WeightSlice) -> bytes:
    """Return the bytes of a slice: blocks [output, input] by block of outputs, position of the kernel, block of inputs.

    Of a depthwise convolution, a block has its weights on the diagonal.
    """
    dense = dense_weights(node, weights, in_ch, part)  # [out, kernel rows, kernel columns, in]
    out, taps = dense.shape[0], dense.shape[1] * dense.shape[2]
    count = blocks(out, BLOCK)
    if is_depthwise(node, in_ch):
        made = np.zeros((count, taps, 1, BLOCK, BLOCK), np.int8)
        channels = np.arange(out)
        made[channels // BLOCK, :, 0, channels % BLOCK, channels % BLOCK] = dense.reshape(out, taps)
        return made.tobytes()
    depth = blocks(dense.shape[3], BLOCK)
    padded = np.zeros((count * BLOCK, taps, depth * BLOCK), np.int8)
    padded[:out, :, : dense.shape[3]] = dense.reshape(out, taps, -1)
    return padded.reshape(count, BLOCK, taps, depth, BLOCK).transpose(0, 2, 3, 1, 4).tobytes()
