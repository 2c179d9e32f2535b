"""Selections for the clusters of a board and for all of it, as JSON and as tables."""

from typing import TYPE_CHECKING, Any

from mavcg.selection.report.answer import finite, shown_ms
from mavcg.selection.report.report import selection_json
from mavcg.selection.select_clusters import BoardSelection

if TYPE_CHECKING:
    from rich.console import Console


def board_json(found: BoardSelection) -> dict[str, Any]:
    """Return the answer of `mavcg select --per-cluster --json`; each cluster's own is as that of `mavcg select`."""
    choice = found.selected.choice
    return {
        "model": found.model,
        "board": found.board,
        "asked": found.best_for or None,
        "strategy": found.selected.strategy,
        "nodes": [_node_json(found, node.name) for node in found.problem.network.convolutions],
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
            for each in found.clusters
        ],
        "optimal": found.optimal,
        "solver_seconds": found.selected.solver_seconds,
    }  # fmt: skip


def _node_json(found: BoardSelection, node: str) -> dict[str, Any]:
    chosen = found.selected.choice.chosen[node]
    return {
        "name": node,
        "primitive": chosen.name,
        "layout_in": str(chosen.layout_in),
        "layout_out": str(chosen.layout_out),
        "suits": list(found.suits(node)),
        "clusters": [
            {
                "core": each.own.core,
                "cost_ms": each.joint.chosen[node].cost.ms,
                "cost_is": each.joint.chosen[node].cost.kind,
                "own": each.own.choice.chosen[node].name,
                "own_ms": each.own.choice.chosen[node].cost.ms,
            }
            for each in found.clusters
        ],
    }


def show_board(found: BoardSelection, out: "Console") -> None:
    """Print tables: each node's primitive for all and for each cluster; what the board's choice costs each cluster."""
    from rich.table import Table

    table = Table("node", "the board's")
    for each in found.clusters:
        table.add_column(f"{each.own.core} x{each.own.threads} alone", overflow="fold")
    table.add_column("suits")
    for node in found.problem.network.convolutions:
        chosen, suits = found.selected.choice.chosen[node.name], found.suits(node.name)
        cells = []
        for each in found.clusters:
            own, joint = each.own.choice.chosen[node.name], each.joint.chosen[node.name]
            cells.append(f"{'same' if own.name == chosen.name else own.name} {own.cost.ms:.3f} ({joint.cost.ms:.3f})")
        everywhere = len(suits) == len(found.clusters)
        table.add_row(node.name, chosen.name, *cells, "" if everywhere else ", ".join(suits) or "none")
    out.print(table)
    out.print(
        "Of a cluster: its own choice and what that takes, in ms; in brackets the board's. Suits: the cores where the "
        "board's primitive is near the node's fastest, if not all."
    )
    costs = Table("cluster", "threads", "own optimum, ms", "the board's choice, ms", "loses")
    for each in found.clusters:
        alone, together = shown_ms(each.own.choice.total_ms), shown_ms(each.joint.total_ms)
        costs.add_row(each.own.core, str(each.own.threads), alone, together, f"{each.loss:.1%}")
    out.print(costs)
    proof = "optimal by these costs" if found.optimal else "not proven to be the best"
    out.print(f"{found.model} on {found.board}: best for {found.best_for or 'all clusters alike'}; {proof}")
    for sentence in dict.fromkeys(words for each in found.clusters for words in (*each.own.notes, *each.own.assumed)):
        out.print(f"note: {sentence}")
