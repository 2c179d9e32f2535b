"""Time of a step that threads share by guided self-scheduling: each takes chunks of the remaining rows, by its speed.

The engine's own rule (runtime/csrc/engine_chunk.c), simulated with modelled speeds: chunks shrink towards the end, and
a slow core leaves the last rows to the others if they finish them sooner.
"""

import heapq
from collections.abc import Sequence

MOST_CORE_SHARE = 4096  # share of the fastest core; the engine accepts up to 65535
CHUNK_DIVISOR = 4  # as in engine_chunk.c: a chunk is 1/4 of a thread's share of the remaining rows


def core_shares(ns_per_row: Sequence[float]) -> list[int]:
    """Return the core shares of the engine, at least 1, in proportion to the speeds.

    ns_per_row: time of a row by core.
    """
    fastest = min(ns_per_row)
    return [max(1, round(MOST_CORE_SHARE * fastest / ns)) if ns else MOST_CORE_SHARE for ns in ns_per_row]


def next_chunk_rows(remaining: int, min_chunk: int, share: int, total: int) -> int:
    """Return the rows of a core's next chunk: a multiple of min_chunk, or all that remain.

    remaining, min_chunk: in rows. share: of this core. total: of all cores.
    """
    due = remaining * share // (max(total, share) * CHUNK_DIVISOR)
    return min(remaining, -(-due // min_chunk) * min_chunk if due > min_chunk else min_chunk)


def better_left(remaining: int, min_chunk: int, share: int, total: int, fastest: int) -> bool:
    """True if the other cores finish the remaining rows before this core would finish one minimum chunk."""
    if share >= fastest or total <= share:
        return False
    others, first = total - share, min(remaining, min_chunk)
    return first * others // share >= remaining + first * others // fastest


def simulated_ns(
    rows: int,
    min_chunk: int,
    ns_per_row: Sequence[float],
    ns_per_call: Sequence[float],
    modelled_ns_per_row: Sequence[float] | None = None,
) -> float:
    """Return the time until the last thread of a step ends, in ns.

    All threads start at 0, and the first is the caller's.
    ns_per_row: time of a row, by thread. ns_per_call: additional time for every `min_chunk` rows of a chunk, by thread.
    modelled_ns_per_row: from which the core shares are computed, if different from ns_per_row.
    """
    shares = core_shares(modelled_ns_per_row or ns_per_row)
    total, fastest = sum(shares), max(shares)
    free = [(0.0, thread) for thread in range(len(shares))]
    inside = {0}
    row, end = 0, 0.0
    while free and row < rows:
        time_ns, thread = heapq.heappop(free)
        others_inside = len(inside - {thread}) > 0
        if others_inside and better_left(rows - row, min_chunk, shares[thread], total, fastest):
            inside.discard(thread)
            continue
        inside.add(thread)
        chunk = next_chunk_rows(rows - row, min_chunk, shares[thread], total)
        row += chunk
        time_ns += chunk * ns_per_row[thread] + -(-chunk // min_chunk) * ns_per_call[thread]
        end = max(end, time_ns)
        heapq.heappush(free, (time_ns, thread))
    return end
