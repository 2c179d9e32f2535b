"""How finely 8-bit depthwise layers are cut for unequal cores: rows in parts of channels, at no cost to one thread.

14x14 and 7x7 pixels are 14 and 7 rows, too few for four fast and four slow cores. A row is cut into parts of whole
vectors of channels; what a row shares with its neighbours is read again for each anyway (kernels/qdepthwise.py). Rows
of f32 share it with the other rows of a call, and stay as they are.
"""

from collections.abc import Mapping

from mavcg.accelerator import Accelerator
from mavcg.kernels.qdepthwise import CHANNELS, QDepthwise
from mavcg.lowering import task_rows
from mavcg.planner.engine_parts import GAIN, Cores, over_ideal
from mavcg.tile_plan import CLAIM_WORK, MacroTile

# Of a claim: each operation takes two or three times as long as a product's, since it loads what it multiplies.
LEAST_WORK = CLAIM_WORK // 2
LATE = 1.1  # of the ideal: what ends sooner stays as it is


def channel_groups(
    spec: QDepthwise, clusters: Mapping[str, Accelerator], counts: Mapping[str, int]
) -> MacroTile | None:
    """How rows are cut where all cores end sooner for it; None where they are claimed as they are.

    clusters, counts: by the version's label; cores count by their clocks, as the engine is told. Cores of one type keep
    whole rows, which were measured.
    """
    there = [label for label, count in counts.items() if count]
    if len(there) < 2 or not spec.rows:
        return None
    cores = Cores((), tuple(1 / clusters[name].frequency_ghz for name in there), tuple(counts[name] for name in there))
    alike = [1.0] * len(there)
    claimed, _ = task_rows(spec)
    best, so_far = None, over_ideal(spec.rows, claimed, cores, alike)
    channels = spec.out.shape[3]
    lines = -(-channels // CHANNELS)
    for size in dict.fromkeys(-(-lines // number) * CHANNELS for number in range(1, lines + 1)):
        parts = -(-channels // size)
        claim = max(1, -(-LEAST_WORK * spec.rows * parts // spec.work))
        found = over_ideal(spec.rows * parts, claim, cores, alike)
        if so_far > LATE and found < GAIN * so_far:
            best, so_far = MacroTile(out_channels=size, task_rows=spec.rows, parts=parts, claim_rows=claim), found
    return best
