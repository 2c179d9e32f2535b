"""Computes the code growth of a library from its notes."""

from collections.abc import Mapping, Sequence
from typing import Any


def growth_percent(
    summaries: Sequence[Mapping[str, Any]],
    runtime_bytes: int,
    total_bytes: int,
    single_library_bytes: int | None = None,
) -> float:
    """Return the code growth over the single-version build, in percent of it.

    Args:
        summaries: the modules' notes. runtime_bytes: size of the selector. total_bytes: of the library.
        single_library_bytes: size of the library linked without versions; None to compute it from total_bytes and the
            modules' notes.
    """
    if single_library_bytes is not None:
        return 100 * (total_bytes - single_library_bytes) / max(1, single_library_bytes)
    extra = sum(int(s["multi_bytes"]) - int(s["single_bytes"]) for s in summaries) + runtime_bytes
    return 100 * extra / max(1, total_bytes - extra)
