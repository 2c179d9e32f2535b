"""State of a program during code generation: instructions, memories, parameters.

Tensors that are still on chip are not reloaded.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

from mavcg.accelerators.codegen.onchip import OnChipMemory
from mavcg.accelerators.codegen.parameters import WeightSlice, pack_slice, slice_words
from mavcg.accelerators.codegen.regions import ChipTile, Region, row_pitch, tile_words
from mavcg.accelerators.codegen.tokens import with_tokens
from mavcg.accelerators.image.program import StoredTensor
from mavcg.accelerators.isa.datapath import Datapath
from mavcg.accelerators.isa.footprint import accesses
from mavcg.accelerators.isa.forms import FORMS, VERSION
from mavcg.accelerators.isa.instruction import AccelInstruction, Origin, check_instruction
from mavcg.accelerators.xgraph import XGraph, XNode


@dataclass
class CodeState:
    """State of code generation.

    tensors: tensors in the features segment, by name. jobs: code of the segments that have ended. packed: offset of
    each slice of weights in `parameters`.
    """

    graph: XGraph
    path: Datapath
    tensors: Mapping[str, StoredTensor]
    by_name: Mapping[str, XNode] = field(init=False)
    numbers: Mapping[str, int] = field(init=False)
    readers: Mapping[str, tuple[str, ...]] = field(init=False)
    instructions: list[AccelInstruction] = field(default_factory=list)
    jobs: list[list[AccelInstruction]] = field(default_factory=list)
    parameters: bytearray = field(default_factory=bytearray)
    packed: dict[WeightSlice, int] = field(default_factory=dict)
    features: OnChipMemory = field(init=False)
    weights: OnChipMemory = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = self.graph.by_name()
        self.numbers = {node.name: number for number, node in enumerate(self.graph.nodes)}
        self.readers = self.graph.readers()
        self.features, self.weights = self._empty_memories()

    def _empty_memories(self) -> tuple[OnChipMemory, OnChipMemory]:
        path = self.path
        return OnChipMemory("feature memory", path.feature_words), OnChipMemory("weight memory", path.weight_words)

    def begin_job(self) -> None:
        """Begin the code of a segment, which finds nothing on chip."""
        self.features, self.weights = self._empty_memories()
        self.emit("misc.start", {"version": VERSION})

    def end_job(self) -> None:
        """End the code of a segment."""
        self.emit("misc.end", {})
        self.jobs.append(self.instructions)
        self.instructions = []

    def snapshot(self) -> tuple[int, OnChipMemory, OnChipMemory]:
        """Return a snapshot of the state; `restore` undoes the code generated after it."""
        return len(self.instructions), copy.deepcopy(self.features), copy.deepcopy(self.weights)

    def restore(self, saved: tuple[int, OnChipMemory, OnChipMemory]) -> None:
        """Undo the code since a snapshot; packed weights stay."""
        del self.instructions[saved[0] :]
        self.features, self.weights = copy.deepcopy(saved[1]), copy.deepcopy(saved[2])

    def rewind(self) -> None:
        """Place the next buffer of each memory at its beginning."""
        self.features.rewind()
        self.weights.rewind()

    def program_code(self) -> tuple[AccelInstruction, ...]:
        """Return the code of all segments, with tokens."""
        codes = (with_tokens(job, [accesses(one, self.path) for one in job]) for job in self.jobs)
        return tuple(one for code in codes for one in code)

    def emit(self, mnemonic: str, values: Mapping[str, int], origin: Origin | None = None) -> None:
        """Append a checked instruction. Raises: MavcgError for a field beyond its limits, naming the node."""
        instruction = AccelInstruction(FORMS[mnemonic], values, origin=origin)
        name = self.graph.nodes[origin.node].name if origin is not None else "transfer"
        check_instruction(instruction, f"{self.graph.name}: {name}")
        self.instructions.append(instruction)

    def origin(self, node: XNode, region: Region, channel: int) -> Origin:
        """Return the origin of an instruction that computes a region of a node's tensor, from a channel on."""
        return Origin(self.numbers[node.name], region.row_of_batch(node.shape[1]), region.left, channel)

    def new_tile(self, name: str, region: Region, first: int, channels: int, cached: bool = True) -> ChipTile:
        """Allocate a pinned tile for a tensor. cached: True if later loads may use it. Raises: DoesNotFitError."""
        row = self._row_pitch(name, region)
        words, block = tile_words(region, channels, row, self.path)
        key = ("map", name, region, first, channels) if cached else None
        return ChipTile(self.features.allocate(words, key), row, block, region, first, channels)

    def _row_pitch(self, name: str, region: Region) -> int:
        readers = (self.by_name[reader] for reader in self.readers[name])
        strides = tuple(sorted({node.stride[0] for node in readers if node.kind in _ROW_READERS}))
        return row_pitch(region.columns, strides, self.path) if region.rows > 1 else region.columns

    def load_tile(self, name: str, region: Region, first: int, channels: int) -> ChipTile:
        """Return a pinned tile of a stored tensor, after a load if it is not in feature memory."""
        address = self.features.find(("map", name, region, first, channels))
        if address is not None:
            row = self._row_pitch(name, region)
            return ChipTile(address, row, tile_words(region, channels, row, self.path)[1], region, first, channels)
        tile = self.new_tile(name, region, first, channels)
        self.emit("load.map", {**self._ddr(name, region, first, channels), **tile.operand("to", self.path.word)})
        return tile

    def save(self, name: str, tile: ChipTile, region: Region, first: int, channels: int) -> None:
        """Save a region and a range of channels of a tile to the stored tensor."""
        operand = tile.operand("from", self.path.word, region, first)
        self.emit("save.map", {**self._ddr(name, region, first, channels), **operand})

    def save_at(self, ddr: int, name: str, tile: ChipTile, region: Region, channels: int) -> None:
        """Save a whole tile at a byte offset of the stored tensor's first pixel."""
        values = {**self._ddr(name, region, 0, channels), **tile.operand("from", self.path.word)}
        values["ddr"] += ddr - self.tensors[name].offset
        self.emit("save.map", values)

    def _ddr(self, name: str, region: Region, first: int, channels: int) -> dict[str, int]:
        stored = self.tensors[name]
        return {
            "ddr": stored.offset + region.row_of_batch(stored.height) * stored.row + region.left * stored.pixel + first,
            "ddr_pixel": stored.pixel,
            "ddr_row": stored.row,
            "rows": region.rows,
            "columns": region.columns,
            "channels": channels,
        }

    def load_weights(self, part: WeightSlice) -> int:
        """Return the address of a pinned slice of weights, after a load if it is not in weight memory."""
        address = self.weights.find(part)
        if address is not None:
            return address
        node = self.by_name[part.node]
        source = self.by_name[node.inputs[0]]
        words = slice_words(node, source.channels, part, self.path)
        address = self.weights.allocate(words, part)
        if part not in self.packed:
            self.packed[part] = len(self.parameters)
            assert source.radix is not None
            unpacked = self.graph.parameters[part.node]
            self.parameters += pack_slice(node, unpacked, source.channels, source.radix, part, self.path)
        self.emit("load.parameters", {"ddr": self.packed[part], "words": words, "to": address})
        return address


_ROW_READERS = ("conv", "depthwise", "deconv")
