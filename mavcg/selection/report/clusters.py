"""Selections for the clusters of a board and for all of it, as JSON and as tables."""

from typing import TYPE_CHECKING, Any

from mavcg.selection.report.answer import finite, shown_ms
from mavcg.selection.report.report import selection_json
from mavcg.selection.select_clusters import BoardSelection

if TYPE_CHECKING:
    from rich.console import Console


def board_json(selection: BoardSelection) -> dict[str, Any]:
    """Return the answer of `mavcg select --per-cluster --json`; each cluster's own is as that of `mavcg select`."""
    choice = selection.selected.choice
    return {
        "model": selection.model,
        "board": selection.board,
        "asked": selection.best_for or None,
        "strategy": selection.selected.strategy,
        "nodes": [_node_json(selection, node.name) for node in selection.problem.network.convolutions],
        "conversions": [
            {"tensor": one.tensor, "chain": list(map(str, one.chain))} for one in choice.conversions if one.chain
        ],
        "clusters": [
            {
                "core": each.own.core,
                "threads": each.own.threads,
                "own_ms": finite(each.own.choice.total_ms),
                "joint_ms": finite(each.joint.total_ms),
                "loss": each.loss,
                "own": selection_json(each.own),
            }
            for each in selection.clusters
        ],
        "optimal": selection.optimal,
        "solver_seconds": selection.selected.solver_seconds,
    }  # fmt: skip


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
                "core": each.own.core,
                "cost_ms": each.joint.chosen[node].cost.ms,
                "cost_is": each.joint.chosen[node].cost.kind,
                "own": each.own.choice.chosen[node].name,
                "own_ms": each.own.choice.chosen[node].cost.ms,
            }
            for each in selection.clusters
        ],
    }


def show_board(selection: BoardSelection, out: "Console") -> None:
    """Print tables: each node's primitive for all and for each cluster; what the board's choice costs each cluster."""
    from rich.table import Table

    table = Table("node", "the board's")
    for each in selection.clusters:
        table.add_column(f"{each.own.core} x{each.own.threads} alone", overflow="fold")
    table.add_column("suits")
    for node in selection.problem.network.convolutions:
        chosen, suits = selection.selected.choice.chosen[node.name], selection.suits(node.name)
        cells = []
        for each in selection.clusters:
            own, joint = each.own.choice.chosen[node.name], each.joint.chosen[node.name]
            cells.append(f"{'same' if own.name == chosen.name else own.name} {own.cost.ms:.3f} ({joint.cost.ms:.3f})")
        everywhere = len(suits) == len(selection.clusters)
        table.add_row(node.name, chosen.name, *cells, "" if everywhere else ", ".join(suits) or "none")
    out.print(table)
    out.print(
        "Of a cluster: its own choice and what that takes, in ms; in brackets the board's. Suits: the cores where the "
        "board's primitive is near the node's fastest, if not all."
    )
    costs = Table("cluster", "threads", "own optimum, ms", "the board's choice, ms", "loses")
    for each in selection.clusters:
        alone, together = shown_ms(each.own.choice.total_ms), shown_ms(each.joint.total_ms)
        costs.add_row(each.own.core, str(each.own.threads), alone, together, f"{each.loss:.1%}")
    out.print(costs)
    proof = "optimal by these costs" if selection.optimal else "not proven to be the best"
    out.print(f"{selection.model} on {selection.board}: best for {selection.best_for or 'all clusters alike'}; {proof}")
    for sentence in dict.fromkeys(
        words for each in selection.clusters for words in (*each.own.notes, *each.own.assumed)
    ):
        out.print(f"note: {sentence}")
