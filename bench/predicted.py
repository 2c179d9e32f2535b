"""Predicted against measured latency on this machine, layer by layer: `python -m bench.predicted [MODEL..]`.

In one process: the networks are loaded together and take turns, round after round; each step's time is the median over
the runs that kept their core or, where these are too few, the lower quartile of all runs. The prediction knows the
machine's facts and the kernels' code, and nothing of the measured times. Pearson's correlation is given for each
network and for all layers together, of times and of their logarithms: the first is decided by the largest layers, in
the second all count alike.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.models import model_path
from bench.record import facts, write
from bench.runners import built_library
from bench.tables.catalogue import show_record
from mavcg.choose.predict.predict import Prediction
from mavcg.choose.predict.report import Agreement, agreement, correlation_json
from mavcg.hardware.board import Board
from mavcg.model.estimating import board_of, predict_file
from mavcg.runtime.loading import Model, load
from mavcg.runtime.timed_runs import profile_after_run

NETWORKS = ("squeezenet-random", "mobilenet_v2", "resnet50-random", "vgg19-random")
LEAST_QUIET = 5


def measure(
    models: Sequence[Model], kernels: Sequence[Sequence[str]], rounds: int, runs: int
) -> list[tuple[list[float], int]]:
    """Measure for each model the ms of every step (medians), and the number of runs.

    kernels: called by its steps. Raises: RuntimeError if a library has other steps than the prediction.
    """
    inputs = [
        [np.random.default_rng(0).standard_normal(t.shape).astype(t.dtype) for t in model.inputs] for model in models
    ]
    everything: list[list[list[float]]] = [[] for _ in models]
    quiet: list[list[list[float]]] = [[] for _ in models]
    for round_number in range(rounds):
        for number, model in enumerate(models):
            print(f"bench: round {round_number + 1} of {rounds}, {model.name}", file=sys.stderr, flush=True)
            for _ in range(runs):
                profiled = profile_after_run(model, inputs[number])
                if [step.kernel for step in profiled.steps] != kernels[number]:
                    raise RuntimeError(f"{model.name}: its library has other steps than the prediction")
                row = [step.ns / 1e6 for step in profiled.steps]
                everything[number].append(row)
                if profiled.is_quiet:
                    quiet[number].append(row)
    medians = []
    for kept, rows in zip(quiet, everything, strict=True):
        # A run that had to wait says nothing of the steps that waited: where most did, the lower quartile of all.
        if len(kept) >= LEAST_QUIET:
            medians.append(([statistics.median(times) for times in zip(*kept, strict=True)], len(kept)))
        else:
            medians.append(([float(ms) for ms in np.quantile(np.array(rows), 0.25, axis=0)], 0))
    return medians


def row_of(name: str, prediction: Prediction, measured: Sequence[float], quiet_runs: int) -> dict[str, Any]:
    """Return a network's row of the record."""
    predicted = [layer.ms for layer in prediction.layers]
    return {
        "network": name,
        "threads": prediction.chosen.threads,
        "predicted_total_ms": round(sum(predicted), 4),
        "measured_total_ms": round(sum(measured), 4),
        "quiet_runs": quiet_runs,
        "correlation": correlation_json(agreement(predicted, measured)),
        "layers": [
            {
                "name": layer.work.name,
                "kernel": layer.work.kernel,
                "predicted_ms": round(layer.ms, 6),
                "measured_ms": round(ms, 6),
                "bound": layer.bound,
            }
            for layer, ms in zip(prediction.layers, measured, strict=True)
        ],
    }


def pooled(rows: Sequence[dict[str, Any]]) -> Agreement:
    """Return the figures of all layers of all networks."""
    layers = [layer for row in rows for layer in row["layers"]]
    return agreement([layer["predicted_ms"] for layer in layers], [layer["measured_ms"] for layer in layers])


def compare(names: Sequence[str], board: Board, threads: int, rounds: int, runs: int) -> list[dict[str, Any]]:
    """Predict and measure some networks."""
    paths: list[Path] = [model_path(name) for name in names]
    predictions = []
    for name, path in zip(names, paths, strict=True):
        print(f"bench: predicting {name}", file=sys.stderr, flush=True)
        predictions.append(predict_file(path, board, threads, {}, 1))
    models = [load(built_library(path), threads=threads) for path in paths]
    try:
        kernels = [[layer.work.kernel for layer in prediction.layers] for prediction in predictions]
        measured = measure(models, kernels, rounds, runs)
    finally:
        for model in models:
            model.close()
    return [
        row_of(name, prediction, times, quiet)
        for name, prediction, (times, quiet) in zip(names, predictions, measured, strict=True)
    ]


def main() -> None:
    """Compare, print, and write bench/results/predicted.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=NETWORKS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5, help="of each network in a round")
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")
    args = parser.parse_args()
    board = board_of("host")
    rows = compare(args.models, board, args.threads, args.rounds, args.runs)
    record = {
        **facts("measured", "bench.predicted"),
        "predictions_are": "modelled, not measured",
        "measured_are": "medians of a step's quiet runs; lower quartiles of all runs where quiet_runs is 0",
        "board": str(board),
        "pooled": correlation_json(pooled(rows)),
        "rows": rows,
    }
    if tuple(args.models) == NETWORKS and args.threads == 1:
        write("predicted", record)
    show_record("predicted", record, args.json)


if __name__ == "__main__":
    main()
