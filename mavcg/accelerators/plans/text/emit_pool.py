"""A tiled pooling as a plan. Tiles are independent: nothing is summed across tiles."""

from itertools import product

from mavcg.accelerators.plans.text.pieces import element_offset, memories_of, paper_pads, types_of, window_pads
from mavcg.accelerators.plans.text.plan import Command, Info, Load, PlanTile, PoolCommand, Store, TextPlan, Types
from mavcg.choose.layer_model.layer import ConvLayer
from mavcg.choose.layer_model.tiling import Tile
from mavcg.choose.layer_model.windows import axes, cuts
from mavcg.errors import MavcgError
from mavcg.hardware.accelerator import Accelerator


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
