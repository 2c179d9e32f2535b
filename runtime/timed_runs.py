"""Time a model library, and a pipeline beside single runs: warm interleaved runs, medians, frames per second."""

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

from mavcg.runtime.application import LoadedApplication, load_application
from mavcg.runtime.loading import Model, StepTime
from mavcg.runtime.pipeline import Pipeline
from mavcg.runtime.run_arrays import Array


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


def time_runs(
    call: Callable[[], object], warm: int, min_runs: int, seconds: float, before: Callable[[], object] = lambda: None
) -> Times:
    """Run `call` untimed `warm` times, then timed at least min_runs times and until `seconds` have passed.

    before: is called before each of these, and not timed.
    """
    for _ in range(warm):
        before()
        call()
    times_ms: list[float] = []
    end = time.perf_counter() + seconds
    while len(times_ms) < min_runs or time.perf_counter() < end:
        before()
        start = time.perf_counter_ns()
        call()
        times_ms.append((time.perf_counter_ns() - start) / 1e6)
    return Times(tuple(times_ms))


def begin_anew(model: Model) -> None:
    """Reset the states of a model with bounded dimensions: some may grow, and all runs are to have the same lengths."""
    if model.states and model.dimensions:
        model.reset()


@dataclass(frozen=True)
class ProfiledRun:
    """A run's steps with their times. is_quiet: True if no other program took the CPU from this one meanwhile."""

    steps: tuple[StepTime, ...]
    is_quiet: bool


def profile_after_run(model: Model, arrays: Sequence[Array]) -> ProfiledRun:
    """Profile a run right after one that is not profiled.

    Reading a profile takes so long that the other threads fall asleep, and the first step would last until they wake.
    """
    begin_anew(model)
    model.run(*arrays)
    begin_anew(model)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    steps = tuple(model.profile(*arrays))
    return ProfiledRun(steps, resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw == before)


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


ROUNDS = 15
_WARM_FRAMES = 4


def measure_pipeline(library: Path, network: str, arrays: Sequence[Array], seconds: float) -> dict[str, Any]:
    """Measure the frames per second of a pipeline, and of single runs with 1 to as many threads as all its stages have.

    arrays: inputs of every frame. seconds: time for each of these, in interleaved rounds, so that noise falls on all of
    them.
    Returns: medians over the rounds, spreads (interquartile range), and the median of the rounds' ratios of the
    pipeline to the best number of threads for single runs.
    Raises: MavcgError as load_application.
    """
    with ExitStack() as stack:
        first = stack.enter_context(load_application(library))
        pipeline = first.pipeline(network)
        counts = range(1, sum(pipeline.threads) + 1)
        singles = [_network(stack.enter_context(load_application(library, threads=n)), network) for n in counts]
        calls: list[Callable[[float], float]] = [_single_rate(model, arrays) for model in singles]
        calls.append(_pipeline_rate(pipeline, arrays))
        rounds = [[call(seconds / ROUNDS) for call in calls] for _ in range(ROUNDS + 1)][1:]  # the first one warms up
    columns = list(zip(*rounds, strict=True))
    rows: list[dict[str, Any]] = [
        {"threads": [model.threads]} | _rate(column) for model, column in zip(singles, columns[:-1], strict=True)
    ]
    best = max(range(len(rows)), key=lambda n: rows[n]["per_second"])
    ratio = statistics.median(row[-1] / row[best] for row in rounds)
    pipelined = {"stages": pipeline.stages, "threads": list(pipeline.threads)} | _rate(columns[-1])
    return {"network": network, "single": rows, "pipelined": pipelined, "best_single": best, "ratio": round(ratio, 4)}


def _network(application: LoadedApplication, network: str) -> Model:
    return application[network]


def _rate(column: tuple[float, ...]) -> dict[str, float]:
    low, _, high = statistics.quantiles(column, n=4)
    return {"per_second": round(statistics.median(column), 3), "spread": round(high - low, 3)}


def _single_rate(model: Model, arrays: Sequence[Array]) -> Callable[[float], float]:
    def rate(seconds: float) -> float:
        model.run(*arrays)
        start, frames = time.perf_counter(), 0
        while time.perf_counter() - start < seconds or not frames:
            model.run(*arrays)
            frames += 1
        return frames / (time.perf_counter() - start)

    return rate


def _pipeline_rate(pipeline: Pipeline, arrays: Sequence[Array]) -> Callable[[float], float]:
    """Return a function that measures the frames per second of a full pipeline for some seconds."""

    def rate(seconds: float) -> float:
        outputs = pipeline.map(repeat(arrays))
        for _ in range(_WARM_FRAMES):
            next(outputs)
        start, frames = time.perf_counter(), 0
        while time.perf_counter() - start < seconds or not frames:
            next(outputs)
            frames += 1
        passed = time.perf_counter() - start
        outputs.close()  # type: ignore[attr-defined]  # a generator: it cancels what is in flight
        return frames / passed

    return rate
