"""Measure how far costs of primitives hold in a network.

Usage: `python -m bench.cost_safety_factors --folder F --db FILE [NETWORK ..]`.

F is the folder of libraries by bench.strategies (`--only build --folder F`), FILE the costs that `mavcg tune` measured.
Libraries are profiled step by step, interleaved with the engine's own, on one thread. For every convolution that a
library computes by another primitive than the engine, the bench takes its time relative to the engine's library, and
divides it by the same ratio of the costs, modelled and measured, before any safety factor: 1.2 is a fifth more time
than the cost stated.

The record has quantiles by the kind of cost (modelled, measured alone, measured interleaved), over the alternatives
whose cost is at most NEAR times the engine's: only these may replace it. SAFETY_FACTORS in
mavcg/choose/algorithms/costs/engine_costs.py are the quantile QUANTILE, rounded up to a twentieth, and at least 1: an
alternative whose cost is lower even with that factor is faster in three of four cases. (At the median one in two would
be slower; at nine in ten next to nothing would be chosen, and the possible gain would be lost.)
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.host_library import no_costs
from bench.models import model_path, shapes_of
from bench.record import facts, write
from bench.rows import measured
from bench.strategies import ENGINE
from bench.strategy_rounds import inputs_of
from mavcg.choose.algorithms.choice import Alternative
from mavcg.choose.algorithms.costs.node_costs import NO_SAFETY_FACTORS
from mavcg.choose.algorithms.costs.provider import MODELLED
from mavcg.choose.algorithms.library import USUAL, engine_primitives
from mavcg.choose.algorithms.questions import ModelQuestion
from mavcg.choose.algorithms.select_model import select_for_library
from mavcg.choose.lowering.lower import lower_candidates
from mavcg.choose.predict.algorithms import WORTH, predict_algorithms
from mavcg.cost.board_model import board_model
from mavcg.importers.load import import_model
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.objects.inspection import model_of
from mavcg.passes.graph.pipeline import optimise
from mavcg.runtime.loading import load
from mavcg.runtime.machines import packing_for
from mavcg.runtime.timed_runs import profile_after_run

NEAR = 1.3  # times the engine's: who is said to take more is not near to being taken
QUANTILE = 0.75
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
RUNS = 30
SLOW_MS = 1000.0  # what takes longer is not profiled
KINDS = ("modelled", "measured alone", "measured in turns")


@dataclass(frozen=True)
class Said:
    """A network's costs by the selection, by node: each primitive's cost in a library, on one thread, before any safety
    factor.

    own: primitives that the engine computes by itself.
    """

    alternatives: Mapping[str, Mapping[str, Alternative]]
    own: Mapping[str, frozenset[str]]

    def ms(self, node: str, primitive: str, usual: bool) -> float:
        """Return the cost that the choice compares. usual: True for the engine's own library: the median of the cost
        counts."""
        cost = self.alternatives[node][primitive].cost
        # The engine's own algorithms, except the first, have predicted costs that are too high (predicted_costs).
        worth = WORTH if cost.kind == MODELLED and primitive in self.own[node] - {*USUAL.values()} else 1.0
        return (cost.ms if usual else cost.cautious_ms) * worth

    def kind(self, node: str, primitive: str) -> str:
        """The kind of a cost, one of KINDS."""
        cost = self.alternatives[node][primitive].cost
        return KINDS[0] if cost.kind == MODELLED else KINDS[2] if cost.turns else KINDS[1]


def said_of(name: str, db: Path) -> Said:
    """Return the costs by a database, and the modelled ones."""
    shapes = [f"{tensor}={'x'.join(map(str, shape))}" for tensor, shape in shapes_of(name).items()]
    request, _ = make_model_request(model_path(name), "unused.so", ModelOptions(board="host", shapes=shapes))
    assert request.board is not None
    first = request.board.clusters[0]
    board = replace(request.board, clusters=(replace(first, cpus=first.cpus[:1]),))
    graph, packing = optimise(import_model(request.model, request.shapes)), packing_for(request.target)
    model = board_model(request.cores, request.target, board)
    chosen = predict_algorithms(lower_candidates(graph, packing, request.max_error), model)
    question = ModelQuestion(db=db, max_error=request.max_error, safety_factors=NO_SAFETY_FACTORS)
    selection = select_for_library(graph, packing, model, question, chosen)
    assert selection is not None
    alternatives = {
        node: {alternative.name: alternative for alternative in some}
        for node, some in selection.problem.alternatives.items()
    }
    return Said(alternatives, engine_primitives(graph, selection.problem.network))


def node_times(paths: Mapping[str, Path], runs: int) -> dict[str, dict[str, float]]:
    """Return, by strategy, the ms of every node on one thread, all libraries interleaved.

    A node's time is the sum over its steps of each step's least wall time: other work on the machine can only add to
    it.
    """
    names = {
        strategy: [step.get("name", "") for step in (model_of(path) or {})["steps"]] for strategy, path in paths.items()
    }
    models = {strategy: load(path, threads=1) for strategy, path in paths.items()}
    arrays = inputs_of(paths[ENGINE])
    least: dict[str, list[float]] = {}
    for number in range(runs + 1):
        for strategy, model in models.items():
            if number and strategy not in least:
                continue  # too slow
            ms = [step.ns / 1e6 for step in profile_after_run(model, arrays).steps]
            if sum(ms) < SLOW_MS or number:
                least[strategy] = [min(pair) for pair in zip(ms, least.get(strategy, ms), strict=True)]
    for model in models.values():
        model.close()
    by_strategy: dict[str, dict[str, float]] = {}
    for strategy, steps in least.items():
        by_strategy[strategy] = {}
        for node, ms_ in zip(names[strategy], steps, strict=True):
            by_strategy[strategy][node] = by_strategy[strategy].get(node, 0.0) + ms_
    return by_strategy


def rows_of(name: str, folder: Path, db: Path, runs: int) -> list[dict[str, Any]]:
    """Return a row for each kind of cost and each convolution that a library computes by a non-default algorithm."""
    said = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("lib*.json"))}
    paths = {(ENGINE if stem == f"lib{ENGINE}" else stem): folder / f"{stem}.so" for stem in said}
    times = node_times(paths, runs)
    usual = {each["name"]: each["primitive"] for each in said[f"lib{ENGINE}"]["primitives"]}
    known = (said_of(name, no_costs(folder)), said_of(name, db))
    by_choice = {}
    for stem, of_library in said.items():
        for each in of_library["selection"].get("nodes", ()):
            node, primitive = each["name"], each["primitive"]
            if stem not in times or primitive == usual.get(node, primitive):
                continue
            took = times[stem][node] / times[ENGINE][node]
            for costs in known:
                kind, there = costs.kind(node, primitive), costs.kind(node, usual[node])
                if kind == KINDS[0] and primitive in costs.own[node] or (kind == KINDS[0]) != (there == KINDS[0]):
                    continue
                ratio = costs.ms(node, primitive, False) / costs.ms(node, usual[node], True)
                by_choice[node, primitive, kind] = {
                    "network": name,
                    "node": node,
                    "primitive": primitive,
                    "kind": kind,
                    "engine": usual[node],
                    "said": round(ratio, 4),
                    "took": round(took, 4),
                }
    return list(by_choice.values())


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return, by kind, quantiles of measured over predicted time of alternatives predicted to be near the default."""
    by_kind = {}
    for kind in KINDS:
        near = [row["took"] / row["said"] for row in rows if row["kind"] == kind and row["said"] <= NEAR]
        if near:
            quantiles = {str(q): round(float(np.quantile(near, q)), 3) for q in QUANTILES}
            by_kind[kind] = {"count": len(near), "quantiles": quantiles}
    return by_kind


def factors_of(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the SAFETY_FACTORS of a record, by kind of cost."""
    quantiles = {kind: each["quantiles"][str(QUANTILE)] for kind, each in record["of"].items()}
    return {kind: max(1.0, math.ceil(round(20 * quantile, 6)) / 20) for kind, quantile in quantiles.items()}


def main() -> None:
    """Profile, compare, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--folder", type=Path, required=True, help="of bench.strategies --only build")
    parser.add_argument("--db", type=Path, required=True, help="costs that `mavcg tune` measured")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each library, in turns")
    parser.add_argument("--keep", action="store_true", help="what the record has of other networks stays")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if given.keep:
        rows = measured("cost_safety_factors")["rows"]
    for name in given.networks:
        rows = [row for row in rows if row["network"] != name]
        rows += rows_of(name, given.folder / name, given.db, given.runs)
        write(
            "cost_safety_factors",
            facts("measured", "bench.cost_safety_factors") | {"near": NEAR, "of": summary(rows), "rows": rows},
        )
    table = Table("of costs that are", "rows", *map(str, QUANTILES), title="took over said")
    for kind, each in summary(rows).items():
        table.add_row(kind, str(each["count"]), *(f"{each['quantiles'][str(q)]:.2f}" for q in QUANTILES))
    Console().print(table)


if __name__ == "__main__":
    main()
