"""Cut 8-bit depthwise layers for unequal cores: rows of work in parts of channels, at no cost with one thread.

Images of 14x14 and 7x7 pixels have 14 and 7 rows, too few for four fast and four slow cores. A row is cut into parts of
whole vectors of channels; each row reads the input that it shares with its neighbours again anyway
(kernels/int8/depthwise.py). f32 rows share their input with the other rows of a call, and stay whole.
"""

from collections.abc import Mapping

from mavcg.choose.tiles.parts import GAIN, core_team, over_ideal
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.int8.specs import CHANNELS, EightBitDepthwise
from mavcg.specs.tile_plan import CHUNK_WORK, MacroTile, call_rows

# Fewest operations of a chunk: each takes two or three times as long as in a product, since it loads its operands.
LEAST_WORK = CHUNK_WORK // 2
LATE = 1.1  # multiple of the ideal time; a layer with a lower predicted time is not cut


def channel_groups(
    spec: EightBitDepthwise, clusters: Mapping[str, CoreModel], counts: Mapping[str, int]
) -> MacroTile | None:
    """Return a macro-tile that cuts rows into parts if that shortens the layer on all cores; None if rows stay whole.

    clusters, counts: by the version's label; cores count by their clocks, as in the engine's core shares. With one core
    type rows stay whole, as measured.
    """
    team = core_team(clusters, counts)
    if len(team.counts) < 2 or not spec.rows or spec.free_rows:
        return None
    seconds = [1 / core.ghz for core in team.cores]
    unplanned, _ = call_rows(spec)
    best, best_ratio = None, over_ideal(spec.rows, unplanned, team.counts, seconds)
    channels = spec.out.shape[3]
    lines = -(-channels // CHANNELS)
    for size in dict.fromkeys(-(-lines // number) * CHANNELS for number in range(1, lines + 1)):
        parts = -(-channels // size)
        min_chunk = max(1, -(-LEAST_WORK * spec.rows * parts // spec.work))
        ratio = over_ideal(spec.rows * parts, min_chunk, team.counts, seconds)
        if best_ratio > LATE and ratio < GAIN * best_ratio:
            best_ratio = ratio
            best = MacroTile(nc=size, call_rows=spec.rows, parts=parts, min_chunk_rows=min_chunk)
    return best
