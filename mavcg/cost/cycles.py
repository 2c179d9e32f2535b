"""Cycles of a kernel on a core as a sum of named terms, and the names.

The model of e-PlaNNer has three parts: all multiply-accumulates at the array's rate (equation 6.6), the bytes of
equations 6.1 to 6.5 at the bandwidth behind a memory (6.10), and the larger of both (6.12). The planner for cores with
caches adds terms, each with a name; without them the paper's model is left. docs/planning.md lists them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

ARRAY = "array"  # the term of an array that is always full, without REGISTER_TILES
LEVEL_1, LEVEL_2 = "L1", "L2"  # levels of Cycles.roofs and level_bytes
BANDWIDTH = "bandwidth"  # what a sum of cycles waits for roofs
BYTES = "bytes"  # begins the names of the terms of bytes, which end in the level that they come from


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


ALL_TERMS = frozenset(Term)


@dataclass(frozen=True)
class Cycles:
    """Cycles of a kernel on one core, or of several one after the other, by named terms that are added.

    terms: of counted work, the name of its constant, or `bytes` and a memory level; of a macro-tile, a `Term`. roofs:
    by memory level, the cycles of all bytes at the bandwidth behind it, below which the kernel does not come.
    level_bytes: bytes that move into each level; both are empty where bytes are terms.
    """

    terms: Mapping[str, float]
    roofs: Mapping[str, float] = field(default_factory=dict)
    level_bytes: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """All terms together, or the highest roof; the order of the terms makes no difference, not even of rounding."""
        return max(math.fsum(self.terms.values()), *self.roofs.values(), 0.0)

    def __add__(self, other: "Cycles") -> "Cycles":
        terms: dict[str, float] = {}
        for cycles in (self, other):
            waits = cycles.total - math.fsum(cycles.terms.values())
            for name, count in (*cycles.terms.items(), *(((BANDWIDTH, waits),) if waits > 0 else ())):
                terms[name] = terms.get(name, 0.0) + count
        return Cycles(terms)
