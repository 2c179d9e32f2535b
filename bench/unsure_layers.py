"""Errors of layers that the model is sure and unsure of: `python -m bench.unsure_layers [NETWORK ..]`.

Networks and simulated times of layers come from the record of `python -m bench.simulated_layers`; no constant and no
rule was fitted to them. Each library is built and predicted anew, and the layers that the model is unsure of are
simulated one by one (`mavcg estimate --simulate-unsure`). Three groups are counted: sure layers, unsure layers as
modelled, and unsure layers as simulated alone. For each, the table shows how many are within 10 % of their time in a
simulated run of the whole network, and the CPU time of simulating them. Nothing is measured on a board. Named networks
replace their layers in the record.
"""

import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.network_options import network_options
from bench.record import facts, write
from bench.rows import measured, measured_or_none
from bench.simulated_layers import BOARD, CORES, LEAST_SHARE, NETWORKS, WITHIN, build_layer_by_layer
from mavcg.choose.predict.latency import SIMULATED, StepCost
from mavcg.hardware.board import Board
from mavcg.lab.simulate.simulated_layers import simulated_steps
from mavcg.model.estimating import predict_file
from mavcg.profiles.load import load_board

NAME, SOURCE = "unsure_layers", "simulated_layers"


def cores_alone(board: Board) -> Board:
    """Return the board with the clusters of CORES only."""
    return replace(board, clusters=tuple(cluster for cluster in board.clusters if cluster.core in CORES))


def compared(network: str, recorded: Sequence[Mapping[str, Any]], jobs: int) -> list[dict[str, Any]]:
    """Return the large layers of a network on each core.

    recorded: the rows of the record. Raises: MavcgError; ValueError where the record is of other layers.
    """
    board = cores_alone(load_board(BOARD))
    with tempfile.TemporaryDirectory() as folder:
        library = build_layer_by_layer(network, Path(folder), jobs)
        before = cpu_seconds()
        prediction = predict_file(library, board, 1, {}, jobs, simulator=simulated_steps)
        seconds = cpu_seconds() - before
    print(f"{network}: {seconds:.1f} CPU s", file=sys.stderr, flush=True)
    layers = []
    for core in CORES:
        rows = [row for row in recorded if (row["network"], row["core"]) == (network, core)]
        whole = sum(row["simulated_ms"] for row in rows)
        for row, layer in zip(rows, prediction.layers, strict=True):
            if (row["layer"], row["kernel"]) != (layer.work.name, layer.work.kernel):
                raise ValueError(f"{network}: the record has another layer than {layer.work.name}: simulate it anew")
            if row["simulated_ms"] >= LEAST_SHARE * whole:
                layers.append(
                    {
                        "network": network,
                        "core": core,
                        "layer": row["layer"],
                        "kernel": row["kernel"],
                        "simulated_ms": row["simulated_ms"],
                        "modelled_ms": round(modelled_ms(layer.on[core]), 6),
                        "estimated_ms": round(layer.on[core].ms, 6),
                        "unsure": layer.unsure.get(core, ""),
                        "source": layer.on[core].source,
                    }
                )
    return layers


def modelled_ms(cost: StepCost) -> float:
    """Return what the model says of a layer that may have been simulated."""
    return replace(cost, factor=None).ms


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many layers are sure and unsure, and how many of each are within 10 % of the simulated time."""

    def near(of: Sequence[Mapping[str, Any]], key: str) -> int:
        return sum(abs(row[key] - row["simulated_ms"]) <= WITHIN * row["simulated_ms"] for row in of)

    sure, unsure = ([row for row in rows if bool(row["unsure"]) == flag] for flag in (False, True))
    alone = [row for row in unsure if row["source"] == SIMULATED]
    simulated = sum(row["simulated_ms"] for row in rows)
    return {
        "sure": len(sure),
        "sure_within": near(sure, "modelled_ms"),
        "unsure": len(unsure),
        "unsure_within": near(unsure, "modelled_ms"),
        "simulated_alone": len(alone),
        "simulated_within": near(alone, "estimated_ms"),
        "all_modelled_within": near(rows, "modelled_ms"),
        "all_estimated_within": near(rows, "estimated_ms"),
        "modelled_ratio": round(sum(row["modelled_ms"] for row in rows) / simulated, 4),
        "estimated_ratio": round(sum(row["estimated_ms"] for row in rows) / simulated, 4),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print the counts, and write bench/results/unsure_layers.json."""
    parser = network_options(NAME, __doc__, NETWORKS, "processes that compile and simulate")
    options = parser.parse_args(arguments)
    recorded = measured(SOURCE)["layers"]
    layers = [row for name in options.networks or NETWORKS for row in compared(name, recorded, options.jobs)]
    known = measured_or_none(NAME).get("layers", []) if options.networks else []
    known = [row for row in known if row["network"] not in options.networks] + layers
    rows = [row for network in NETWORKS for row in known if row["network"] == network]
    names = list(dict.fromkeys(row["network"] for row in rows))
    groups = [
        {"core": core, "network": network}
        | counts([r for r in rows if r["core"] == core and network in ("all", r["network"])])
        for core in CORES
        for network in ("all", *names)
    ]
    for group in groups:
        print(group)
    record = facts("modelled", f"bench.{NAME}") | {"board": BOARD, "within": WITHIN, "groups": groups, "layers": rows}
    print(f"written: {write(NAME, record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
