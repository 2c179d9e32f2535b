"""Exposed fractions of memory time on Arm cores, fitted to simulated layers: `python -m bench.simulated_exposure`.

Networks are built for a board and simulated layer by layer, as `python -m bench.simulated_layers` does, but others than
the five that it judges by. What a layer takes longer than its arithmetic is fitted, by how its kernel goes through
memory (mavcg/predict/exposure.py), to the time of its bytes from caches and from memory: least squares of errors in
parts of the layer's time, no fraction below 0. `--write` puts the fractions into profiles/fits. Cycles are simulated,
not measured.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from bench.record import RESULTS, facts, write
from bench.simulated_fits import LEAST_EXPOSED, least_squares, with_constant
from bench.simulated_layers import BOARD, NETWORKS, build_layer_by_layer
from mavcg.cost_model.board_machine import cluster_machine
from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64
from mavcg.model_pipeline.estimating import predict_file
from mavcg.predict.exposure import FAR, NEAR, PATTERNS, memory_pattern, near_and_far_ns
from mavcg.predict.memory import reuse_distances, step_traffic
from mavcg.profiles.load import files, load_board, load_core
from mavcg.profiles.timing import load_timing
from mavcg.simulate.core_facts import simulated_core
from mavcg.simulate.model_run import simulate_model
from mavcg.simulate.sampling import SamplePlan

NAME = "simulated_exposure"
CORES = {IN_ORDER: "cortex-a55", OUT_OF_ORDER_AARCH64: "cortex-a75"}
FITTED = ("mobilenet_v2", "squeezenet")
LEAST_MS = 0.02  # layers below are of no weight
UNITS = 10
MACRO_TILE = {"l1_fill_exposed": NEAR, "l2_fill_exposed": FAR, "memory_fill_exposed": FAR}
LEAST_ROWS = 2  # of a pattern; with fewer its fractions are those of products
LEAST_KNOWN_ROWS = 8  # of a pattern; with fewer it is not known how often its fractions are right


def layer_rows(network: str, jobs: int) -> list[dict[str, Any]]:
    """Return a row for each layer with a share of a network's time on each core.

    Its arithmetic, bytes and simulated time, in ms. Raises: MavcgError.
    """
    board = load_board(BOARD)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = build_layer_by_layer(network, Path(folder), jobs)
        prediction = predict_file(library, board, 1, {}, jobs)
        works = [layer.work for layer in prediction.layers]
        distances = reuse_distances(works)
        for kind, name in CORES.items():
            core = load_core(name)
            number = next(n for n, cluster in enumerate(board.clusters) if cluster.core == name)
            levels = cluster_machine(board, number).accelerator.levels
            simulated = simulate_model(library, core, load_timing(core), board, plan=SamplePlan(units=UNITS))
            for layer, far, step in zip(prediction.layers, distances, simulated.steps, strict=True):
                simulated_ms = step.cycles / simulated.figures.ghz / 1e6
                if simulated_ms < LEAST_MS:
                    continue
                crossing = step_traffic(layer.work, far, levels, waits_for_write_backs=False).crossing
                near_ns, far_ns = near_and_far_ns(crossing, levels)
                cost = layer.on[name]
                rows.append({
                    "network": network, "kind": kind, "core": name, "kernel": step.kernel,
                    "pattern": memory_pattern(step.kernel), "simulated_ms": round(simulated_ms, 6),
                    "compute_ms": round(cost.compute_ms, 6), "overhead_ms": round(cost.overhead_ms, 6),
                    "near_ms": round(near_ns / 1e6, 6), "far_ms": round(far_ns / 1e6, 6),
                })  # fmt: skip
    return rows


def most_exposed(core_name: str) -> tuple[float, float]:
    """Return the upper bounds of a core's exposed fractions: one line after the other, each with its whole latency."""
    facts_of = simulated_core(load_core(core_name), load_board(BOARD))
    behind = facts_of.levels[1]
    memory = facts_of.memory_line_cycles
    return 1 + behind.latency / behind.line_cycles, 1 + facts_of.memory_latency / memory


def exposed_of(rows: Sequence[Mapping[str, Any]], most: tuple[float, float] = (inf, inf)) -> dict[str, float]:
    """Return the exposed fractions, by access pattern and memory level, that fit these rows' times best.

    most: upper bounds, of bytes from caches and from memory.
    """
    fractions: dict[str, float] = {}
    for pattern in PATTERNS:
        of = [row for row in rows if row["pattern"] == pattern]
        of = of if len(of) >= LEAST_ROWS else [row for row in rows if row["pattern"] == PATTERNS[0]]
        weight = np.array([1 / row["simulated_ms"] for row in of])
        columns = np.array([[row["near_ms"], row["far_ms"]] for row in of]) * weight[:, None]
        left = np.array([row["simulated_ms"] - row["compute_ms"] - row["overhead_ms"] for row in of]) * weight
        # Bytes of one place alone say nothing of the other.
        scale = np.maximum(columns.max(axis=0), 1e-30)
        near, far = least_squares(columns / scale, left) / scale
        if far > most[1]:
            far = most[1]
            near = least_squares(columns[:, :1] / scale[0], left - far * columns[:, 1])[0] / scale[0]
        near = min(near, most[0])
        fractions |= {f"{pattern}_{NEAR}": round(float(near), 3), f"{pattern}_{FAR}": round(float(far), 3)}
    return fractions


def predicted_ms(row: Mapping[str, Any], exposed: Mapping[str, float]) -> float:
    """Return a row's time by these fractions."""
    beside = sum(exposed[f"{row['pattern']}_{distance}"] * row[f"{distance}_ms"] for distance in (NEAR, FAR))
    kernel_ms = max(row["compute_ms"] + beside, row["near_ms"], row["far_ms"])
    return float(kernel_ms + row["overhead_ms"])


def is_near(row: Mapping[str, Any], exposed: Mapping[str, float]) -> bool:
    """True if a row's time by these fractions is within 10 % of the simulated one."""
    return bool(abs(predicted_ms(row, exposed) - row["simulated_ms"]) <= 0.1 * row["simulated_ms"])


def errors(rows: Sequence[Mapping[str, Any]], exposed: Mapping[str, float]) -> dict[str, float]:
    """Return the errors of predictions by these fractions.

    Share of rows within 10 %, and total predicted over simulated.
    """
    within = sum(is_near(row, exposed) for row in rows) / len(rows)
    ratio = sum(predicted_ms(row, exposed) for row in rows) / sum(row["simulated_ms"] for row in rows)
    return {"rows": len(rows), "within_10_percent": round(within, 3), "ratio": round(ratio, 3)}


def known_of(rows: Sequence[Mapping[str, Any]], exposed: Mapping[str, float]) -> dict[str, float]:
    """Return for each pattern the fraction of its rows within 10 %; 0 with fewer than LEAST_KNOWN_ROWS."""
    known = {}
    for pattern in PATTERNS:
        of = [row for row in rows if row["pattern"] == pattern]
        share = sum(is_near(row, exposed) for row in of) / len(of) if len(of) >= LEAST_KNOWN_ROWS else 0.0
        known[f"{pattern}_known"] = round(share, 3)
    return known


def write_exposed(kind: str, exposed: Mapping[str, float], known: Mapping[str, float]) -> None:
    """Write the fractions into the kind's file, and how often they are right; those of products are those of in-order
    cores' macro-tiles too."""
    path = files("fits")[kind]
    text = path.read_text(encoding="utf-8")
    origin = f"layers of {', '.join(FITTED)}: python -m bench.simulated_exposure"
    machine = f"simulated-{CORES[kind]}"
    for name, value in {**exposed, **known}.items():
        text = with_constant(text, "exposed", name, value, machine, origin)
    for name, distance in MACRO_TILE.items() if kind == IN_ORDER else ():
        value = min(1.0, max(LEAST_EXPOSED, exposed[f"{PATTERNS[0]}_{distance}"]))
        text = with_constant(text, "macro_tile", name, value, machine, f"products of {origin}")
    path.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Simulate networks, fit, and write bench/results/simulated_exposure.json."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{NAME}", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="kernels compiled at a time (%(default)s)")
    parser.add_argument("--write", action="store_true", help="put the fractions into profiles/fits")
    parser.add_argument("--refit", action="store_true", help="simulate nothing: fit the record's layers anew")
    options = parser.parse_args(arguments)
    assert not set(FITTED) & set(NETWORKS)  # what is fitted is not judged by
    rows: list[dict[str, Any]] = []
    if options.refit:
        rows = json.loads((RESULTS / f"{NAME}.json").read_text(encoding="utf-8"))["layers"]
    for network in () if options.refit else FITTED:
        print(f"bench.{NAME}: {network}", file=sys.stderr, flush=True)
        rows += layer_rows(network, options.jobs)
    record = record_of(rows)
    for kind in record["kinds"]:
        print(kind)
        if options.write:
            write_exposed(kind["kind"], kind["exposed"], kind["known"])
    print(f"written: {write(NAME, record)}")
    return 0


def record_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the record of these rows: fractions of each kind of core, and errors without and with them."""
    kinds = []
    for kind, core in CORES.items():
        of = [row for row in rows if row["kind"] == kind]
        exposed = exposed_of(of, most_exposed(core))
        plain = dict.fromkeys(exposed, 0.0)
        kinds.append({
            "kind": kind, "core": core, "exposed": exposed, "known": known_of(of, exposed),
            "before": errors(of, plain), "after": errors(of, exposed),
        })  # fmt: skip
    head = facts("modelled", f"bench.{NAME}") | {"board": BOARD, "networks": list(FITTED)}
    return head | {"kinds": kinds, "layers": list(rows)}


if __name__ == "__main__":
    sys.exit(main())
