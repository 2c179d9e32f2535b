"""Choose the minimum chunk of one-kernel Winograd on unequal cores.

Each chunk reads all weights, once for all of its rows. For two or four equal cores a few large chunks are right, and an
unplanned step is cut so (specs/tile_plan.py). With unequal cores, a slow core with half of a layer keeps all others
waiting, so smaller chunks pay as long as the additional reads of the weights take less time than they save.
"""

import math
from collections.abc import Mapping, Sequence

from mavcg.choose.tiles.parts import MODEL_ERRORS, CoreTeam, core_team
from mavcg.cost.guided_chunks import simulated_ns
from mavcg.cost.memory import read_ns
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.primitives.winograd.spec import Winograd
from mavcg.profiles.cost_fits import all_cores_fit
from mavcg.specs.tile_plan import call_rows, worthwhile_chunk_rows

# A chunk has at least 1/6 of the rows that share a read of the weights: of 36 tiles 6, the pixels of a register tile.
LEAST_PART = 6
MANY_CHUNKS = 64  # no more chunks than this are tried
GAIN = 0.97  # with all cores, smaller chunks must take less than this fraction of the time
NO_LATER = 1.01  # with the cores of the fastest type alone, they may take at most this multiple of the time


def winograd_chunk(spec: Winograd, clusters: Mapping[str, CoreModel], counts: Mapping[str, int]) -> int:
    """Return the minimum chunk in rows if it is smaller than the even chunks of an unplanned step, else 0.

    All cores of the board together must end sooner, and the cores of the fastest type alone no later, because a library
    may run on either. clusters, counts: by the version's label. With one core type the even chunks stay, as measured.
    """
    everyone = core_team(clusters, counts)
    even, _ = call_rows(spec)
    if len(everyone.counts) < 2 or not spec.rows or even * MANY_CHUNKS <= spec.rows:
        return 0
    least = max(worthwhile_chunk_rows(spec), -(-spec.least_shared_rows // LEAST_PART))
    sizes = dict.fromkeys(-(-spec.rows // number) for number in range(2, MANY_CHUNKS + 1))
    all_ns, fastest_ns = layer_ns(spec, even, everyone), layer_ns(spec, even, everyone.fastest)
    best, best_product = 0, math.inf
    for min_chunk in sizes:
        if not least <= min_chunk < even:
            continue
        both = layer_ns(spec, min_chunk, everyone), layer_ns(spec, min_chunk, everyone.fastest)
        if both[0] < GAIN * all_ns and both[1] <= NO_LATER * fastest_ns and both[0] * both[1] < best_product:
            best, best_product = min_chunk, both[0] * both[1]
    return best


def layer_ns(spec: Winograd, min_chunk: int, team: CoreTeam) -> float:
    """Return the modelled time of a layer in chunks of at least min_chunk rows, in nanoseconds.

    It is at least the time of reading the weights. It is the mean over MODEL_ERRORS and over the first or last core as
    the calling thread, as in parts.over_ideal. Cores compute at their peak, and each overlaps its reads with
    arithmetic.
    """
    tiles, cores = spec.tiles, team.all_cores
    weight_bytes = tiles.planes * tiles.panels * tiles.panel_bytes
    modelled = [spec.work / 2 / core.peak_gmac_per_s / spec.rows for core in cores]
    readings = max(1, -(-spec.rows // min(min_chunk, spec.shared_rows)))
    weights_ns = [weights_read_ns(weight_bytes, core) * readings / spec.rows for core in cores]
    ends_ns = []
    for error in MODEL_ERRORS:
        rows_ns = [
            max(row_ns * (error if core % 2 else 1.0), read)
            for core, (row_ns, read) in enumerate(zip(modelled, weights_ns, strict=True))
        ]
        for order in (slice(None), slice(None, None, -1)):
            ends_ns.append(simulated_ns(spec.rows, min_chunk, rows_ns[order], [0.0] * len(cores), modelled[order]))
    return max(sum(ends_ns) / len(ends_ns), readings * _all_cores_read_ns(weight_bytes, cores))


def weights_read_ns(size: int, core: CoreModel) -> float:
    """Return the time in which one core rereads `size` bytes from the nearest level that holds them, in nanoseconds."""
    return read_ns(size, size, core.levels)


def _all_cores_read_ns(size: int, cores: Sequence[CoreModel]) -> float:
    """Return the time in which memory delivers `size` bytes to all cores, in ns; 0 if a cache holds them."""
    if any(core.levels[-1].shared_bytes >= size for core in cores):
        return 0.0
    fastest = max(core.levels[-1].bandwidth_gb_per_s for core in cores)
    return size / (min(all_cores_fit().memory.cores_that_fill, len(cores)) * fastest)
