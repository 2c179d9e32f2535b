"""Whole networks against other runtimes, in one interleaved run: `python -m bench.networks [MODEL..] [--threads 1,2]`.

Each runtime is a process of its own (bench/worker.py) that is stopped while another is timed; they take turns in
rotating order. Per network and runtime: the median over rounds of each round's median; ratios within the run only.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table

from bench.models import model_path
from bench.record import ROOT, facts, write

NETWORKS = (
    "squeezenet-random", "mobilenet_v2", "resnet50-random", "vgg19-random", "inception_v1", "blazeface",
    "hand_landmark",
)  # fmt: skip
WARM, MIN_RUNS, SECONDS = 2, 5, 0.7


@dataclass
class Worker:
    """A process with a loaded model; stopped unless it is being asked."""

    runtime: str
    process: subprocess.Popen[str]
    version: str = ""

    def ask(self, line: str) -> dict[str, Any]:
        """Wake it, ask, and stop it again. Raises: RuntimeError with what it says went wrong."""
        assert self.process.stdin is not None and self.process.stdout is not None
        os.kill(self.process.pid, signal.SIGCONT)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = read_answer(self.process.stdout)
        os.kill(self.process.pid, signal.SIGSTOP)
        return answer

    def end(self) -> None:
        """Let it go, whatever state it is in."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
            self.process.kill()
        self.process.wait()


def read_answer(stream: IO[str]) -> dict[str, Any]:
    """The next line that is JSON: runtimes print other things too. Raises: RuntimeError."""
    for line in stream:
        if line.startswith("{"):
            answer: dict[str, Any] = json.loads(line)
            if answer.get("ok", True):
                return answer
            raise RuntimeError(answer["error"])
    raise RuntimeError("the worker ended without an answer")


def start(runtime: str, model: Path, threads: int) -> Worker:
    """A worker, loaded and stopped. Raises: RuntimeError where the runtime cannot load the model."""
    command = [sys.executable, str(ROOT / "bench" / "worker.py"), str(model), "--threads", str(threads)]
    process = subprocess.Popen(
        [*command, "--runtime", runtime], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    worker = Worker(runtime, process)
    assert process.stdout is not None
    try:
        worker.version = str(read_answer(process.stdout)["version"])
    except RuntimeError:
        worker.end()
        raise
    os.kill(process.pid, signal.SIGSTOP)
    return worker


def compare(name: str, threads: int, rounds: int) -> dict[str, Any]:
    """One network on every runtime that can load it."""
    model = model_path(name)
    peers = ("mavcg", "litert" if model.suffix == ".tflite" else "onnxruntime")
    workers = [start(runtime, model, threads) for runtime in peers]
    medians: dict[str, list[float]] = {worker.runtime: [] for worker in workers}
    try:
        for number in range(rounds):
            for worker in workers[number % len(workers) :] + workers[: number % len(workers)]:
                times = worker.ask(f"run {WARM} {MIN_RUNS} {SECONDS}")["ms"]
                medians[worker.runtime].append(statistics.median(times))
    finally:
        for worker in workers:
            worker.end()
    versions = {worker.runtime: worker.version for worker in workers}
    ours, theirs = (statistics.median(medians[peer]) for peer in peers)
    ratios = [a / b for a, b in zip(medians[peers[0]], medians[peers[1]], strict=True)]
    return {
        "network": name, "threads": threads, "peer": peers[1], "versions": versions, "rounds": rounds,
        "mavcg_ms": round(ours, 4), "peer_ms": round(theirs, 4), "ratio": round(statistics.median(ratios), 4),
        "ratio_low": round(min(ratios), 4), "ratio_high": round(max(ratios), 4),
    }  # fmt: skip


def main() -> None:
    """Compare, print, and write bench/results/networks.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=NETWORKS)
    parser.add_argument("--threads", default="1,2", help="numbers, one after the other")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")
    args = parser.parse_args()
    rows = []
    for threads in map(int, args.threads.split(",")):
        for name in args.models:
            print(f"bench: {name}, {threads} threads", file=sys.stderr, flush=True)
            rows.append(compare(name, threads, args.rounds))
    if args.models == NETWORKS:
        write("networks", {**facts("measured", "bench.networks"), "rows": rows})
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(box=None)
    for title in ("network", "threads", "mavcg ms", "peer", "peer ms", "mavcg / peer", "range"):
        table.add_column(title, justify="left" if title in ("network", "peer") else "right")
    for row in rows:
        table.add_row(
            row["network"], str(row["threads"]), f"{row['mavcg_ms']:.2f}", row["peer"], f"{row['peer_ms']:.2f}",
            f"{row['ratio']:.2f}", f"{row['ratio_low']:.2f}-{row['ratio_high']:.2f}",
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
