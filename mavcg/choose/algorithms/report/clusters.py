"""Reports of the selections for a board and its clusters: JSON and tables."""

from typing import TYPE_CHECKING, Any

from mavcg.choose.algorithms.report.answer import finite, shown_ms
from mavcg.choose.algorithms.report.report import selection_json
from mavcg.choose.algorithms.select_clusters import BoardSelection

if TYPE_CHECKING:
    from rich.console import Console


def board_json(selection: BoardSelection) -> dict[str, Any]:
    """Return the document of `mavcg select --per-cluster --json`.

    Each cluster's own entry is that of `mavcg select`.
    """
    choice = selection.selected.choice
    return {
        "model": selection.model,
        "board": selection.board,
        "asked": selection.best_for or None,
        "strategy": selection.selected.strategy,
        "nodes": [_node_json(selection, node.name) for node in selection.problem.network.convolutions],
        "conversions": [
            {"tensor": conversion.tensor, "chain": list(map(str, conversion.chain))}
            for conversion in choice.conversions
            if conversion.chain
        ],
        "clusters": [
            {
                "core": cluster.own.core,
                "threads": cluster.own.threads,
                "own_ms": finite(cluster.own.choice.total_ms),
                "joint_ms": finite(cluster.joint.total_ms),
                "loss": cluster.loss,
                "own": selection_json(cluster.own),
            }
            for cluster in selection.clusters
        ],
        "optimal": selection.optimal,
        "solver_seconds": selection.selected.solver_seconds,
    }


def _node_json(selection: BoardSelection, node: str) -> dict[str, Any]:
    chosen = selection.selected.choice.chosen[node]
    return {
        "name": node,
        "primitive": chosen.name,
        "layout_in": str(chosen.layout_in),
        "layout_out": str(chosen.layout_out),
        "suits": list(selection.suits(node)),
        "clusters": [
            {
                "core": cluster.own.core,
                "cost_ms": cluster.joint.chosen[node].cost.ms,
                "cost_is": cluster.joint.chosen[node].cost.kind,
                "own": cluster.own.choice.chosen[node].name,
                "own_ms": cluster.own.choice.chosen[node].cost.ms,
            }
            for cluster in selection.clusters
        ],
    }


def show_board(selection: BoardSelection, out: "Console") -> None:
    """Print tables.

    Each node's primitive for the board and each cluster, and the cost of the board's choice per cluster.
    """
    from rich.table import Table

    table = Table("node", "the board's")
    for cluster in selection.clusters:
        table.add_column(f"{cluster.own.core} x{cluster.own.threads} alone", overflow="fold")
    table.add_column("suits")
    for node in selection.problem.network.convolutions:
        chosen, suits = selection.selected.choice.chosen[node.name], selection.suits(node.name)
        cells = []
        for cluster in selection.clusters:
            own, joint = cluster.own.choice.chosen[node.name], cluster.joint.chosen[node.name]
            cells.append(f"{'same' if own.name == chosen.name else own.name} {own.cost.ms:.3f} ({joint.cost.ms:.3f})")
        everywhere = len(suits) == len(selection.clusters)
        table.add_row(node.name, chosen.name, *cells, "" if everywhere else ", ".join(suits) or "none")
    out.print(table)
    out.print(
        "Of a cluster: its own choice and what that takes, in ms; in brackets the board's. Suits: the cores where the "
        "board's primitive is near the node's fastest, if not all."
    )
    costs = Table("cluster", "threads", "own optimum, ms", "the board's choice, ms", "loses")
    for cluster in selection.clusters:
        alone, together = shown_ms(cluster.own.choice.total_ms), shown_ms(cluster.joint.total_ms)
        costs.add_row(cluster.own.core, str(cluster.own.threads), alone, together, f"{cluster.loss:.1%}")
    out.print(costs)
    proof = "optimal by these costs" if selection.optimal else "not proven to be the best"
    out.print(f"{selection.model} on {selection.board}: best for {selection.best_for or 'all clusters alike'}; {proof}")
    for sentence in dict.fromkeys(
        words for cluster in selection.clusters for words in (*cluster.own.notes, *cluster.own.assumed)
    ):
        out.print(f"note: {sentence}")
