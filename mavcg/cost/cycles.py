"""Cycles of a tiling as a sum of named terms: the roofline of e-PlaNNer and the calibrated terms beside it.

The paper's model has three parts: all multiply-accumulates at the array's rate (equation 6.6), the bytes of equations
6.1 to 6.5 at the bandwidth behind a memory (6.10), and the larger of both (6.12). The planner for cores with caches
adds terms, each with a name; without them the paper's model is left. docs/planning.md lists them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from mavcg.cost.kernel_cost import Cycles

ARRAY = "array"  # the term of an array that is always full, without REGISTER_TILES
LEVEL_1, LEVEL_2 = "L1", "L2"  # levels of Cycles.roofs and level_bytes


class Term(StrEnum):
    """A term of the cost that the paper's model lacks.

    LEVEL_1: a second memory level, by the same equations. RESIDENCY: which operands a cache keeps besides the
    stationary one, and that the stationary one stays only if it fits. FIRST_READ: weights are read for the first time
    from the outermost memory. REGISTER_TILES: cycles of register tiles instead of an array that is always full
    (equation 6.7 is the paper's form). TILE_ENDS: overhead of each register tile. RESUMED_SUMS: overhead of continuing
    partial sums. CHUNK_STARTS: wait at the start of a chunk of weights, or the cost of its prefetches. EXPOSED_WEIGHTS,
    EXPOSED_FILLS: time of moving weights, or the other operands, that does not overlap with arithmetic.
    """

    LEVEL_1 = "level-1"
    RESIDENCY = "residency"
    FIRST_READ = "first-read"
    REGISTER_TILES = "register-tiles"
    TILE_ENDS = "tile-ends"
    RESUMED_SUMS = "resumed-sums"
    CHUNK_STARTS = "chunk-starts"
    EXPOSED_WEIGHTS = "exposed-weights"
    EXPOSED_FILLS = "exposed-fills"


@dataclass(frozen=True)
class TilingModel:
    """A model that compares tilings: its terms, its metric, and whether a tile must fit its memory.

    metric: "latency", or "performance-per-access" (equation 6.13). must_fit: true for the paper's memories, which hold
    a tile or do not; false for a cache, which holds a part of it.
    """

    terms: frozenset[Term]
    metric: Literal["latency", "performance-per-access"]
    must_fit: bool

    def value(self, cost: Cycles) -> float:
        """Return the objective to be minimised: cycles, or cycles x bytes (the inverse of equation 6.13 for one layer).

        Both are of one layer, so the number of its multiply-accumulates is a constant factor.
        """
        return cost.total if self.metric == "latency" else cost.total * cost.level_bytes[LEVEL_2]

    def without(self, term: Term) -> "TilingModel":
        """Return the model without a term."""
        return TilingModel(self.terms - {term}, self.metric, self.must_fit)


ROOFLINE = TilingModel(frozenset(), "performance-per-access", must_fit=True)
CALIBRATED = TilingModel(frozenset(Term), "latency", must_fit=False)
