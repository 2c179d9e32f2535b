"""Choose tiles of groups: by the paper's rule (DNNVM, equations 5 and 6), or the best of a grid by the analytic model.

The paper's rule is T_h = h_p, T_oc = oc_p, T_ic = ic_p, and T_w as large as the buffers allow. Its equation for the
input buffer has T_h rows and T_ic channels. Here the buffer is checked for G^-1(T_h) rows and all input channels, which
a convolution needs because its sums stay on chip. Of both loop orders, the one with less traffic is chosen.
"""

from collections.abc import Iterator
from dataclasses import replace

from mavcg.accelerators.fusion.group_shape import GroupShape
from mavcg.accelerators.fusion.work import GroupWork, group_work
from mavcg.accelerators.groups import ORDERS, GroupTile
from mavcg.accelerators.target import IsaTarget


def paper_tile(shape: GroupShape, target: IsaTarget) -> tuple[GroupTile, GroupWork] | None:
    """Return the tile of equations 5 and 6 and its work; None if not even one column fits."""
    rows, columns, channels = _greatest(shape)
    candidates: list[tuple[float, GroupTile, GroupWork]] = []
    for order in ORDERS:
        tile = GroupTile(
            min(target.rows_parallel, rows), columns, min(target.oc_parallel, channels), target.macs_in_channels, order
        )
        work = group_work(shape, tile, target)
        low, high = 0, columns  # bisection for the greatest width that fits
        while work is None and high - low > 1:
            middle = (low + high) // 2
            narrower = replace(tile, columns=middle)
            if group_work(shape, narrower, target) is None:
                high = middle
            else:
                low = middle
        if work is None and low:
            tile = replace(tile, columns=low)
            work = group_work(shape, tile, target)
        if work is not None:
            candidates.append((work.cycles(target), tile, work))
    if not candidates:
        return None
    _, tile, work = min(candidates, key=lambda candidate: candidate[0])
    return tile, work


def whole_tile(shape: GroupShape, target: IsaTarget) -> tuple[GroupTile, GroupWork] | None:
    """Return the tile with everything on chip at once (condition (a)) and its work; None if that does not fit."""
    rows, columns, channels = _greatest(shape)
    tile = GroupTile(rows, columns, channels, target.macs_in_channels, ORDERS[1], whole=True)
    work = group_work(shape, tile, target)
    return None if work is None else (tile, work)


def best_tile(shape: GroupShape, target: IsaTarget) -> tuple[GroupTile, GroupWork] | None:
    """Return the tile with the least modelled time over a grid of heights, widths, channels and orders.

    The result is None if no tile fits.
    """
    best: tuple[float, int, GroupTile, GroupWork] | None = None
    for tile in _grid(shape, target):
        work = group_work(shape, tile, target)
        if work is not None:
            key = (work.cycles(target), work.ddr_bytes)
            if best is None or key < best[:2]:
                best = (*key, tile, work)
    for simple in (paper_tile(shape, target), whole_tile(shape, target)):
        if simple is not None and (best is None or (simple[1].cycles(target), simple[1].ddr_bytes) < best[:2]):
            best = (simple[1].cycles(target), simple[1].ddr_bytes, *simple)
    return None if best is None else best[2:]


def _greatest(shape: GroupShape) -> tuple[int, int, int]:
    """Return the rows, columns and channels of the largest result."""
    results = [node.shape for node in shape.nodes if node.name in shape.results]
    return max(s[1] for s in results), max(s[2] for s in results), max(s[3] for s in results)


def _grid(shape: GroupShape, target: IsaTarget) -> Iterator[GroupTile]:
    rows, columns, channels = _greatest(shape)
    for order in ORDERS:
        for out_ch in _steps(channels, target.oc_parallel):
            for height in _steps(rows, target.rows_parallel):
                for width in dict.fromkeys((columns, -(-columns // 2), -(-columns // 4), -(-columns // 8))):
                    yield GroupTile(height, width, out_ch, target.macs_in_channels, order)


def _steps(length: int, unit: int) -> list[int]:
    """Return the sizes that divide a dimension into about equal tiles, in multiples of the array's size."""
    sizes = dict.fromkeys([min(unit, length), length])
    parts = 2
    while length / parts > unit:
        part = -(-length // parts)
        sizes[min(-(-part // unit) * unit, length)] = None
        parts *= 2
    return sorted(sizes)
