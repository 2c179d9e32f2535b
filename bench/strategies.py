"""Libraries of one network by each strategy of selection, in interleaved rounds: `python -m bench.strategies`.

`mavcg build --strategy` makes them: "engine" has the engine's own ways alone. A strategy whose name ends in ":tuned"
has the costs of --db, which `mavcg tune` measured; others have modelled ones, whatever this user has measured. All
are loaded by one process, with each number of threads, and take turns. With one thread a time is the thread's own,
else it is that of the clock, of runs in which no thread lost its CPU where there are any. The ratio is of a round's
medians, to the engine's; that of the least medians, beside it, is what other work on the machine disturbs least.
Outputs are compared with the engine's, too: a strategy that computes something else has no time. `same` says that
every convolution is computed as in the engine's library, and nothing is converted.
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

from bench.host_library import no_costs
from bench.models import model_path, shapes_of
from bench.record import RESULTS, facts, write
from mavcg.loading import Model, load

NETWORKS = (
    "squeezenet-random", "inception_v1-random", "resnet50-random", "alexnet-random", "vgg19-random", "mobilenet_v2"
)  # fmt: skip
ENGINE, TUNED = "engine", ":tuned"
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


def build(name: str, strategy: str, folder: Path, db: Path) -> Library:
    """Raises: RuntimeError with the command's words where it refuses, such as a strategy that cannot do a network."""
    path = folder / f"lib{strategy.replace(':', '_')}.so"
    command = [sys.executable, "-m", "mavcg.cli", "build", str(model_path(name)), "--board", "host", "-o", str(path)]
    command += ["--json", "--strategy", strategy.removesuffix(TUNED)]
    for tensor, shape in shapes_of(name).items():
        command += ["--shape", f"{tensor}={'x'.join(map(str, shape))}"]
    if strategy != ENGINE:
        command += ["--db", str(db if strategy.endswith(TUNED) else no_costs(folder))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return Library(strategy, path, json.loads(done.stdout))


def timed(model: Model, arrays: Sequence[Any], threads: int, seconds: float) -> float:
    """Median ms of the runs of a turn; those that lost their CPU count only where all did."""
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


def errors_of(libraries: Sequence[Library], arrays: Sequence[Any]) -> dict[str, float]:
    """Over the largest output, to the engine's. Raises: RuntimeError where it is more than rounding explains."""
    wanted: list[Any] = []
    errors = {}
    for one in libraries:
        found = [np.array(a) for a in load(one.path, threads=1).run(*arrays)]
        wanted = wanted or found
        errors[one.strategy] = max(
            float(np.abs(a - b).max() / (np.abs(b).max() or 1)) for a, b in zip(found, wanted, strict=True)
        )
        if errors[one.strategy] > TOLERANCE:
            raise RuntimeError(f"{one.strategy}: off by {errors[one.strategy]:.2g} of the largest output of {ENGINE}")
    return errors


def compare(
    libraries: Sequence[Library], arrays: Sequence[Any], threads: int, rounds: int, seconds: float
) -> dict[str, dict[str, Any]]:
    """Times of all, the engine's first among them, taking turns."""
    models = {one.strategy: load(one.path, threads=threads) for one in libraries}
    times: dict[str, list[float]] = {name: [] for name in models}
    names = list(models)
    for model in models.values():
        model.run(*arrays)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if number < SLOW_ROUNDS or times[name][-1] < SLOW_MS:
                times[name].append(timed(models[name], arrays, threads, seconds))
    found = {}
    for name, ms in times.items():
        ratios = [a / b for a, b in zip(ms, times[ENGINE], strict=False)]
        found[name] = {
            "ms": statistics.median(ms), "rounds": len(ms), "spread_ms": _spread(ms),
            "over_engine": statistics.median(ratios), "spread": _spread(ratios),
            "least_over_engine": min(ms) / min(times[ENGINE]),
        }  # fmt: skip
    return found


def _spread(values: Sequence[float]) -> float:
    """Between the quartiles."""
    if len(values) < 2:
        return 0.0
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return quarters[2] - quarters[0]


def network_rows(
    name: str, strategies: Sequence[str], threads: Sequence[int], rounds: int, seconds: float, db: Path, out: Console
) -> dict[str, Any]:
    """One network: a row for each strategy, with times for each number of threads, and what was refused."""
    refused, libraries = {}, []
    with tempfile.TemporaryDirectory(prefix="mavcg-strategies-") as folder:
        for strategy in dict.fromkeys((ENGINE, *strategies)):
            try:
                libraries.append(build(name, strategy, Path(folder), db))
            except RuntimeError as error:
                refused[strategy] = str(error)
            out.print(f"{name}: {strategy} built", style="dim")
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(t.shape, np.float32) for t in load(libraries[0].path, threads=1).inputs]
        errors = errors_of(libraries, arrays)
        times = {count: compare(libraries, arrays, count, rounds, seconds) for count in threads}
    engine = libraries[0].said
    rows = {}
    for one in libraries:
        selection = one.said["selection"]
        rows[one.strategy] = {
            "times": {str(count): found[one.strategy] for count, found in times.items()},
            "same": one.said["primitives"] == engine["primitives"], "error": errors[one.strategy],
            "weight_bytes": one.said["weight_bytes"], "arena_bytes": one.said["arena_bytes"],
            "cost_ms": selection.get("total_ms"), "conversions": len(selection.get("conversions", ())),
            "cost_is": dict(Counter(node["cost_is"] for node in selection.get("nodes", ())).most_common()),
            "primitives": dict(Counter(p["primitive"] for p in one.said["primitives"]).most_common()),
        }  # fmt: skip
    return {"strategies": rows, "refused": refused}


def show(found: dict[str, Any], out: Console) -> None:
    """A table for each network."""
    for name, network in found.items():
        table = Table(title=name, title_justify="left")
        for title in ("strategy", "threads", "ms", "over engine", "spread", "least over", "predicted", "conv.", "same"):
            table.add_column(title, justify="left" if title == "strategy" else "right")
        for strategy, row in network["strategies"].items():
            cost = "" if row["cost_ms"] is None else f"{row['cost_ms']:.2f}"
            for threads, times in row["times"].items():
                table.add_row(
                    strategy, threads, f"{times['ms']:.2f}", f"{times['over_engine']:.3f}", f"{times['spread']:.3f}",
                    f"{times['least_over_engine']:.3f}",
                    cost, str(row["conversions"]), "yes" if row["same"] else "",
                )  # fmt: skip
        out.print(table)
        for strategy, why in network["refused"].items():
            out.print(f"{strategy}: {why}")


def main() -> None:
    """Build, compare, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--strategies", default=",".join(STRATEGIES), help="with commas between")
    parser.add_argument("--threads", default="1,2", help="numbers, with commas between")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a turn")
    parser.add_argument("--db", type=Path, help="costs that `mavcg tune` measured, of strategies that end in :tuned")
    parser.add_argument("--keep", action="store_true", help="what the record has of other networks stays")
    given = parser.parse_args()
    strategies, threads = given.strategies.split(","), [int(count) for count in given.threads.split(",")]
    if given.db is None and any(name.endswith(TUNED) for name in strategies):
        parser.error(f"a strategy that ends in {TUNED} needs --db FILE")
    out = Console(stderr=True)
    found: dict[str, Any] = {}
    if given.keep:
        found = json.loads((RESULTS / "strategies.json").read_text())["networks"]
    for name in given.networks:
        own = facts("measured", "bench.strategies")
        found[name] = {key: own[key] for key in ("date", "load_average")} | network_rows(
            name, strategies, threads, given.rounds, given.seconds, given.db or Path(), out
        )
        show({name: found[name]}, Console())
        write("strategies", facts("measured", "bench.strategies") | {"networks": found})


if __name__ == "__main__":
    main()
