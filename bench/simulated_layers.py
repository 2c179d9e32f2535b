"""Predicted against simulated time of networks, layer by layer: `python -m bench.simulated_layers [NETWORK ...]`.

Each network is built for a board; `mavcg estimate` predicts the library's layers on one core of each type, and
`mavcg simulate --per-layer` simulates a run of it there. Neither is measured: the record shows where the cost model
agrees with the simulator, which has the same facts of the core, and caches besides. Long layers are sampled; the
record has the standard error of each. Networks that are named alone write no record.
"""

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.models import model_path, shapes_of
from bench.network_options import network_options
from bench.record import facts, write
from mavcg.choose.bands.banded_range import OFF
from mavcg.choose.predict.predict import Prediction
from mavcg.lab.simulate.model_run import ModelRunOptions, ModelSimulation, simulate_model
from mavcg.lab.simulate.sampling import UNITS, SamplePlan
from mavcg.model.estimating import predict_file
from mavcg.model.model import build_model
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.profiles.load import load_board, load_core
from mavcg.profiles.timing import load_timing

NAME, BOARD = "simulated_layers", "exynos9820"
CORES = ("cortex-a55", "cortex-a75")
NETWORKS = ("blazeface", "face_landmark", "ppocr_cls", "hand_landmark", "mobilenet_v1-random")
WITHIN = 0.1
LEAST_SHARE = 0.005  # of a network's simulated time: layers below are of no weight, and counted apart


def compared(network: str, samples: int, jobs: int) -> list[dict[str, Any]]:
    """Return the layers of a network on each core: predicted and simulated ms, and the latter's standard error.

    Raises: MavcgError, also if the two have different steps.
    """
    board = load_board(BOARD)
    with tempfile.TemporaryDirectory() as folder:
        library = build_layer_by_layer(network, Path(folder), jobs)
        prediction = predict_file(library, board, 1, {}, jobs)
        rows = []
        for name in CORES:
            core = load_core(name)
            plan = SamplePlan(units=samples)
            simulated = simulate_model(library, core, load_timing(core), board, ModelRunOptions(plan=plan))
            rows += layer_rows(network, prediction, simulated)
    return rows


def build_layer_by_layer(network: str, folder: Path, jobs: int) -> Path:
    """Build a network for the board and return the library.

    Bands of rows are off, because their steps alternate. Raises: MavcgError.
    """
    shapes = [f"{name}={'x'.join(map(str, shape))}" for name, shape in shapes_of(network).items()]
    library = folder / f"lib{network.replace('-', '_')}.so"
    request, _ = make_model_request(
        model_path(network), str(library), ModelOptions(board=BOARD, shapes=shapes, jobs=jobs)
    )
    build_model(replace(request, depth_first=OFF))
    return library


def layer_rows(network: str, prediction: Prediction, simulated: ModelSimulation) -> list[dict[str, Any]]:
    """Return a row for each step. Raises: ValueError if prediction and simulation have different steps."""
    ghz, label = simulated.figures.ghz, simulated.core
    pairs = list(zip(prediction.layers, simulated.steps, strict=True))
    if any((layer.work.name, layer.work.op) != (step.name, step.op) for layer, step in pairs):
        raise ValueError(f"{network}: predicted and simulated steps are not the same ones")
    return [
        {
            "network": network,
            "core": simulated.core,
            "layer": step.name,
            "op": step.op,
            "kernel": step.kernel,
            "predicted_ms": round(layer.on[label].ms, 6),
            "compute_ms": round(layer.on[label].compute_ms, 6),
            "memory_ms": round(layer.on[label].memory_ms, 6),
            "simulated_ms": round(step.cycles / ghz / 1e6, 6),
            "standard_error_ms": round((step.sample.error if step.sample else 0.0) / ghz / 1e6, 6),
        }
        for layer, step in pairs
    ]


def summary(rows: Sequence[Mapping[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Return, for each group of rows by these keys, how well prediction and simulation agree.

    ratio: predicted over simulated time of the group. within: fraction of its layers whose prediction is at most 10 %
    off, without layers of less than half a percent of a network's time. share_within: fraction of its time in such
    layers.
    """
    whole: dict[tuple[str, str], float] = {}
    for row in rows:
        key = row["network"], row["core"]
        whole[key] = whole.get(key, 0.0) + row["simulated_ms"]
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    groups_of_rows = []
    for names, group in sorted(groups.items()):
        large = [r for r in group if r["simulated_ms"] >= LEAST_SHARE * whole[r["network"], r["core"]]]
        simulated = sum(r["simulated_ms"] for r in group)
        near = [r for r in group if abs(r["predicted_ms"] - r["simulated_ms"]) <= WITHIN * r["simulated_ms"]]
        close = sum(1 for r in large if r in near)
        groups_of_rows.append(
            {
                **dict(zip(keys, names, strict=True)),
                "layers": len(group),
                "large": len(large),
                "within": round(close / len(large), 4) if large else None,
                "ms": round(simulated, 4),
                "share_of_time": round(simulated / sum(whole.values()), 4),
                "share_within": round(sum(r["simulated_ms"] for r in near) / simulated, 4) if simulated else None,
                "ratio": round(sum(r["predicted_ms"] for r in group) / simulated, 4) if simulated else None,
                "median_ratio": round(statistics.median(r["predicted_ms"] / r["simulated_ms"] for r in large), 4)
                if large
                else None,
            }
        )
    return groups_of_rows


def kind_of(row: Mapping[str, Any]) -> str:
    """Return the family of a layer's kernel: its name up to the element type."""
    words = str(row["kernel"]).split("_")
    end = next((n for n, word in enumerate(words) if word[:1] in "fiusx" and word[1:].isdigit()), len(words))
    return " ".join(words[:end])


def main(arguments: list[str] | None = None) -> int:
    """Compare networks, print the tables, and write bench/results/simulated_layers.json unless some were named."""
    parser = network_options("simulated_layers", __doc__, NETWORKS, "kernels compiled at a time")
    parser.add_argument("--samples", type=int, default=UNITS, help="units timed of a long layer (%(default)s)")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for network in options.networks or NETWORKS:
        print(f"bench.simulated_layers: {network}", file=sys.stderr, flush=True)
        rows += [{**row, "kind": kind_of(row)} for row in compared(network, options.samples, options.jobs)]
    networks, kinds = summary(rows, "core", "network"), summary(rows, "core", "kind")
    for entry in (*summary(rows, "core"), *networks, *kinds):
        print("  ".join(f"{key} {value}" for key, value in entry.items()))
    if options.networks:
        print("no record: not all networks were compared", file=sys.stderr)
        return 0
    record = facts("modelled", f"bench.simulated_layers --samples {options.samples}")
    record |= {"board": BOARD, "samples": options.samples, "within": WITHIN, "least_share": LEAST_SHARE}
    record |= {"cores": summary(rows, "core"), "networks": networks, "kinds": kinds, "layers": rows}
    print(f"written: {write(NAME, record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
