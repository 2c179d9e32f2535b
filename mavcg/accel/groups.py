"""Fused groups of nodes with their tiles: what path search decides and code generation consumes."""

from dataclasses import dataclass

# Loops over tiles, the outermost first, that a group may run in: output channels outside keep weights on chip while the
# map passes; rows outside keep the input's rows while all weights pass.
ORDERS = ("channels_rows_columns", "rows_columns_channels")


@dataclass(frozen=True)
class GroupTile:
    """Sizes of the tiles of a group, in elements of the tensors that leave it (DNNVM, IV-C).

    rows, columns, out_ch: T_h, T_w, T_oc, of each tensor that is written off chip; tensors inside of the group take
    what these need by their windows (G^-1, F^-1 of the paper). in_ch: T_ic, input channels of each convolution at a
    time; sums over more stay in accumulators. order: of ORDERS. whole: condition (a), all tensors and weights on chip
    at once, each loaded or saved once; the sizes are then those of the greatest tensor that is written.
    """

    rows: int
    columns: int
    out_ch: int
    in_ch: int
    order: str = ORDERS[0]
    whole: bool = False


@dataclass(frozen=True)
class FusedGroup:
    """Nodes that run as one: tensors between them stay on chip.

    nodes: names, in the graph's order; connected through tensors or through a common input, and convex. template: the
    name of the template that matched, "single" or "whole". cost: cycles of one image by the provider that chose it.
    """

    nodes: tuple[str, ...]
    template: str
    tile: GroupTile
    cost: float = 0.0


@dataclass(frozen=True)
class FusionPlan:
    """Every accelerator node in exactly one group, in an order in which each group reads only what is there.

    host nodes are in no group.
    """

    groups: tuple[FusedGroup, ...]

    @property
    def cost(self) -> float:
        """Sum of the groups' costs, in cycles of one image."""
        return sum(group.cost for group in self.groups)
