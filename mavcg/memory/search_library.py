"""Interface of csrc/placement.c: compiles and calls one round of the search for offsets below a capacity."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.toolchain.helper_library import HelperSources, load_helper
from mavcg.toolchain.target import host_target

SOURCE = Path(__file__).parent / "csrc" / "placement.c"
FLAGS = ("-std=c11", "-O2", "-ffreestanding", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
IMPOSSIBLE, FOUND = 0, 1
_TRAIL = 1 << 22  # entries of the trail; a branch adds two for each buffer that it raises
Ints = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class SearchRound:
    """Result of one round.

    offsets: None if none were found. possible: False if proven impossible, None if undecided.
    """

    offsets: tuple[int, ...] | None
    possible: bool | None
    nodes: int


class _Search(ctypes.Structure):
    """The struct `Search` of placement.c, field by field."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("count", "sections", "capacity", "nodes_left", "nodes")),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "begin",
                "end",
                "rank",
                "size",
                "neighbours",
                "neighbours_begin",
                "lowest",
                "offset",
                "sums",
                "placed",
                "section_failures",
                "buffer_failures",
            )
        ),
        ("stack", ctypes.c_void_p),
        ("stack_size", ctypes.c_int64),
        ("stack_used", ctypes.c_int64),
        ("trail", ctypes.c_void_p),
        ("trail_size", ctypes.c_int64),
        ("trail_used", ctypes.c_int64),
    ]


class SearchProblem:
    """Buffers with the sections in which they are live: range [begin, end) and size of each.

    section_failures, buffer_failures: number of branches that ended for lack of room there, in all rounds so far.
    """

    def __init__(self, spans: Sequence[tuple[int, int]], sizes: Sequence[int]) -> None:
        count, sections = len(sizes), max(end for _, end in spans)
        self.begin = np.array([begin for begin, _ in spans], np.int32)
        self.end = np.array([end for _, end in spans], np.int32)
        self.size = np.array(sizes, np.int64)
        near = (self.begin[:, None] < self.end[None]) & (self.begin[None] < self.end[:, None])
        np.fill_diagonal(near, False)
        self.neighbours = np.nonzero(near)[1].astype(np.int32)
        self.neighbours_begin = np.array([0, *accumulate(near.sum(1).tolist())], np.int32)
        self.section_failures, self.buffer_failures = np.zeros(sections + 2), np.zeros(count)
        self._work: dict[str, Ints] = {
            "lowest": np.zeros(count, np.int64),
            "offset": np.zeros(count, np.int64),
            "sums": np.zeros(sections + 2, np.int64),
            "placed": np.zeros(count, np.int8),
            "stack": np.empty(2 * count * count + (count + 2) * (sections + 2), np.int32),
            "trail": np.empty(_TRAIL, np.int64),
        }

    def search(self, order: Sequence[int], capacity: int, most_nodes: int) -> SearchRound:
        """Run one round, with buffers of equal offset in this order, for at most most_nodes nodes.

        capacity: in bytes.
        """
        rank = np.empty(len(order), np.int32)
        order_array = np.array(order, np.int32)
        rank[order_array] = np.arange(len(order), dtype=np.int32)
        arrays: dict[str, Ints] = {
            "begin": self.begin,
            "end": self.end,
            "rank": rank,
            "size": self.size,
            "neighbours": self.neighbours,
            "neighbours_begin": self.neighbours_begin,
            "section_failures": self.section_failures,
            "buffer_failures": self.buffer_failures,
            **self._work,
        }
        search = _Search(
            count=len(order),
            sections=len(self.section_failures) - 2,
            capacity=capacity,
            nodes_left=most_nodes,
            stack_size=len(self._work["stack"]),
            trail_size=_TRAIL,
            **{name: array.ctypes.data for name, array in arrays.items()},
        )
        result = _load_search()(ctypes.byref(search), ctypes.c_void_p(order_array.ctypes.data))
        offsets = tuple(int(offset) for offset in self._work["offset"]) if result == FOUND else None
        return SearchRound(offsets, {FOUND: True, IMPOSSIBLE: False}.get(result), int(search.nodes))


@cache
def _load_search() -> Any:
    """Load the search library, compiled for this machine unless the user's cache has it."""
    freestanding = () if host_target().system == "macos" else ("-nostdlib",)
    sources = HelperSources("placement", [SOURCE], (*FLAGS, *freestanding), "the search for memory plans")
    return load_helper(sources, ctypes.CDLL).mavcg_place_buffers
