"""What costs of primitives are worth in a network: `python -m bench.doubts --folder F --db FILE [NETWORK ..]`.

F is where bench.strategies built libraries (`--only build --folder F`), FILE what `mavcg tune` measured. Each one is
profiled, step by step, in turns with the engine's own; one thread. Of every convolution that a library computes by
another primitive than the engine: how many times as long it took there as in the engine's library, beside how many
times as long its cost said that it would take. The first over the second is what the cost was wrong by: 1.2 is a fifth
more than was said. Costs are those of selection before any doubt, modelled and measured.

The record has quantiles by what the cost is from (modelled, measured alone, measured in turns), of those that were
said to be no slower than the engine's, or not by much (NEAR): only these may be taken in its place. DOUBTS of
mavcg/selection/library_costs.py are the quantile QUANTILE of them, rounded up to a twentieth, and no less than 1: what
is taken because it is said to be faster, with so much added, is faster in three of four cases. (At the median one in
two would be slower; at nine in ten next to nothing would be taken, and what can be gained would be lost.)
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
from bench.record import RESULTS, facts, write
from bench.strategies import ENGINE
from bench.strategy_rounds import inputs_of
from mavcg.importers.load import import_model
from mavcg.inspection import model_of
from mavcg.loading import load
from mavcg.machines import machines_for, packing_for
from mavcg.model_road.request import make_model_request
from mavcg.passes.graph.pipeline import optimise
from mavcg.predict.ways import WORTH, choose_ways
from mavcg.selection.choice import Alternative
from mavcg.selection.costs import MODELLED
from mavcg.selection.library import own_ways
from mavcg.selection.library_costs import NO_DOUBTS
from mavcg.selection.select_model import ModelQuestion, select_for_library
from mavcg.selection.tuning import USUAL

NEAR = 1.3  # times the engine's: who is said to take more is not near to being taken
QUANTILE = 0.75
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
RUNS = 30
SLOW_MS = 1000.0  # what takes longer is not profiled
KINDS = ("modelled", "measured alone", "measured in turns")


@dataclass(frozen=True)
class Said:
    """What selection says of a network, by node: each primitive's cost in a library, on one thread, before any doubt.

    own: primitives that the engine computes by itself.
    """

    alternatives: Mapping[str, Mapping[str, Alternative]]
    own: Mapping[str, frozenset[str]]

    def ms(self, node: str, primitive: str, usual: bool) -> float:
        """What the choice goes by; usual: of what the engine's own library has, whose middle counts."""
        cost = self.alternatives[node][primitive].cost
        # The engine's own ways but the first are predicted dearer than they are (predicted_costs).
        worth = WORTH if cost.kind == MODELLED and primitive in self.own[node] - {*USUAL.values()} else 1.0
        return (cost.ms if usual else cost.cautious_ms) * worth

    def kind(self, node: str, primitive: str) -> str:
        """Of KINDS."""
        cost = self.alternatives[node][primitive].cost
        return KINDS[0] if cost.kind == MODELLED else KINDS[2] if cost.turns else KINDS[1]


def said_of(name: str, db: Path) -> Said:
    """With costs of a database, and modelled ones."""
    shapes = [f"{tensor}={'x'.join(map(str, shape))}" for tensor, shape in shapes_of(name).items()]
    request, _ = make_model_request(model_path(name), "unused.so", "host", (), None, shapes)
    assert request.board is not None
    first = request.board.clusters[0]
    board = replace(request.board, clusters=(replace(first, cpus=first.cpus[:1]),))
    graph, packing = optimise(import_model(request.model, request.shapes)), packing_for(request.target)
    machines = machines_for(request.cores, request.target)
    chosen = choose_ways(graph, packing, machines, request.target, board, request.max_error)
    question = ModelQuestion(db=db, max_error=request.max_error, doubts=NO_DOUBTS)
    found = select_for_library(graph, packing, board, question, chosen)
    assert found is not None
    alternatives = {node: {one.name: one for one in some} for node, some in found.problem.alternatives.items()}
    return Said(alternatives, own_ways(graph, found.problem.network))


def node_times(paths: Mapping[str, Path], runs: int) -> dict[str, dict[str, float]]:
    """By strategy: ms of every node, the least time of each of its steps; one thread, all libraries in turns.

    A step's time is that of the clock, to which other work on the machine only adds.
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
            ms = [step.ns / 1e6 for step in model.profile(*arrays)]
            if sum(ms) < SLOW_MS or number:
                least[strategy] = [min(pair) for pair in zip(ms, least.get(strategy, ms), strict=True)]
    for model in models.values():
        model.close()
    found: dict[str, dict[str, float]] = {}
    for strategy, steps in least.items():
        found[strategy] = {}
        for node, ms_ in zip(names[strategy], steps, strict=True):
            found[strategy][node] = found[strategy].get(node, 0.0) + ms_
    return found


def rows_of(name: str, folder: Path, db: Path, runs: int) -> list[dict[str, Any]]:
    """A row for each convolution of each library that is computed otherwise than by the engine, and kind of cost."""
    said = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("lib*.json"))}
    paths = {(ENGINE if stem == f"lib{ENGINE}" else stem): folder / f"{stem}.so" for stem in said}
    times = node_times(paths, runs)
    usual = {each["name"]: each["primitive"] for each in said[f"lib{ENGINE}"]["primitives"]}
    known = (said_of(name, no_costs(folder)), said_of(name, db))
    found = {}
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
                found[node, primitive, kind] = {
                    "network": name, "node": node, "primitive": primitive, "kind": kind, "engine": usual[node],
                    "said": round(ratio, 4), "took": round(took, 4),
                }  # fmt: skip
    return list(found.values())


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By kind: quantiles of took over said, of those that are said to be near to the engine's."""
    found = {}
    for kind in KINDS:
        near = [row["took"] / row["said"] for row in rows if row["kind"] == kind and row["said"] <= NEAR]
        if near:
            quantiles = {str(q): round(float(np.quantile(near, q)), 3) for q in QUANTILES}
            found[kind] = {"count": len(near), "quantiles": quantiles}
    return found


def doubts_of(record: Mapping[str, Any]) -> dict[str, float]:
    """DOUBTS by kind, as a record has them."""
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
        rows = json.loads((RESULTS / "doubts.json").read_text())["rows"]
    for name in given.networks:
        rows = [row for row in rows if row["network"] != name]
        rows += rows_of(name, given.folder / name, given.db, given.runs)
        write("doubts", facts("measured", "bench.doubts") | {"near": NEAR, "of": summary(rows), "rows": rows})
    table = Table("of costs that are", "rows", *map(str, QUANTILES), title="took over said")
    for kind, each in summary(rows).items():
        table.add_row(kind, str(each["count"]), *(f"{each['quantiles'][str(q)]:.2f}" for q in QUANTILES))
    Console().print(table)


if __name__ == "__main__":
    main()
