"""Fused groups of nodes with their tiles: the result of the path search and the input of code generation."""

from dataclasses import dataclass

from mavcg.errors import MavcgError

# Orders of a group's loops over tiles, outermost first. With output channels outermost, weights stay on chip while the
# feature map streams; with rows outermost, the input's rows stay on chip while all weights stream.
ORDERS = ("channels_rows_columns", "rows_columns_channels")


class GroupTooLarge(MavcgError):
    """Raised for nodes that do not fit on chip together, or for one that does not by itself, with any tile."""


@dataclass(frozen=True)
class GroupTile:
    """Sizes of a group's tiles, in elements of the tensors that leave the group (DNNVM, IV-C).

    rows, columns, out_ch: T_h, T_w and T_oc of each tensor that is written off chip. Tiles of tensors inside of the
    group follow from these by the windows of their readers (G^-1, F^-1 of the paper). in_ch: T_ic, input channels that
    a convolution processes at a time; sums over more channels stay in accumulators. order: one of ORDERS. whole: True
    for condition (a) of the paper: all tensors and weights are on chip at once, and each is loaded or saved once; the
    sizes are then those of the largest written tensor.
    """

    rows: int
    columns: int
    out_ch: int
    in_ch: int
    order: str = ORDERS[0]
    whole: bool = False


@dataclass(frozen=True)
class FusedGroup:
    """Nodes that run as one operation, with the tensors between them on chip.

    nodes: names in the graph's order; they are connected by tensors or by a common input, and convex. template: name of
    the template that matched, "single" or "whole". cost: for a batch, by the provider that the search used: cycles,
    or the unit of its objective.
    """

    nodes: tuple[str, ...]
    template: str
    tile: GroupTile
    cost: float = 0.0


@dataclass(frozen=True)
class FusionPlan:
    """Groups that contain every accelerator node once, in an order in which each reads only tensors that exist already.

    Host nodes are in no group.
    """

    groups: tuple[FusedGroup, ...]

    @property
    def cost(self) -> float:
        """Return the sum of the groups' costs, for a batch."""
        return sum(group.cost for group in self.groups)
