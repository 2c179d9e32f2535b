"""Checks of the sections [info] and [var]: shapes agree, tiles lie inside their tensors, memories are large enough."""

from math import prod

from mavcg.accelerators.plans.text.boxes import box_of, inside
from mavcg.accelerators.plans.text.plan import (
    OPERANDS,
    Info,
    Load,
    PlanTile,
    Store,
    TextPlan,
    location_of,
    tiles_by_name,
)
from mavcg.errors import MavcgError

# Coverage is checked on an array with one byte per element.
MOST_ELEMENTS = 2**30


def verify_declared(plan: TextPlan) -> dict[str, PlanTile]:
    """Return the tiles by name. Raises: MavcgError with the line of the first wrong tile or memory."""
    _shapes(plan)
    tiles = tiles_by_name(plan)
    for tile in plan.tiles:
        _in_tensor(plan, tile)
    names = [memory.name for memory in plan.memories]
    for memory in plan.memories:
        if names.count(memory.name) > 1:
            raise MavcgError(f"{location_of(plan, memory.line, memory.name)}: declared twice; give one another name")
    _memories(plan, tiles)
    return tiles


def _shapes(plan: TextPlan) -> None:
    info = plan.info
    wrong = _wrong_shape(info)
    if wrong:
        raise MavcgError(f"{location_of(plan, 0, '[info]')}: {wrong}")


def _wrong_shape(info: Info) -> str:
    for name in OPERANDS:
        tensor = info.dims(name)
        if tensor and prod(tensor) > MOST_ELEMENTS:
            return f"{name}{tensor} has {prod(tensor)} elements; at most {MOST_ELEMENTS} can be checked"
    if info.input[0] != 1 or info.output[0] != 1:
        return f"a batch of {info.input[0]} in and {info.output[0]} out; a plan covers one image: write 1"
    if info.weight is None:
        if info.output[1] != info.input[1] or info.groups != 1:
            return (
                f"a pooling of {info.input[1]} to {info.output[1]} channels in {info.groups} groups; a pooling has as "
                "many output as input channels, in one group"
            )
    else:
        if info.weight[0] != info.output[1]:
            return f"weights for {info.weight[0]} channels, an output of {info.output[1]}; both must be the same"
        if info.weight[1] * info.groups != info.input[1] or info.weight[0] % info.groups:
            return (
                f"{info.groups} groups of {info.weight[1]} input channels, an input of {info.input[1]} and an "
                f"output of {info.output[1]}; correct GROUPS or the shapes"
            )
    left, right, above, below = info.pads
    padded = info.input[1] * (info.input[2] + above + below) * (info.input[3] + left + right)
    if max(padded, *info.stride, *info.dilation) > MOST_ELEMENTS:
        return f"PADS{info.pads}, STRIDE{info.stride}, DILATION{info.dilation}: more than {MOST_ELEMENTS}; write less"
    for axis, word, before, after in ((0, "height", above, below), (1, "width", left, right)):
        span = (info.taps[axis] - 1) * info.dilation[axis] + 1
        room = info.input[2 + axis] + before + after
        out = (room - span) // info.stride[axis] + 1 if room >= span else 0
        if not 1 <= info.output[2 + axis] <= out:
            return (
                f"an output {word} of {info.output[2 + axis]}, where input, kernel, stride, dilation and padding make "
                f"{out}; correct OUTPUT, or STRIDE, PADS and DILATION"
            )
    return ""


def _in_tensor(plan: TextPlan, tile: PlanTile) -> None:
    tensor = plan.info.dims(tile.operand)
    if tensor is None:
        raise MavcgError(f"{location_of(plan, tile.line, tile.name)}: a pooling has no weights; remove the tile")
    if not inside(box_of(tile, tensor), tensor):
        raise MavcgError(
            f"{location_of(plan, tile.line, tile.name)}: {tile.dims} from element {tile.offset} on extends beyond "
            f"{tile.operand}{tensor}; correct the offset or the dimensions"
        )
    if tile.operand == "INPUT" and tile.dims[0] != 1:
        raise MavcgError(
            f"{location_of(plan, tile.line, tile.name)}: {tile.dims} has a batch of {tile.dims[0]}; "
            "a plan covers one image: write 1"
        )
    if tile.operand != "INPUT" and not tile.elements:
        raise MavcgError(
            f"{location_of(plan, tile.line, tile.name)}: {tile.dims} has no elements; only INPUT tiles may"
        )


def regions(plan: TextPlan, tiles: dict[str, PlanTile]) -> dict[tuple[str, str], int]:
    """Return the bytes of each (memory, operand), those of its largest tile.

    A memory is divided among its operands once for the whole plan. The output's region has room for every tile that is
    stored from the memory or loaded into it.
    """
    sizes: dict[tuple[str, str], int] = {}
    for command in plan.commands:
        if isinstance(command, Load | Store) and command.tile in tiles:
            tile = tiles[command.tile]
            size = tile.elements * plan.info.types.resident_bytes(tile.operand)
            key = (command.memory, tile.operand)
            sizes[key] = max(sizes.get(key, 0), size)
    return sizes


def _memories(plan: TextPlan, tiles: dict[str, PlanTile]) -> None:
    sizes = regions(plan, tiles)
    for memory in plan.memories:
        parts = {
            operand: size for (name, operand), size in sizes.items() if name == memory.name and operand in memory.holds
        }
        need = sum(parts.values())
        if need > memory.size_bytes:
            listed = ", ".join(f"{size} of {operand}" for operand, size in parts.items())
            raise MavcgError(
                f"{location_of(plan, memory.line, memory.name)}: has {memory.size_bytes} bytes, its largest tiles need "
                f"{need} ({listed}); take smaller tiles or a larger memory"
            )
