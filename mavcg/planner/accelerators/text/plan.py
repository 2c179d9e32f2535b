"""A plan: the tiles of a layer's tensors, the memories on chip, and the commands that move and compute them.

The paper's three sections (e-PlaNNer, 7.1 and figure 7.1) as values; docs/plan-text.md has the text's grammar.
"""

from dataclasses import dataclass, field
from math import prod

from mavcg.errors import MavcgError

Dims = tuple[int, int, int, int]

OPERANDS = ("INPUT", "WEIGHT", "OUTPUT")
# A memory's kind is how its name begins; MEM holds a tile of every operand.
MEMORY_KINDS = {"IN_MEM": ("INPUT",), "WT_MEM": ("WEIGHT",), "OT_MEM": ("OUTPUT",), "MEM": OPERANDS}

ITEM_BYTES = {"f16": 2, "f32": 4, "f64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8}


@dataclass(frozen=True, slots=True)
class Types:
    """Element types, by the names of ITEM_BYTES; psum: of a partial sum, on chip and off chip."""

    input: str = "f32"
    weight: str = "f32"
    output: str = "f32"
    psum: str = "f32"

    def item_bytes(self, operand: str) -> int:
        """Return the bytes of an element of an operand off chip."""
        return ITEM_BYTES[{"INPUT": self.input, "WEIGHT": self.weight, "OUTPUT": self.output}[operand]]

    def resident_bytes(self, operand: str) -> int:
        """Return the bytes of an element of an operand on chip: outputs are partial sums there."""
        return ITEM_BYTES[self.psum] if operand == "OUTPUT" else self.item_bytes(operand)


@dataclass(frozen=True, slots=True)
class Info:
    """[info] of a layer. Tensors are batch, channel, height, width.

    weight: absent for pooling, which has `kernel` (height, width) of its own. input channels are those of all groups,
    the weight's second dimension is the channels of one. pads: left, right, above, below, as in the paper's CONV.
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
        """Return the elements of the whole tensor."""
        return {"INPUT": self.input, "WEIGHT": self.weight, "OUTPUT": self.output}[operand]

    @property
    def taps(self) -> tuple[int, int]:
        """Height and width of the kernel."""
        return self.kernel if self.weight is None else (self.weight[2], self.weight[3])


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """A memory on chip. line: of the text it came from, as everywhere here; 0 if from none."""

    name: str
    size_bytes: int
    line: int = field(default=0, compare=False)

    @property
    def holds(self) -> tuple[str, ...]:
        """Operands that may lie in it. Of each it holds one tile at a time: another one takes its place."""
        return MEMORY_KINDS[self.name.rsplit("_", 1)[0]]


@dataclass(frozen=True, slots=True)
class PlanTile:
    """A box of a tensor. offset: of its first element from the tensor's, in elements, row-major."""

    name: str
    offset: int
    dims: Dims
    line: int = field(default=0, compare=False)

    @property
    def operand(self) -> str:
        """The tensor that it is of: how its name begins."""
        return self.name.split("_", 1)[0]

    @property
    def elements(self) -> int:
        """Number of elements; none where a window is nothing but padding."""
        return prod(self.dims)


@dataclass(frozen=True, slots=True)
class Load:
    """Command that loads a tile; one of the output brings its partial sums back."""

    memory: str
    tile: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Store:
    """A tile of the output goes off chip: complete, or as partial sums that are loaded again later."""

    tile: str
    memory: str
    partial: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Conv:
    """Sums of products of two tiles. add: onto what the output's tile holds; else it is begun anew.

    pads: left, right, above, below: zeros round this tile of the input.
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
    """The maximum, or else the average, of every window. Padding is left out of both."""

    maximum: bool
    output: str
    input: str
    stride: tuple[int, int] = (1, 1)
    pads: Dims = (0, 0, 0, 0)
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Relu:
    """Command that sets values below zero in a complete tile of the output to zero, on chip."""

    output: str
    line: int = field(default=0, compare=False)


Command = Load | Store | Conv | PoolCommand | Relu


@dataclass(frozen=True)
class TextPlan:
    """A layer's plan. name: of the layer, or nothing. file: that the text came from, for messages."""

    name: str
    info: Info
    memories: tuple[PlanMemory, ...]
    tiles: tuple[PlanTile, ...]
    commands: tuple[Command, ...]
    file: str = field(default="", compare=False)


def place(plan: TextPlan, line: int, what: str) -> str:
    """Return the beginning of a message: file and line, or the layer of a plan that was never text, and its object."""
    where = f"{plan.file}:{line}" if line else f"plan of {plan.name or 'a layer'}"
    return f"{where}: {what}"


def tiles_by_name(plan: TextPlan) -> dict[str, PlanTile]:
    """Return the tiles of a plan by their names. Raises: MavcgError where two tiles share a name."""
    found: dict[str, PlanTile] = {}
    for tile in plan.tiles:
        if tile.name in found:
            raise MavcgError(f"{place(plan, tile.line, tile.name)}: declared twice; give one another name")
        found[tile.name] = tile
    return found


def output_memories(plan: TextPlan) -> list[str | None]:
    """Per command: where the output's tile that it computes lies, None if the plan never states it.

    A command names a tile, not its memory. It lies where the tile's next STORE takes it from.
    """
    next_store: dict[str, str] = {}
    found: list[str | None] = [None] * len(plan.commands)
    for i in range(len(plan.commands) - 1, -1, -1):
        match plan.commands[i]:
            case Store(tile=tile, memory=memory):
                next_store[tile] = memory
            case Conv(output=tile) | PoolCommand(output=tile) | Relu(output=tile):
                found[i] = next_store.get(tile)
            case Load():
                pass
    return found
