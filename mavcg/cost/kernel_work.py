"""A kernel as a layer of the planner, and the sizes of its tiles."""

from dataclasses import dataclass, replace
from functools import lru_cache

from mavcg.cost.layer import ConvLayer, ItemBytes
from mavcg.kernels.gemm.register_tile import BlockRegisters
from mavcg.kernels.registry import block_registers
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.sums_of_products import TilingRules
from mavcg.specs.tile_plan import MacroTile

_KEPT = 1 << 12  # kernels; every macro-tile of a kernel asks again


@dataclass(frozen=True)
class KernelWork:
    """A kernel's work as the cost model sees it.

    layer: the kernel's whole layer, the rows of all images below each other. by_channels: true if calls are cut along
    the output channels, with a panel of channels per row of work; false if along rows of pixels.
    """

    spec: KernelSpec
    layer: ConvLayer
    by_channels: bool
    rules: TilingRules

    @property
    def panels(self) -> int:
        """Panels of output channels in a group."""
        return -(-self.layer.oc // self.rules.panel)

    @property
    def terms(self) -> int:
        """Terms of each sum."""
        return self.layer.ic * self.layer.kh * self.layer.kw

    def task(self, call_rows: int) -> ConvLayer:
        """Return the part of the layer that a call of `call_rows` rows of work computes."""
        layer = self.layer
        if self.by_channels:
            return replace(layer, oc=min(layer.oc, call_rows * self.rules.panel))
        rows = min(layer.oh, call_rows)
        return replace(layer, oh=rows, ih=min(layer.ih, layer.input_rows(rows)))


@lru_cache(_KEPT)
def work_of(spec: KernelSpec) -> KernelWork | None:
    """Return the work of a kernel; None for kernels that have no macro-tiles."""
    if spec.products is None:
        return None
    sizes, window = spec.products.sizes, spec.products.window
    layer = ConvLayer(
        "",
        sizes.out_channels,
        sizes.in_channels,
        sizes.rows,
        sizes.columns,
        *window.kernel,
        sizes.read_rows,
        sizes.read_columns,
        window.stride,
        dilation=window.dilation,
        groups=window.groups,
        items=replace(ItemBytes(*[sizes.item_bytes] * 4), weight=sizes.weight_item_bytes or sizes.item_bytes),
    )
    return KernelWork(spec, layer, spec.by_channels, spec.products.rules)


def registers(work: KernelWork, machine: Machine, macro: MacroTile, channels: int) -> BlockRegisters:
    """Return the register tiles that the emitter chooses for a block of `channels` channels."""
    return block_registers(work.spec, machine, macro, channels)


def block_channels(macro: MacroTile, task: ConvLayer) -> int:
    """Return the output channels of a block; the parts of a row run one after the other, and count as one block."""
    return task.oc if macro.parts > 1 else min(macro.nc or task.oc, task.oc)


def k_tile(layer: ConvLayer, kc: int | None) -> tuple[int, int, int]:
    """Return (ic, kh, kw) of a tile of at most kc terms; sums are cut along channels first, then columns, then rows."""
    if kc is None or kc >= layer.ic * layer.kh * layer.kw:
        return layer.ic, layer.kh, layer.kw
    if kc >= layer.ic * layer.kw:
        return layer.ic, kc // (layer.ic * layer.kw), layer.kw
    if kc >= layer.ic:
        return layer.ic, 1, kc // layer.ic
    return kc, 1, 1
