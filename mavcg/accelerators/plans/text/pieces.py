"""Parts that all plans share: memories, types, padding and offsets in the order of the text."""

from mavcg.accelerators.plans.text.plan import ITEM_BYTES, Dims, PlanMemory, Types
from mavcg.choose.layer_model.layer import ItemBytes
from mavcg.choose.layer_model.windows import InputWindow
from mavcg.errors import MavcgError
from mavcg.hardware.accelerator import MemoryLevel


def types_of(items: ItemBytes) -> Types:
    """Return the element types for a layer's element sizes: integers if an operand has one byte, else floats.

    Raises: MavcgError for a size without a type.
    """
    sizes = (items.input, items.weight, items.output, items.psum)
    kind = "i" if 1 in sizes else "f"
    names = [f"{kind}{8 * size}" for size in sizes]
    for name, size in zip(names, sizes, strict=True):
        if name not in ITEM_BYTES:
            raise MavcgError(f"plan: no element type has {size} bytes; the sizes are 1, 2, 4 and 8")
    return Types(*names)


def memories_of(level: MemoryLevel) -> tuple[PlanMemory, ...]:
    """Return one memory for each operand, or the one that all share."""
    if level.shared_bytes:
        return (PlanMemory("MEM_0", level.shared_bytes),)
    sizes = {"IN_MEM_0": level.input_bytes, "WT_MEM_0": level.weight_bytes, "OT_MEM_0": level.output_bytes}
    return tuple(PlanMemory(name, size) for name, size in sizes.items())


def paper_pads(pads: tuple[int, int, int, int]) -> Dims:
    """Return a layer's pads in the order of the paper's CONV: left, right, above, below."""
    above, left, below, right = pads
    return left, right, above, below


def element_offset(dims: Dims, channel: int, row: int, column: int) -> int:
    """Return the offset of an element of the first batch in a row-major tensor of these dims."""
    return (channel * dims[2] + row) * dims[3] + column


def window_pads(rows: InputWindow, columns: InputWindow) -> Dims:
    """Return the padding of one tile in the order of the paper's CONV: left, right, above, below."""
    return columns.before, columns.after, rows.before, rows.after
