"""A tiled layer as a plan: the off-chip loops in their order; a tile is loaded only if another one took its place.

The tiles of a pooling are independent: nothing is summed across them.
"""

from collections.abc import Iterator
from itertools import product

from mavcg.accelerators.plans.loop_order import loop_order
from mavcg.accelerators.plans.text.plan import (
    ITEM_BYTES,
    Command,
    Conv,
    Dims,
    Info,
    Load,
    PlanMemory,
    PlanTile,
    PoolCommand,
    Relu,
    Store,
    TextPlan,
    Types,
)
from mavcg.accelerators.plans.windows import InputWindow, axes, cuts
from mavcg.cost.layer import ConvLayer, ItemBytes, Tile, Tiling, trips
from mavcg.errors import MavcgError
from mavcg.hardware.accelerator import Accelerator, MemoryLevel

# A longer plan could be neither read nor compiled; tiles of a few elements exceed this.
MOST_STEPS = 4_000_000

Index = tuple[int, ...]
_LOOPS = ("OC", "IC", "OH", "OW", "KH", "KW")


def _check(layer: ConvLayer, tile: Tile) -> None:
    for name, factor in tile.factors.items():
        if not 1 <= factor <= layer.loops[name]:
            raise MavcgError(
                f"plan of {layer.name or 'a layer'}: a tile of {factor} along {name}; give 1 to {layer.loops[name]}"
            )
    steps = layer.groups
    for count in trips(layer, tile).values():
        steps *= count
    if steps > MOST_STEPS:
        raise MavcgError(
            f"plan of {layer.name or 'a layer'}: {steps} steps, more than the {MOST_STEPS} that a plan may have; "
            "take larger tiles"
        )


class _Tiles:
    """The tiles of a layer's tensors, by their indices in the loops. cut: (first, count) of each trip of each loop."""

    def __init__(self, layer: ConvLayer, tile: Tile, info: Info) -> None:
        self.layer, self.info = layer, info
        self.cut = {name: list(cuts(layer.loops[name], tile.factors[name])) for name in _LOOPS}
        down, across = axes(layer)
        self.rows = {
            (i, k): down.window(*out, *taps)
            for i, out in enumerate(self.cut["OH"])
            for k, taps in enumerate(self.cut["KH"])
        }
        self.columns = {
            (i, k): across.window(*out, *taps)
            for i, out in enumerate(self.cut["OW"])
            for k, taps in enumerate(self.cut["KW"])
        }
        self.inputs: dict[Index, PlanTile] = {}
        self.weights: dict[Index, PlanTile] = {}
        self.outputs: dict[Index, PlanTile] = {}
        self._declare()

    def _runs(self, *loops: str) -> Iterator[Index]:
        return product(range(self.layer.groups), *(range(len(self.cut[name])) for name in loops))

    def _declare(self) -> None:
        layer, info, cut = self.layer, self.info, self.cut
        for key in self._runs("IC", "OH", "KH", "OW", "KW"):
            group, ic, oh, kh, ow, kw = key
            (first, count), rows, columns = cut["IC"][ic], self.rows[oh, kh], self.columns[ow, kw]
            offset = element_offset(info.input, group * layer.ic + first, rows.first, columns.first)
            dims = (1, count, rows.length, columns.length)
            self.inputs[key] = PlanTile(f"INPUT_{len(self.inputs)}", offset, dims)
        weight = (layer.groups * layer.oc, layer.ic, layer.kh, layer.kw)
        for key in self._runs("OC", "IC", "KH", "KW"):
            (oc, oc_n), (ic, ic_n), (kh, kh_n), (kw, kw_n) = (
                cut[name][i] for name, i in zip(("OC", "IC", "KH", "KW"), key[1:], strict=True)
            )
            offset = (key[0] * layer.oc + oc) * layer.ic * layer.kh * layer.kw + element_offset(weight, ic, kh, kw)
            self.weights[key] = PlanTile(f"WEIGHT_{len(self.weights)}", offset, (oc_n, ic_n, kh_n, kw_n))
        for key in self._runs("OC", "OH", "OW"):
            (oc, oc_n), (oh, oh_n), (ow, ow_n) = (
                cut[name][i] for name, i in zip(("OC", "OH", "OW"), key[1:], strict=True)
            )
            offset = element_offset(info.output, key[0] * layer.oc + oc, oh, ow)
            self.outputs[key] = PlanTile(f"OUTPUT_{len(self.outputs)}", offset, (1, oc_n, oh_n, ow_n))


def _walk(tiles: _Tiles, order: tuple[str, ...], memories: tuple[str, str, str], relu: bool) -> Iterator[Command]:
    in_mem, wt_mem, ot_mem = memories
    layer, cut = tiles.layer, tiles.cut
    reductions = len(cut["IC"]) * len(cut["KH"]) * len(cut["KW"])
    reductions_done: dict[Index, int] = {}
    in_key, wt_key, ot_key = (), (), ()  # type: tuple[Index, Index, Index]

    def store_tile() -> Iterator[Command]:
        name, complete = tiles.outputs[ot_key].name, reductions_done[ot_key] == reductions
        if relu and complete:
            yield Relu(name)
        yield Store(name, ot_mem, partial=not complete)

    for group, *position in product(range(layer.groups), *(range(len(cut[name])) for name in order)):
        at = dict(zip(order, position, strict=True))
        oc, ic, oh, ow, kh, kw = (at[name] for name in _LOOPS)
        output = (group, oc, oh, ow)
        if output != ot_key:
            if ot_key:
                yield from store_tile()
            if output in reductions_done:
                yield Load(ot_mem, tiles.outputs[output].name)
            ot_key = output
        weight = (group, oc, ic, kh, kw)
        if weight != wt_key:
            yield Load(wt_mem, tiles.weights[weight].name)
            wt_key = weight
        source = (group, ic, oh, kh, ow, kw)
        if source != in_key:
            if tiles.inputs[source].elements:
                yield Load(in_mem, tiles.inputs[source].name)
            in_key = source
        pads = window_pads(tiles.rows[oh, kh], tiles.columns[ow, kw])
        names = tiles.outputs[output].name, tiles.inputs[source].name, tiles.weights[weight].name
        yield Conv(*names, layer.stride, pads, add=output in reductions_done)
        reductions_done[output] = reductions_done.get(output, 0) + 1
    yield from store_tile()


def emit_plan(
    layer: ConvLayer, tiling: Tiling, accelerator: Accelerator, types: Types | None = None, relu: bool = False
) -> TextPlan:
    """Return the plan of a layer for an accelerator's nearest memories, in the loop order of loop_order.py.

    types: element types with the sizes of layer.items; default: `types_of`. relu: apply a ReLU before outputs are
    stored. `verify_plan` checks whether the tiles fit, because the paper's own test leaves out the halo. Raises:
    MavcgError for a tile that does not belong to this layer, or is so small that millions of commands result.
    """
    _check(layer, tiling.tile)
    info = Info(
        (1, layer.groups * layer.ic, layer.ih, layer.iw),
        (layer.groups * layer.oc, layer.ic, layer.kh, layer.kw),
        (1, layer.groups * layer.oc, layer.oh, layer.ow),
        stride=layer.stride,
        pads=paper_pads(layer.pads),
        dilation=layer.dilation,
        groups=layer.groups,
        types=types or types_of(layer.items),
    )
    memories = memories_of(accelerator.memory)
    names = ("MEM_0",) * 3 if len(memories) == 1 else ("IN_MEM_0", "WT_MEM_0", "OT_MEM_0")
    tiles = _Tiles(layer, tiling.tile, info)
    commands = tuple(_walk(tiles, loop_order(layer, tiling), names, relu))
    declared = (*tiles.inputs.values(), *tiles.weights.values(), *tiles.outputs.values())
    return TextPlan(layer.name, info, memories, declared, commands)


def emit_pool(
    layer: ConvLayer, tile: Tile, accelerator: Accelerator, maximum: bool, types: Types | None = None
) -> TextPlan:
    """Return the plan of a pooling.

    layer: as a depthwise convolution, one group per channel. tile.oc: channels of a tile. The kernel is never cut.
    Raises: MavcgError for a tile that does not belong to this layer, or a layer that is not a pooling.
    """
    if (layer.oc, layer.ic) != (1, 1) or (tile.ic, tile.kh, tile.kw) != (1, layer.kh, layer.kw):
        raise MavcgError(
            f"plan of {layer.name or 'a layer'}: a pooling has one channel per group and its whole kernel in a tile, "
            f"not {layer.ic} to {layer.oc} channels and {tile.ic}x{tile.kh}x{tile.kw} of them; use emit_plan"
        )
    channels = layer.groups
    for name, factor, most in (("OC", tile.oc, channels), ("OH", tile.oh, layer.oh), ("OW", tile.ow, layer.ow)):
        if not 1 <= factor <= most:
            raise MavcgError(f"plan of {layer.name or 'a layer'}: a tile of {factor} along {name}; give 1 to {most}")
    info = Info(
        (1, channels, layer.ih, layer.iw),
        None,
        (1, channels, layer.oh, layer.ow),
        (layer.kh, layer.kw),
        layer.stride,
        paper_pads(layer.pads),
        layer.dilation,
        types=types or types_of(layer.items),
    )
    memories = tuple(m for m in memories_of(accelerator.memory) if m.name != "WT_MEM_0")
    in_mem, ot_mem = ("MEM_0", "MEM_0") if len(memories) == 1 else ("IN_MEM_0", "OT_MEM_0")
    down, across = axes(layer)
    inputs: list[PlanTile] = []
    outputs: list[PlanTile] = []
    commands: list[Command] = []
    for (c, c_n), (oh, oh_n), (ow, ow_n) in product(
        list(cuts(channels, tile.oc)), list(cuts(layer.oh, tile.oh)), list(cuts(layer.ow, tile.ow))
    ):
        rows, columns = down.window(oh, oh_n, 0, layer.kh), across.window(ow, ow_n, 0, layer.kw)
        source, target = f"INPUT_{len(inputs)}", f"OUTPUT_{len(outputs)}"
        offset = element_offset(info.input, c, rows.first, columns.first)
        inputs.append(PlanTile(source, offset, (1, c_n, rows.length, columns.length)))
        outputs.append(PlanTile(target, element_offset(info.output, c, oh, ow), (1, c_n, oh_n, ow_n)))
        if inputs[-1].elements:
            commands.append(Load(in_mem, source))
        commands.append(PoolCommand(maximum, target, source, layer.stride, window_pads(rows, columns)))
        commands.append(Store(target, ot_mem))
    return TextPlan(layer.name, info, memories, (*inputs, *outputs), tuple(commands))


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
