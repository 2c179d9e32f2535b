"""Compute the code growth of a library from its notes."""

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
        single_library_bytes: size of the library linked without versions, where there was one to link; None to subtract
            from total_bytes what the modules' notes say was added.
    """
    if single_library_bytes is not None:
        return 100 * (total_bytes - single_library_bytes) / max(1, single_library_bytes)
    extra = sum(int(s["multi_bytes"]) - int(s["single_bytes"]) for s in summaries) + runtime_bytes
    return 100 * extra / max(1, total_bytes - extra)
