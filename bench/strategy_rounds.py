"""Timed rounds of the libraries of bench/strategies.py, interleaved.

Rounds are kept in a file and accumulate over slices. A slice is a process that loads all libraries of a network, with
each number of threads, and takes whole rounds until its seconds are over. A round has one figure for each library, the
median of its consecutive runs; ratios are of figures of the same round. A machine that is quiet for a minute now and
then is therefore sufficient.
"""

import json
import os
import resource
import statistics
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.runtime.loading import Model, load

LEAST_RUNS = 2
SLOW_MS = 2000.0  # what takes longer is timed in the first rounds only
SLOW_ROUNDS = 2
TOLERANCE = 1e-4  # over the largest output: strategies round in other orders
ROUNDS = "rounds.jsonl"


def timed(model: Model, arrays: Sequence[Any], threads: int, seconds: float) -> float:
    """Return the median ms of the runs in a round; runs that lost their CPU count only if all did."""
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    kept: list[float] = []
    lost: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(kept) + len(lost) < LEAST_RUNS:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        begin = clock()
        model.run(*arrays)
        ms = (clock() - begin) / 1e6
        (kept if resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw == before else lost).append(ms)
    return float(statistics.median(kept or lost))


def inputs_of(library: Path) -> list[Any]:
    """Return normal random numbers from seed 0 for every input."""
    rng = np.random.default_rng(0)
    with load(library, threads=1) as model:
        return [rng.standard_normal(t.shape, np.float32) for t in model.inputs]


def errors_of(libraries: Mapping[str, Path]) -> dict[str, float]:
    """Return, by strategy, the largest error relative to the largest output of the first library.

    Raises: RuntimeError if it is larger than rounding can explain.
    """
    first, wanted = next(iter(libraries)), list[Any]()
    errors = {}
    for strategy, path in libraries.items():
        with load(path, threads=1) as model:
            outputs = [np.array(a) for a in model.run(*inputs_of(path))]
        wanted = wanted or outputs
        errors[strategy] = max(
            float(np.abs(a - b).max() / (np.abs(b).max() or 1)) for a, b in zip(outputs, wanted, strict=True)
        )
        if errors[strategy] > TOLERANCE:
            raise RuntimeError(f"{strategy}: off by {errors[strategy]:.2g} of the largest output of {first}")
    return errors


def read_rounds(libraries: Mapping[str, Path], folder: Path, threads: int) -> list[dict[str, Any]]:
    """Return the rounds with a number of threads from all slices so far, in order.

    For each library, those since it was built.
    """
    path, made = folder / ROUNDS, {name: path.stat().st_mtime for name, path in libraries.items()}
    found = []
    for each in map(json.loads, path.read_text().splitlines() if path.exists() else []):
        ms = {name: ms for name, ms in each["ms"].items() if name in made and each["at"] >= made[name]}
        if each["threads"] == threads and ms:
            found.append(each | {"ms": ms})
    return found


def threads_of(folder: Path) -> list[int]:
    """Return the numbers of threads that have rounds."""
    path = folder / ROUNDS
    return sorted({json.loads(line)["threads"] for line in path.read_text().splitlines()}) if path.exists() else []


def _wanted(libraries: Mapping[str, Path], folder: Path, threads: int, rounds: int) -> list[str]:
    """Return the strategies with too few rounds."""
    base = next(iter(libraries))
    taken = [each for each in read_rounds(libraries, folder, threads) if base in each["ms"]]
    unfinished = []
    for name in libraries:
        own = [each["ms"][name] for each in taken if name in each["ms"]]
        if len(own) < (SLOW_ROUNDS if own and min(own) > SLOW_MS else rounds):
            unfinished.append(name)
    return unfinished


def take_slice(
    libraries: Mapping[str, Path], folder: Path, threads: Sequence[int], rounds: int, seconds: float, slice_s: float
) -> bool:
    """Take rounds with each number of threads until there are enough or the time is over.

    Returns whether there are enough. Every round contains the first library, which all others are compared with. At
    least one round is taken; another one only if it is expected to end in time.
    """
    end, base = time.monotonic() + slice_s, next(iter(libraries))
    arrays = inputs_of(libraries[base])
    longest = 0.0
    for count in threads:
        models: dict[str, Model] = {}
        while names := list(dict.fromkeys((base, *_wanted(libraries, folder, count, rounds)))):
            if names == [base] and base not in _wanted(libraries, folder, count, rounds):
                break
            if longest and time.monotonic() + longest > end:
                return False
            began, shift = time.monotonic(), len(read_rounds(libraries, folder, count)) % len(names)
            ms_of = {}
            for name in names[shift:] + names[:shift]:
                if name not in models:
                    models[name] = load(libraries[name], threads=count)
                    models[name].run(*arrays)  # pages are touched
                ms_of[name] = timed(models[name], arrays, count, seconds)
            entry = {
                "threads": count,
                "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
                "at": time.time(),
                "load_average": round(os.getloadavg()[0], 2),
                "ms": ms_of,
            }
            with (folder / ROUNDS).open("a") as file:
                file.write(json.dumps(entry) + "\n")
            longest = max(longest, time.monotonic() - began)
        for model in models.values():
            model.close()
    return True


def figures(taken: Sequence[Mapping[str, Any]], base: str) -> dict[str, dict[str, Any]]:
    """Return medians, spreads, and ratios to the base's figure of the same round, by strategy."""
    by_strategy = {}
    for name in dict.fromkeys(name for each in taken for name in each["ms"]):
        pairs = [(each["ms"][name], each["ms"][base]) for each in taken if name in each["ms"] and base in each["ms"]]
        if not pairs:
            continue
        ratios = [own / base_ms for own, base_ms in pairs]
        ms = [own for own, _ in pairs]
        by_strategy[name] = {
            "ms": statistics.median(ms),
            "rounds": len(ms),
            "spread_ms": _spread(ms),
            "over_engine": statistics.median(ratios),
            "spread": _spread(ratios),
            "least_over_engine": min(ms) / min(base_ms for _, base_ms in pairs),
        }
    return by_strategy


def _spread(values: Sequence[float]) -> float:
    """Return the interquartile range."""
    if len(values) < 2:
        return 0.0
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return quarters[2] - quarters[0]
