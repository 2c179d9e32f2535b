"""How finely depthwise layers are cut for unequal cores: rows of groups of channels, which cost one thread nothing.

14x14 and 7x7 pixels are 14 and 7 rows, too few for four fast and four slow cores. A row is cut into groups of whole
lines of channels, and a claim has rows of a group that share what they read of the image (kernels/depthwise.py).
"""

from collections.abc import Mapping

from mavcg.accelerator import Accelerator
from mavcg.kernels.depthwise import Depthwise
from mavcg.kernels.packing import LINE_CHANNELS
from mavcg.kernels.qdepthwise import CHANNELS, QDepthwise
from mavcg.lowering import task_rows
from mavcg.planner.engine_parts import GAIN, Cores, over_ideal
from mavcg.tile_plan import CLAIM_WORK, MacroTile

# Of a claim: each operation takes two or three times as long as a product's, since it loads what it multiplies.
LEAST_WORK = CLAIM_WORK // 2
LATE = 1.1  # of the ideal: what ends sooner stays as it is


def channel_groups(
    spec: Depthwise | QDepthwise, clusters: Mapping[str, Accelerator], counts: Mapping[str, int]
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
    channels, line = spec.out.shape[3], LINE_CHANNELS if isinstance(spec, Depthwise) else CHANNELS
    lines = -(-channels // line)
    for size in dict.fromkeys(-(-lines // number) * line for number in range(1, lines + 1)):
        parts = -(-channels // size)
        claim = max(min(2, spec.shared_rows), -(-LEAST_WORK * spec.rows * parts // spec.work))
        found = over_ideal(spec.rows * parts, claim, cores, alike)
        if so_far > LATE and found < GAIN * so_far:
            best, so_far = MacroTile(out_channels=size, task_rows=spec.rows, parts=parts, claim_rows=claim), found
    return best
