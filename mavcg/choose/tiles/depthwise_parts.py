"""Cut 8-bit depthwise layers for unequal cores: rows of work in parts of channels, at no cost with one thread.

Images of 14x14 and 7x7 pixels have 14 and 7 rows, too few for four fast and four slow cores. A row is cut into parts of
whole vectors of channels; each row reads the input that it shares with its neighbours again anyway
(kernels/int8/depthwise.py). f32 rows share their input with the other rows of a call, and stay whole.
"""

from collections.abc import Mapping

from mavcg.choose.lowering.step_list import call_rows
from mavcg.choose.tiles.parts import GAIN, CoreTeam, over_ideal
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.int8.depthwise_spec import CHANNELS, EightBitDepthwise
from mavcg.specs.tile_plan import CHUNK_WORK, MacroTile

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
    present = [label for label, count in counts.items() if count]
    if len(present) < 2 or not spec.rows:
        return None
    row_seconds = tuple(1 / clusters[label].ghz for label in present)
    cores = CoreTeam((), row_seconds, tuple(counts[label] for label in present))
    no_slowdown = [1.0] * len(present)
    unplanned, _ = call_rows(spec)
    best, best_ratio = None, over_ideal(spec.rows, unplanned, cores, no_slowdown)
    channels = spec.out.shape[3]
    lines = -(-channels // CHANNELS)
    for size in dict.fromkeys(-(-lines // number) * CHANNELS for number in range(1, lines + 1)):
        parts = -(-channels // size)
        min_chunk = max(1, -(-LEAST_WORK * spec.rows * parts // spec.work))
        ratio = over_ideal(spec.rows * parts, min_chunk, cores, no_slowdown)
        if best_ratio > LATE and ratio < GAIN * best_ratio:
            best_ratio = ratio
            best = MacroTile(nc=size, call_rows=spec.rows, parts=parts, min_chunk_rows=min_chunk)
    return best
