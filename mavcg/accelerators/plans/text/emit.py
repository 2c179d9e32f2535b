"""A tiled layer as a plan: the off-chip loops in their order; a tile is loaded only if another one took its place."""

from collections.abc import Iterator
from itertools import product

from mavcg.accelerators.plans.text.pieces import element_offset, memories_of, paper_pads, types_of, window_pads
from mavcg.accelerators.plans.text.plan import Command, Conv, Info, Load, PlanTile, Relu, Store, TextPlan, Types
from mavcg.choose.layer_model.layer import ConvLayer
from mavcg.choose.layer_model.loop_order import loop_order
from mavcg.choose.layer_model.tiling import Tile, Tiling, trips
from mavcg.choose.layer_model.windows import axes, cuts
from mavcg.errors import MavcgError
from mavcg.hardware.accelerator import Accelerator

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
    """Return the plan of a layer for an accelerator's nearest memories, in the loop order of layer_model/loop_order.py.

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
