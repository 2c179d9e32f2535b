"""Exposed fractions of memory time on Arm cores, fitted to simulated layers: `python -m bench.simulated_exposure`.

Networks are built for a board and simulated layer by layer, as `python -m bench.simulated_layers` does, but others than
the five that it judges by. What a layer takes longer than its arithmetic is fitted to the times of its cache lines, by
what waits for them (mavcg/choose/predict/exposure.py): least squares of errors in parts of the layer's time, in which a
layer that is far off counts less; no fraction below 0. One set of fractions is fitted for all kernels of a core.
`--write` puts them into profiles/fits. Cycles are simulated, not measured.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from bench.record import facts, write
from bench.rows import measured
from bench.simulated_fits import least_squares, with_constant
from bench.simulated_layers import BOARD, NETWORKS, build_layer_by_layer
from mavcg.choose.predict.exposure import PATTERNS, LineTimes, memory_pattern
from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64
from mavcg.lab.simulate.model_run import ModelRunOptions, simulate_model
from mavcg.lab.simulate.sampling import SamplePlan
from mavcg.model.estimating import predict_file
from mavcg.profiles.folders import files
from mavcg.profiles.load import load_board, load_core
from mavcg.profiles.timing import load_timing

NAME = "simulated_exposure"
CORES = {IN_ORDER: "cortex-a55", OUT_OF_ORDER_AARCH64: "cortex-a75"}
FITTED = ("mobilenet_v2", "squeezenet")
LEAST_MS = 0.02  # layers below are of no weight
UNITS = 10
TIMES = tuple(field.name for field in fields(LineTimes))
ROBUST = 0.08  # a layer that is so far off, as a part of its time, counts .7 times
ROUNDS = 10
LEAST_KNOWN_KERNELS = 8  # of a pattern; with fewer it is not known how often its fractions are right


def layer_rows(network: str, jobs: int) -> list[dict[str, Any]]:
    """Return a row for each layer with a share of a network's time on each core.

    Its arithmetic, bytes and simulated time, in ms. Raises: MavcgError.
    """
    board = load_board(BOARD)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = build_layer_by_layer(network, Path(folder), jobs)
        prediction = predict_file(library, board, 1, {}, jobs)
        for kind, name in CORES.items():
            core = load_core(name)
            simulated = simulate_model(
                library, core, load_timing(core), board, ModelRunOptions(plan=SamplePlan(units=UNITS))
            )
            for layer, step in zip(prediction.layers, simulated.steps, strict=True):
                simulated_ms, cost = step.cycles / simulated.figures.ghz / 1e6, layer.on[name]
                if simulated_ms < LEAST_MS or cost.lines is None:
                    continue
                lines = {time: round(ns / 1e6, 6) for time, ns in asdict(cost.lines).items()}
                rows.append(
                    {
                        "network": network,
                        "kind": kind,
                        "core": name,
                        "kernel": step.kernel,
                        "pattern": memory_pattern(step.kernel),
                        "simulated_ms": round(simulated_ms, 6),
                        "compute_ms": round(cost.compute_ms, 6),
                        "overhead_ms": round(cost.overhead_ms, 6),
                        "memory_ms": round(cost.memory_ms, 6),
                        **lines,
                    }
                )
    return rows


def exposed_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the exposed fraction of each of TIMES that fits these rows' times best."""
    weight = np.array([1 / row["simulated_ms"] for row in rows])
    columns = np.array([[row[name] for name in TIMES] for row in rows]) * weight[:, None]
    left = np.array([row["simulated_ms"] - row["compute_ms"] - row["overhead_ms"] for row in rows]) * weight
    scale = np.maximum(columns.max(axis=0), 1e-30)  # times that no row has say nothing
    found = least_squares(columns / scale, left) / scale
    for _ in range(ROUNDS):
        error = columns @ found - left
        share = 1 / np.sqrt(1 + (error / ROBUST) ** 2)
        found = least_squares(columns / scale * share[:, None], left * share) / scale
    return {name: round(float(value), 3) for name, value in zip(TIMES, found, strict=True)}


def predicted_ms(row: Mapping[str, Any], exposed: Mapping[str, float]) -> float:
    """Return a row's time by these fractions."""
    beside = sum(exposed[name] * row[name] for name in TIMES)
    return float(max(row["compute_ms"] + beside, row["memory_ms"]) + row["overhead_ms"])


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
    """Return for each pattern the fraction of its kernels within 10 %; 0 with fewer than LEAST_KNOWN_KERNELS.

    A kernel that several layers share counts once, with the fraction of its layers.
    """
    found = {}
    for pattern in PATTERNS:
        of: dict[str, list[bool]] = {}
        for row in rows:
            if row["pattern"] == pattern:
                of.setdefault(row["kernel"], []).append(is_near(row, exposed))
        share = sum(sum(near) / len(near) for near in of.values()) / len(of) if len(of) >= LEAST_KNOWN_KERNELS else 0.0
        found[f"{pattern}_known"] = round(share, 3)
    return found


def write_exposed(kind: str, exposed: Mapping[str, float], known: Mapping[str, float]) -> None:
    """Write the fractions into the kind's file, and how often they are right."""
    path = files("fits")[kind]
    text = path.read_text(encoding="utf-8")
    origin = f"layers of {', '.join(FITTED)}: python -m bench.simulated_exposure"
    for name, value in {**exposed, **known}.items():
        text = with_constant(text, "exposed", name, value, f"simulated-{CORES[kind]}", origin)
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
        rows = measured(NAME)["layers"]
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
        exposed = exposed_of(of)
        plain = dict.fromkeys(exposed, 0.0)
        kinds.append(
            {
                "kind": kind,
                "core": core,
                "exposed": exposed,
                "known": known_of(of, exposed),
                "before": errors(of, plain),
                "after": errors(of, exposed),
            }
        )
    head = facts("modelled", f"bench.{NAME}") | {"board": BOARD, "networks": list(FITTED)}
    return head | {"kinds": kinds, "layers": list(rows)}


if __name__ == "__main__":
    sys.exit(main())
