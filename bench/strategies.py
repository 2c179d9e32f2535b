"""Libraries of one network by each strategy of selection, in interleaved rounds: `python -m bench.strategies`.

`mavcg build --strategy` makes them: "engine" is what is built without the option. All are loaded by one process, with
one thread, and take turns; a time is the thread's own, of runs in which it kept its CPU where there are any. The ratio
is of a round's medians, to the engine's. Outputs are compared with the engine's, too: a strategy that computes
something else has no time.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.models import model_path, shapes_of
from bench.record import RESULTS, facts, write
from mavcg.loading import Model, load

NETWORKS = ("squeezenet-random", "inception_v1-random", "resnet50-random", "alexnet-random", "vgg19-random")
ENGINE = "engine"
STRATEGIES = (
    ENGINE, "pbqp", "local", "sum2d", "family:direct", "family:direct_blocked", "family:implicit", "family:im2",
    "family:kn2", "family:fft", "family:winograd",
)  # fmt: skip
ROUNDS, SECONDS, LEAST_RUNS = 9, 0.3, 2
SLOW_MS = 2000.0  # what takes longer is timed in the first rounds only
SLOW_ROUNDS = 2
TOLERANCE = 1e-4  # over the largest output: strategies round in other orders


@dataclass(frozen=True)
class Library:
    """A built library and what `mavcg build --json` said of it."""

    strategy: str
    path: Path
    said: dict[str, Any]


def build(name: str, strategy: str, folder: Path, db: Path | None) -> Library:
    """Raises: RuntimeError with the command's words where it refuses, such as a strategy that cannot do a network."""
    path = folder / f"lib{strategy.replace(':', '_')}.so"
    command = [sys.executable, "-m", "mavcg.cli", "build", str(model_path(name)), "--board", "host", "-o", str(path)]
    command += ["--json", "--strategy", strategy]
    for tensor, shape in shapes_of(name).items():
        command += ["--shape", f"{tensor}={'x'.join(map(str, shape))}"]
    if db is not None and strategy != ENGINE:
        command += ["--db", str(db)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return Library(strategy, path, json.loads(done.stdout))


def timed(model: Model, arrays: Sequence[Any]) -> float:
    """Median ms of the runs of a turn; those that lost their CPU count only where all did."""
    kept: list[float] = []
    lost: list[float] = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(kept) + len(lost) < LEAST_RUNS:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        begin = time.thread_time_ns()
        model.run(*arrays)
        ms = (time.thread_time_ns() - begin) / 1e6
        (kept if resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw == before else lost).append(ms)
    return float(statistics.median(kept or lost))


def compare(libraries: Sequence[Library], rounds: int) -> dict[str, dict[str, Any]]:
    """Times of all, taking turns. Raises: RuntimeError where outputs differ by more than rounding explains."""
    models = {one.strategy: load(one.path, threads=1) for one in libraries}
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape, np.float32) for t in models[ENGINE].inputs]
    wanted = [np.array(a) for a in models[ENGINE].run(*arrays)]
    times: dict[str, list[float]] = {name: [] for name in models}
    errors = {}
    for name, model in models.items():
        found = model.run(*arrays)
        errors[name] = max(
            float(np.abs(a - b).max() / (np.abs(b).max() or 1)) for a, b in zip(found, wanted, strict=True)
        )
        if errors[name] > TOLERANCE:
            raise RuntimeError(f"{name}: off by {errors[name]:.2g} of the largest output of {ENGINE}")
    names = list(models)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if number < SLOW_ROUNDS or times[name][-1] < SLOW_MS:
                times[name].append(timed(models[name], arrays))
    found_rows = {}
    for name, ms in times.items():
        ratios = [a / b for a, b in zip(ms, times[ENGINE], strict=False)]
        found_rows[name] = {
            "ms": statistics.median(ms), "rounds": len(ms), "spread_ms": _spread(ms),
            "over_engine": statistics.median(ratios), "spread": _spread(ratios), "error": errors[name],
        }  # fmt: skip
    return found_rows


def _spread(values: Sequence[float]) -> float:
    """Between the quartiles."""
    if len(values) < 2:
        return 0.0
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return quarters[2] - quarters[0]


def network_rows(name: str, strategies: Sequence[str], rounds: int, db: Path | None, out: Console) -> dict[str, Any]:
    """One network: a row for each strategy, slowest or fastest, and what was refused."""
    refused, libraries = {}, []
    with tempfile.TemporaryDirectory(prefix="mavcg-strategies-") as folder:
        for strategy in dict.fromkeys((ENGINE, *strategies)):
            try:
                libraries.append(build(name, strategy, Path(folder), db))
            except RuntimeError as error:
                refused[strategy] = str(error)
            out.print(f"{name}: {strategy} built", style="dim")
        rows = compare(libraries, rounds)
    for one in libraries:
        selection = one.said["selection"]
        rows[one.strategy] |= {
            "weight_bytes": one.said["weight_bytes"], "arena_bytes": one.said["arena_bytes"],
            "cost_ms": selection.get("total_ms"), "conversions": len(selection.get("conversions", ())),
            "primitives": dict(Counter(p["primitive"] for p in one.said["primitives"]).most_common()),
        }  # fmt: skip
    return {"strategies": rows, "refused": refused}


def show(found: dict[str, Any], out: Console) -> None:
    """A table for each network."""
    for name, network in found.items():
        table = Table(title=name, title_justify="left")
        for title in ("strategy", "ms", "over engine", "spread", "predicted ms", "conversions", "weights MB"):
            table.add_column(title, justify="left" if title == "strategy" else "right")
        for strategy, row in sorted(network["strategies"].items(), key=lambda pair: pair[1]["ms"]):
            cost = "" if row["cost_ms"] is None else f"{row['cost_ms']:.2f}"
            table.add_row(
                strategy, f"{row['ms']:.2f}", f"{row['over_engine']:.3f}", f"{row['spread']:.3f}", cost,
                str(row["conversions"]), f"{row['weight_bytes'] / 1e6:.1f}",
            )  # fmt: skip
        out.print(table)
        for strategy, why in network["refused"].items():
            out.print(f"{strategy}: {why}")


def main() -> None:
    """Build, compare, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--strategies", default=",".join(STRATEGIES), help="with commas between")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--db", type=Path, help="costs that `mavcg tune` measured; else they are modelled")
    parser.add_argument("--keep", action="store_true", help="what the record has of other networks stays")
    given = parser.parse_args()
    out = Console(stderr=True)
    costs = "measured by mavcg tune, else modelled" if given.db else "modelled"
    found: dict[str, Any] = {}
    if given.keep:
        found = json.loads((RESULTS / "strategies.json").read_text())["networks"]
    for name in given.networks:
        own = facts("measured", "bench.strategies")
        found[name] = {key: own[key] for key in ("date", "load_average")} | network_rows(
            name, given.strategies.split(","), given.rounds, given.db, out
        )
        show({name: found[name]}, Console())
        write("strategies", facts("measured", "bench.strategies") | {"costs": costs, "networks": found})


if __name__ == "__main__":
    main()
