"""A plan: the tiles of a layer's tensors, the on-chip memories, and the commands that move and compute tiles.

The paper's three sections (e-PlaNNer, 7.1 and figure 7.1) as values; docs/plan-text.md has the grammar of the text.
"""

from dataclasses import dataclass, field
from math import prod

from mavcg.errors import MavcgError

Dims = tuple[int, int, int, int]

OPERANDS = ("INPUT", "WEIGHT", "OUTPUT")
# Operands of a memory, by the beginning of its name; MEM holds a tile of every operand.
MEMORY_KINDS = {"IN_MEM": ("INPUT",), "WT_MEM": ("WEIGHT",), "OT_MEM": ("OUTPUT",), "MEM": OPERANDS}

ITEM_BYTES = {"f16": 2, "f32": 4, "f64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8}


@dataclass(frozen=True, slots=True)
class Types:
    """Element types, by the names of ITEM_BYTES. psum: of partial sums, on chip and off chip."""

    input: str = "f32"
    weight: str = "f32"
    output: str = "f32"
    psum: str = "f32"

    def item_bytes(self, operand: str) -> int:
        """Return the bytes per off-chip element of an operand."""
        return ITEM_BYTES[{"INPUT": self.input, "WEIGHT": self.weight, "OUTPUT": self.output}[operand]]

    def resident_bytes(self, operand: str) -> int:
        """Return the bytes per on-chip element of an operand; outputs are partial sums there."""
        return ITEM_BYTES[self.psum] if operand == "OUTPUT" else self.item_bytes(operand)


@dataclass(frozen=True, slots=True)
class Info:
    """Section [info] of a layer. Tensors are batch, channel, height, width.

    weight: None for pooling, which has `kernel` (height, width) instead. Input channels are those of all groups; the
    second dimension of weight has the channels of one group. pads: left, right, above, below, as in the paper's CONV.
    """

    input: Dims
    weight: Dims | None
    output: Dims
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pads: Dims = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    types: Types = Types()

    def dims(self, operand: str) -> Dims | None:
        """Return the shape of an operand's whole tensor."""
        return {"INPUT": self.input, "WEIGHT": self.weight, "OUTPUT": self.output}[operand]

    @property
    def taps(self) -> tuple[int, int]:
        """Height and width of the kernel."""
        return self.kernel if self.weight is None else (self.weight[2], self.weight[3])


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """An on-chip memory. line: line number in the plan's text, here and in all classes below; 0 if there is no text."""

    name: str
    size_bytes: int
    line: int = field(default=0, compare=False)

    @property
    def holds(self) -> tuple[str, ...]:
        """Operands that it may hold, one tile of each at a time; loading another tile replaces it."""
        return MEMORY_KINDS[self.name.rsplit("_", 1)[0]]


@dataclass(frozen=True, slots=True)
class PlanTile:
    """A box of a tensor. offset: of its first element in the tensor, in elements, row-major."""

    name: str
    offset: int
    dims: Dims
    line: int = field(default=0, compare=False)

    @property
    def operand(self) -> str:
        """Operand that the tile belongs to, by the beginning of its name."""
        return self.name.split("_", 1)[0]

    @property
    def elements(self) -> int:
        """Number of elements; 0 if the tile's window is padding alone."""
        return prod(self.dims)


@dataclass(frozen=True, slots=True)
class Load:
    """LOAD: move a tile on chip. A tile of the output is its partial sums."""

    memory: str
    tile: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Store:
    """STORE: move a tile of the output off chip, complete or as partial sums that are loaded again later."""

    tile: str
    memory: str
    partial: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Conv:
    """CONV: sums of products of two tiles. add: add to the output's tile; otherwise start new sums.

    pads: left, right, above, below: zeros around this tile of the input.
    """

    output: str
    input: str
    weight: str
    stride: tuple[int, int] = (1, 1)
    pads: Dims = (0, 0, 0, 0)
    add: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class PoolCommand:
    """MAXPOOL or AVGPOOL: maximum or average of every window, without padding."""

    maximum: bool
    output: str
    input: str
    stride: tuple[int, int] = (1, 1)
    pads: Dims = (0, 0, 0, 0)
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Relu:
    """RELU: set negative values in a complete on-chip tile of the output to zero."""

    output: str
    line: int = field(default=0, compare=False)


Command = Load | Store | Conv | PoolCommand | Relu


@dataclass(frozen=True)
class TextPlan:
    """A layer's plan. name: of the layer, or "". file: where the text was read from, for messages."""

    name: str
    info: Info
    memories: tuple[PlanMemory, ...]
    tiles: tuple[PlanTile, ...]
    commands: tuple[Command, ...]
    file: str = field(default="", compare=False)


def location_of(plan: TextPlan, line: int, object_name: str) -> str:
    """Return the location of an object of a plan, for messages: file and line, or the plan's layer, then its name.

    line: 0 if the plan was never text.
    """
    location = f"{plan.file}:{line}" if line else f"plan of {plan.name or 'a layer'}"
    return f"{location}: {object_name}"


def tiles_by_name(plan: TextPlan) -> dict[str, PlanTile]:
    """Return the tiles of a plan by name. Raises: MavcgError if two tiles share a name."""
    tiles: dict[str, PlanTile] = {}
    for tile in plan.tiles:
        if tile.name in tiles:
            raise MavcgError(f"{location_of(plan, tile.line, tile.name)}: declared twice; give one another name")
        tiles[tile.name] = tile
    return tiles


def output_memories(plan: TextPlan) -> list[str | None]:
    """Return, for each command, the memory of the output tile that it computes; None if the plan does not state it.

    A command names a tile, not its memory. The memory is the one from which the next STORE takes the tile.
    """
    next_store: dict[str, str] = {}
    memories: list[str | None] = [None] * len(plan.commands)
    for i in range(len(plan.commands) - 1, -1, -1):
        match plan.commands[i]:
            case Store(tile=tile, memory=memory):
                next_store[tile] = memory
            case Conv(output=tile) | PoolCommand(output=tile) | Relu(output=tile):
                memories[i] = next_store.get(tile)
            case Load():
                pass
    return memories
