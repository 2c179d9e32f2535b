"""Emit a group with its tile, or with the largest smaller tile that fits in on-chip memory."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mavcg.accelerators.codegen.clusters import channel_step
from mavcg.accelerators.codegen.code import CodeState
from mavcg.accelerators.codegen.group_code import GroupCode
from mavcg.accelerators.codegen.onchip import DoesNotFitError
from mavcg.accelerators.codegen.vta_code import VtaCode
from mavcg.accelerators.codegen.vta_group import VtaGroupCode
from mavcg.accelerators.codegen.vta_tiles import smaller_vta_tile
from mavcg.accelerators.groups import GroupTile, GroupTooLarge


def emit_fitted(code: CodeState | VtaCode, names: Sequence[str], stored: Iterable[str], tile: GroupTile) -> GroupTile:
    """Emit a group, and return the tile that it was emitted with.

    names: nodes of the group. stored: tensors in the features segment. tile: first choice.
    Raises: GroupTooLarge naming the group, if not even the smallest tile fits.
    """
    given, stored, rewound = tile, frozenset(stored), False
    saved: Any = code.snapshot()
    while True:
        try:
            if isinstance(code, VtaCode):
                VtaGroupCode(code, names, stored, tile).emit()
            else:
                GroupCode(code, names, stored, tile).emit()
            return tile
        except DoesNotFitError as error:
            code.restore(saved)
            if isinstance(code, VtaCode):
                smaller = smaller_vta_tile(tile, error.memory, _most_inputs(code, names))
            else:
                smaller = _smaller(code, tile, error.memory, names)
            if smaller is None and not rewound:
                # A small buffer in the middle leaves no room for one of half the memory: once more from the beginning.
                code.rewind()
                saved, smaller, rewound = code.snapshot(), given, True
            if smaller is None:
                shown = ", ".join(names[:4]) + (", .." if len(names) > 4 else "")
                raise GroupTooLarge(
                    f"{code.graph.name}: {shown}: does not fit on chip even as tiles of a pixel ({error}; first tried "
                    f"{given.rows} x {given.columns}); give the target larger buffers, or leave these nodes to the CPU"
                ) from error
            tile = smaller


def _smaller(code: CodeState, tile: GroupTile, memory: str, names: Sequence[str]) -> GroupTile | None:
    """Return the next smaller tile, which takes less of a full memory; None if no tile is smaller.

    memory: name of the full memory.
    """
    step = channel_step(code.path)
    if memory == code.weights.name:
        if tile.out_ch > step:
            return replace(tile, out_ch=max(step, tile.out_ch // 2 // step * step))
        return _fewer_inputs(code, tile, names)
    if tile.whole:
        return replace(tile, whole=False)
    lanes = code.path.row_lanes
    if tile.rows > lanes:
        return replace(tile, rows=max(lanes, tile.rows // 2 // lanes * lanes))
    if tile.out_ch > 4 * step:
        return replace(tile, out_ch=tile.out_ch // 2 // step * step)
    if tile.columns > 8:
        return replace(tile, columns=-(-tile.columns // 2))
    if tile.out_ch > step:
        return replace(tile, out_ch=step)
    if tile.rows > 1:
        return replace(tile, rows=tile.rows // 2)
    if tile.columns > 1:
        return replace(tile, columns=tile.columns // 2)
    return _fewer_inputs(code, tile, names)


def _fewer_inputs(code: CodeState, tile: GroupTile, names: Sequence[str]) -> GroupTile | None:
    channels = min(tile.in_ch, _most_inputs(code, names))
    if channels <= code.path.word:
        return None
    return replace(tile, in_ch=max(code.path.word, channels // 2 // code.path.word * code.path.word))


def _most_inputs(code: CodeState | VtaCode, names: Sequence[str]) -> int:
    return max(code.by_name[source].channels for name in names for source in code.by_name[name].inputs)
