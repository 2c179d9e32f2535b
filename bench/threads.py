"""The gain of a second thread: `python -m bench.threads [MODEL ..] [--json | --layers]`.

Each library runs in a process with one thread and in one with two, interleaved as in bench.peers. The median of the
rounds' ratios counts; the single thread runs on the other CPU in each round. Without names, all networks with a bound
and some more are measured and bench/results/threads.json is written; the exit status is 1 if a bound is missed.
--layers shows instead the layers that exceed half of one thread's time most, by the least times of all rounds.
"""

import argparse
import json
import statistics
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.interleaved import MIN_RUNS, SECONDS, WARM, bound, start
from bench.models import model_path
from bench.record import facts, write
from bench.tables.catalogue import print_record

LEAST = {"resnet50-random": 1.75, "vgg19-random": 1.75}  # times as fast
NETWORKS = (*LEAST, "squeezenet-random", "mobilenet_v2")
ROUNDS = 16  # an even number: one thread runs on each of two CPUs as often
LAYER_RUNS, MOST_LAYERS = 5, 15


def scaling(name: str, rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the row of one network: ms with one thread and with two, and their ratio."""
    workers = [start("mavcg", model_path(name), threads) for threads in (1, 2)]
    medians: list[list[float]] = [[], []]
    try:
        for number in range(rounds):
            bound(workers, number)
            for which in (0, 1) if number // 2 % 2 else (1, 0):
                times = workers[which].ask(f"run {WARM} {MIN_RUNS} {SECONDS}")["ms"]
                medians[which].append(statistics.median(times))
    finally:
        for worker in workers:
            worker.end()
    ratios = [one_thread / two_threads for one_thread, two_threads in zip(*medians, strict=True)]
    return {
        "network": name,
        "rounds": rounds,
        "one_ms": round(statistics.median(medians[0]), 4),
        "two_ms": round(statistics.median(medians[1]), 4),
        "speedup": round(statistics.median(ratios), 4),
        "speedup_low": round(min(ratios), 4),
        "speedup_high": round(max(ratios), 4),
    }


def layers(name: str, rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Return the ms of each step with one thread and with two, and the excess of the latter over half of the former."""
    workers = [start("mavcg", model_path(name), threads, profile=True) for threads in (1, 2)]
    asked: list[list[list[dict[str, Any]]]] = [[], []]
    try:
        for number in range(rounds):
            bound(workers, number)
            for which in (0, 1) if number // 2 % 2 else (1, 0):
                asked[which].append(workers[which].ask(f"layers {LAYER_RUNS}")["layers"])
    finally:
        for worker in workers:
            worker.end()
    one_thread, two_threads = (
        [min(step["ms"] for step in steps) for steps in zip(*steps_of_runs, strict=True)] for steps_of_runs in asked
    )
    return [
        {"layer": step["name"], "op": step["op"], "one_ms": a, "two_ms": b, "lost_ms": b - a / 2}
        for step, a, b in zip(asked[0][0], one_thread, two_threads, strict=True)
    ]


def print_layers(name: str, rows: list[dict[str, Any]]) -> None:
    """Print the layers that lose most, and the sums over all."""
    one_thread, two_threads, lost = (sum(row[key] for row in rows) for key in ("one_ms", "two_ms", "lost_ms"))
    table = Table(
        "layer",
        "operator",
        box=None,
        title=f"{name}: {one_thread / two_threads:.2f} times as fast",
        title_justify="left",
    )
    for title in ("one thread, ms", "two, ms", "times as fast", "lost, ms"):
        table.add_column(title, justify="right")
    most = sorted(rows, key=lambda row: -row["lost_ms"])[:MOST_LAYERS]
    all_of_them = {"layer": "all layers", "op": "", "one_ms": one_thread, "two_ms": two_threads, "lost_ms": lost}
    for row in (*most, all_of_them):
        table.add_row(
            row["layer"],
            row["op"],
            f"{row['one_ms']:.3f}",
            f"{row['two_ms']:.3f}",
            f"{row['one_ms'] / row['two_ms']:.2f}",
            f"{row['lost_ms']:.3f}",
        )
    Console().print(table)


def main() -> None:
    """Measure, print, and write bench/results/threads.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=NETWORKS)
    parser.add_argument("--json", action="store_true", help="print the rows instead of a table")
    parser.add_argument("--layers", action="store_true", help="say by layer where the second thread brings too little")
    args = parser.parse_args()
    if args.layers:
        for name in args.models:
            print_layers(name, layers(name))
        return
    rows = []
    for name in args.models:
        print(f"bench: {name}", file=sys.stderr, flush=True)
        rows.append(scaling(name))
    record = {**facts("measured", "bench.threads"), "least": LEAST, "rows": rows}
    if args.models == NETWORKS:
        write("threads", record)
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        print_record("threads", record)
    missed = [row["network"] for row in rows if row["speedup"] < LEAST.get(row["network"], 0)]
    if missed:
        sys.exit(f"bench.threads: below the bound: {', '.join(missed)}")


if __name__ == "__main__":
    main()
