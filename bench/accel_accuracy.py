"""Accuracy of 8-bit radix positions against f32: `python -m bench.accel_accuracy [MODEL ..]`.

Networks are quantised over calibration inputs by the search of mavcg.accel.quantise, for each tensor one radix
position, and with a position for each output channel's weights. They are compared with f32 on other inputs: signal to
quantisation noise of the output, and how often the first class agrees. Inputs are seeded noise: no images ship with
the models, so the figures say how near the integers are, not how well images are classified.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.models import model_path, shapes_of
from bench.record import facts, write
from mavcg.accel.accuracy import accuracy_of
from mavcg.accel.from_graph import xgraph_of
from mavcg.accel.networks import NAMES, network
from mavcg.accel.quantise import quantise
from mavcg.accel.xgraph import XGraph
from mavcg.graph import Array
from mavcg.importers.load import import_model

MODELS = ("mobilenet_v2.onnx", "squeezenet-random.onnx", "yolo_small")
CALIBRATION, TESTED = 2, 4
TRAINED = ("mobilenet_v2.onnx",)
ROUNDING = "half_up"


def graph_of(model: str) -> XGraph:
    """A built-in network, or a model of bench.models."""
    if model in NAMES:
        return xgraph_of(network(model))
    name = model.removesuffix(".onnx")
    return xgraph_of(import_model(Path(model_path(name)), shapes_of(name)))


def noise(graph: XGraph, seed: int) -> dict[str, Array]:
    """Seeded inputs in the graph's order."""
    random = np.random.default_rng(seed)
    return {node.name: random.standard_normal(node.shape).astype(np.float32) for node in graph.inputs()}


def row(model: str, per_channel: bool) -> dict[str, Any]:
    """A model's row."""
    graph = graph_of(model)
    images = [noise(graph, seed) for seed in range(CALIBRATION + TESTED)]
    start = time.process_time()
    found = quantise(graph, images[:CALIBRATION], ROUNDING, per_channel)
    seconds = time.process_time() - start
    accuracy = accuracy_of(graph, found.graph, images[CALIBRATION:], ROUNDING)
    worst = min(found.layers, key=lambda layer: layer.sqnr_db)
    return {
        "model": model, "trained": model in TRAINED, "weights": "per channel" if per_channel else "per tensor",
        "sqnr_db": round(min(accuracy.sqnr_db.values()), 2), "top1_agreement": round(accuracy.top1_agreement, 3),
        "inputs": accuracy.inputs, "worst_layer": worst.node, "worst_layer_db": round(worst.sqnr_db, 2),
        "cpu_seconds": round(seconds, 1),
    }  # fmt: skip


def main() -> None:
    """Quantise, compare, print; for all models write bench/results/accel_accuracy.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}, or a built-in network; default: all")
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")
    args = parser.parse_args()
    rows = [row(model, per_channel) for model in args.models or MODELS for per_channel in (False, True)]
    record = {**facts("counted", "bench.accel_accuracy"), "calibration_inputs": CALIBRATION, "rows": rows}
    if not args.models:
        write("accel_accuracy", record)
    if args.json:
        print(json.dumps(record, indent=2))
        return
    table = Table(title="8-bit radix positions against f32, on seeded noise", box=None, title_justify="left")
    for title in ("model", "weights", "SQNR, dB", "top 1 agrees", "worst layer, dB", "CPU s"):
        table.add_column(title, justify="left" if title in ("model", "weights") else "right")
    for one in rows:
        table.add_row(one["model"], one["weights"], str(one["sqnr_db"]), f"{one['top1_agreement']:.0%}",
                      f"{one['worst_layer_db']} ({one['worst_layer']})", str(one["cpu_seconds"]))  # fmt: skip
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
