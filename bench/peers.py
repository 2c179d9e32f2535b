"""Whole networks against other runtimes, in one interleaved run: `python -m bench.peers [--networks A,B]`.

Each runtime is a process of its own (bench/worker.py) that is stopped while another is timed. They alternate in
rotating order; with one thread all run on the same CPU within a round and on the next CPU in the next round
(bench/interleaved.py). The time of a network on a runtime is the median over rounds of each round's median. The ratio
to a peer is the median of the rounds' ratios, and the fastest peer is the one with the largest ratio; only ratios
within one run count. The peers have an environment of their own, made at first use from bench/peers-requirements.txt;
models are converted once. Each runtime's output is compared with onnxruntime's (for .tflite: LiteRT's), so that a wrong
network does not count.

    python -m bench.peers --prepare                  environment, models, libraries; then nothing is fetched
    python -m bench.peers --layers mobilenet_v2      time of each layer, here and in the runtimes that report layers
    python -m bench.peers --precision bf16           networks in floats, by `mavcg build --precision bf16` and OpenVINO

In bf16 the outputs are compared with OpenVINO's.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.interleaved import MIN_RUNS, SECONDS, WARM, Worker, round_medians, start
from bench.models import MODELS
from bench.peer_layers import layers_of
from bench.peer_models import PEERS, peers_python, prepared
from bench.peer_rows import cells, row_of
from bench.record import facts, write
from mavcg.errors import MavcgError

COUNTED = (
    "squeezenet-random",
    "mobilenet_v1-random",
    "mobilenet_v2",
    "efficientnet_lite0",
    "alexnet-random",
    "inception_v1-random",
    "resnet50-random",
    "vgg19-random",
    "mobilenet_v2-int8",
    "resnet50-random-int8",
    "squeezenet-random-int8",
    "mobilenet_v1-random-int8",
    "mobilenet_v1-random-int8-tflite",
    "mnasnet_1.0-random-int8",
    "efficientnet_lite0-int8",
    "inception_v3-random-int8",
)
RECORDS = ("peers", "peers_amx")  # of a machine with AVX2, and of one with AVX-512, VNNI and AMX
NETWORKS = (*COUNTED, "blazeface", "hand_landmark")  # the last two are .tflite files
RUNTIMES = ("mavcg", *PEERS)
F32, BF16 = PRECISIONS = ("f32", "bf16")
# What a whole run has in each precision. Of the other runtimes OpenVINO alone computes in bf16 on x86-64.
NETWORKS_OF = {F32: NETWORKS, BF16: tuple(name for name in NETWORKS if "int8" not in name)}
RUNTIMES_OF = {F32: RUNTIMES, BF16: ("mavcg", "openvino")}
BF16_RECORD = "peers_bf16"
ROUNDS = 10  # even, so that each of two CPUs has as many


def model_name(text: str) -> str:
    """Return the name in bench.models of a network that is given by its name there or in the table.

    Raises: MavcgError for an unknown name.
    """
    for name in NETWORKS:
        if text in (name, name.replace("-random", "")):
            return name
    if text in MODELS or text.rpartition("-")[2] in ("random", "int8", "tflite"):
        return text
    raise MavcgError(f"--networks {text}: there is none; there are {', '.join(NETWORKS)} and all of bench.models")


def compare(
    name: str, threads: int, rounds: int, runtimes: Sequence[str], clock: str, precision: str = F32
) -> dict[str, Any]:
    """Return the row of one network on every runtime that can load it. clock: as for round_medians.

    precision: of mavcg and OpenVINO, of PRECISIONS.
    """
    ready = prepared(name, runtimes, precision)
    reasons = dict(ready.reasons)
    workers: list[Worker] = []
    try:
        for runtime, file in ready.files.items():
            try:
                served = "openvino_bf16" if (runtime, precision) == ("openvino", BF16) else runtime
                workers.append(replace(start(served, file, threads, interpreter_of(runtime)), runtime=runtime))
            except RuntimeError as error:
                reasons[runtime] = str(error)
        errors = differences(workers, reasons)
        running = [worker for worker in workers if worker.runtime in errors]
        load = os.getloadavg()[0]
        medians = round_medians(running, rounds, clock)
    finally:
        for worker in workers:
            worker.end()
    versions = {worker.runtime: worker.version for worker in workers}
    row = row_of(name, threads, medians, versions, errors, reasons, precision)
    return {**row, "counts": name in COUNTED, "clock": clock, "rounds": rounds, "load_average": round(load, 2)}


def interpreter_of(runtime: str) -> str:
    """Return the Python that runs a worker: this environment's for mavcg, the peers' for the others."""
    return sys.executable if runtime == "mavcg" else str(peers_python())


def differences(workers: Sequence[Worker], reasons: dict[str, str]) -> dict[str, float]:
    """Return each runtime's largest difference from the reference, relative to the reference's largest element.

    The reference is onnxruntime, of .tflite files LiteRT, else the first peer. reasons: filled with the errors of those
    that fail.
    """
    outputs_by_runtime = outputs_of(workers, reasons)
    reference = next(
        (outputs_by_runtime[peer] for peer in ("onnxruntime", "litert", *PEERS) if peer in outputs_by_runtime),
        next(iter(outputs_by_runtime.values()), []),
    )
    return {runtime: difference(outputs, reference) for runtime, outputs in outputs_by_runtime.items()}


def outputs_of(workers: Sequence[Worker], reasons: dict[str, str]) -> dict[str, list[Any]]:
    """Return each runtime's outputs on the seeded inputs, flat. reasons: filled with the errors of those that fail."""
    outputs: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, worker in enumerate(workers):
            path = Path(folder) / f"{number}.npz"  # no names: a word of the request ends at a space
            try:
                worker.ask(f"out {path}")
            except RuntimeError as error:
                reasons[worker.runtime] = str(error)
                continue
            with np.load(path) as file:
                outputs[worker.runtime] = [file[name].ravel() for name in file.files]
    return outputs


def difference(outputs: Sequence[Any], reference: Sequence[Any]) -> float:
    """Return the largest difference of any output, over the reference's largest element; infinite if shapes differ."""
    if [a.shape for a in outputs] != [a.shape for a in reference]:
        return float("inf")
    pairs = [(a.astype(np.float64), b.astype(np.float64)) for a, b in zip(outputs, reference, strict=True)]
    worst = max(float(np.abs(a - b).max() / (np.abs(b).max() or 1.0)) for a, b in pairs)
    return worst if worst == worst else float("inf")


def prepare(networks: Sequence[str], runtimes: Sequence[str], precision: str = F32) -> None:
    """Do everything that takes time or downloads, before the measurement; print what cannot be made."""
    for name in networks:
        note(f"preparing {name}")
        for runtime, reason in prepared(name, runtimes, precision).reasons.items():
            note(f"{name}: {runtime} is left out: {reason}")


def show(rows: Sequence[Mapping[str, Any]], runtimes: Sequence[str]) -> None:
    """Print a table for each number of threads."""
    console = Console(width=180)
    for threads in sorted({row["threads"] for row in rows}):
        head, lines, notes = cells([row for row in rows if row["threads"] == threads], runtimes)
        table = Table(box=None, title=f"{threads} thread{'s' * (threads > 1)}", title_justify="left")
        for number, title in enumerate(head):
            table.add_column(title, justify="left" if number == 0 else "right")
        for line in lines:
            table.add_row(*(text.replace("[", "\\[") for text in line))
        console.print(table)
        for text in notes:
            console.print(text, markup=False)


def in_short(row: Mapping[str, Any]) -> str:
    """Return a row as one line of text."""
    times = (f"{name} {entry['ms']:.2f}" for name, entry in row["runtimes"].items() if "ms" in entry)
    ratio = f"; {row['ratio']:.2f} of {row['fastest']}" if "ratio" in row else ""
    return f"  {', '.join(times)} ms{ratio}"


def note(text: str) -> None:
    """Print progress."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Compare and print; write a record of bench/results/ if all networks, runtimes and threads were measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", help="names, with commas; all that are measured in the precision")
    parser.add_argument("--runtimes", help="names, with commas; all that compute in the precision")
    parser.add_argument("--precision", choices=PRECISIONS, default=F32, help="of networks in floats (%(default)s)")
    parser.add_argument("--threads", default="1,2", help="numbers, one after the other")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--cpu-time", action="store_true", help="of one thread on a busy machine: time of its CPU")
    parser.add_argument("--prepare", action="store_true", help="make all that is needed, and end")
    parser.add_argument("--layers", metavar="NETWORK", help="one network by layers instead")
    parser.add_argument("--json", action="store_true", help="print the rows instead of a table")
    parser.add_argument(
        "--record", choices=RECORDS, default=RECORDS[0], help="which record a whole run writes; the second: with AMX"
    )
    args = parser.parse_args()
    try:
        whole_networks, whole_runtimes = NETWORKS_OF[args.precision], RUNTIMES_OF[args.precision]
        named = args.runtimes.split(",") if args.runtimes else whole_runtimes
        runtimes = [name for name in whole_runtimes if name in named]
        unknown = set(named) - set(whole_runtimes)
        if unknown:
            raise MavcgError(f"--runtimes {', '.join(sorted(unknown))}: there are {', '.join(whole_runtimes)}")
        networks = [model_name(text) for text in args.networks.split(",")] if args.networks else [*whole_networks]
        counts = [int(text) for text in args.threads.split(",")]
        if args.cpu_time and counts != [1]:
            raise MavcgError("--cpu-time: adds all threads' time up; give --threads 1")
        clock = "cpu_ms" if args.cpu_time else "ms"
        if args.prepare:
            prepare(networks, runtimes, args.precision)
        elif args.layers:
            layers_of(model_name(args.layers), counts[0], args.json)
        else:
            rows = []
            for threads in counts:
                for name in networks:
                    note(f"{name}, {threads} threads")
                    rows.append(compare(name, threads, args.rounds, runtimes, clock, args.precision))
                    note(in_short(rows[-1]))
            if tuple(networks) == whole_networks and tuple(runtimes) == whole_runtimes and counts == [1, 2]:
                command = "" if args.record == RECORDS[0] else f" --record {args.record}"
                if args.precision == BF16:
                    args.record, command = BF16_RECORD, f" --precision {BF16}"
                settings = {"warm_runs": WARM, "least_runs": MIN_RUNS, "least_seconds": SECONDS}
                record = {**facts("measured", f"bench.peers{command}"), **settings, "runtimes": runtimes, "rows": rows}
                write(args.record, record)
            if args.json:
                print(json.dumps(rows, indent=2))
            else:
                show(rows, runtimes)
    except MavcgError as error:
        sys.exit(f"bench.peers: {error}")


if __name__ == "__main__":
    main()
