"""What versions add to a library, of what its notes say."""

from collections.abc import Mapping, Sequence
from typing import Any


def growth_percent(
    summaries: Sequence[Mapping[str, Any]],
    runtime_bytes: int,
    total_bytes: int,
    single_library_bytes: int | None = None,
) -> float:
    """Code growth over the single-version build, in percent of it.

    single_library_bytes: of the library linked without versions, where there was one to link; else it is what remains
    of total_bytes without what the modules' notes say was added.
    """
    if single_library_bytes is not None:
        return 100 * (total_bytes - single_library_bytes) / max(1, single_library_bytes)
    extra = sum(int(s["multi_bytes"]) - int(s["single_bytes"]) for s in summaries) + runtime_bytes
    return 100 * extra / max(1, total_bytes - extra)
