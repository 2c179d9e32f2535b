"""Time a model library: warm runs, medians, spread."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """Milliseconds of each run, in order; measured."""

    ms: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the median of the runs, in ms."""
        return statistics.median(self.ms)

    @property
    def spread(self) -> float:
        """Return the interquartile range in ms; 0 for fewer than four runs."""
        if len(self.ms) < 4:
            return 0.0
        low, _, high = statistics.quantiles(self.ms, n=4)
        return high - low


def time_runs(call: Callable[[], object], warm: int, min_runs: int, seconds: float) -> Times:
    """Run `call` untimed `warm` times, then timed at least min_runs times and until `seconds` have passed."""
    for _ in range(warm):
        call()
    times_ms: list[float] = []
    end = time.perf_counter() + seconds
    while len(times_ms) < min_runs or time.perf_counter() < end:
        start = time.perf_counter_ns()
        call()
        times_ms.append((time.perf_counter_ns() - start) / 1e6)
    return Times(tuple(times_ms))


def as_json(threads: int, times: Times) -> dict[str, float | int]:
    """Return a row of `mavcg bench --json`."""
    return {
        "threads": threads,
        "median_ms": round(times.median, 5),
        "min_ms": round(min(times.ms), 5),
        "max_ms": round(max(times.ms), 5),
        "spread_ms": round(times.spread, 5),
        "runs": len(times.ms),
    }


def parse_threads(text: str) -> tuple[int, ...]:
    """Parse numbers of threads: "1,2" is (1, 2). Raises: ValueError for another form."""
    counts = tuple(int(part) for part in text.split(","))
    if not counts or min(counts) < 0:
        raise ValueError(text)
    return counts
