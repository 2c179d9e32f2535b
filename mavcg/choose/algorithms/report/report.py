"""Report of a network's selection, as JSON and as tables: primitives, conversions and alternatives."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mavcg.choose.algorithms.choice import Alternative
from mavcg.choose.algorithms.foreign import foreign_json, foreign_sentences
from mavcg.choose.algorithms.network import Kind
from mavcg.choose.algorithms.report.answer import Selection, family_of, finite, shown_ms
from mavcg.choose.algorithms.report.paper_tables import families_json, show_tables, tables_json
from mavcg.specs.primitive import Scenario

if TYPE_CHECKING:
    from rich.console import Console


def selection_json(selection: Selection) -> dict[str, Any]:
    """Return the document of `mavcg select --json`."""
    choice, network = selection.choice, selection.problem.network
    return {
        "model": selection.model,
        "board": selection.board,
        "core": selection.core,
        "threads": selection.threads,
        "strategy": selection.selected.strategy,
        "nodes": [
            _node_json(selection, node.name, node.scenario)
            for node in network.convolutions
            if node.scenario is not None
        ],
        "dummies": [
            {"name": node.name, "op": node.op, "layout": str(choice.chosen[node.name].layout_in)}
            for node in network.nodes.values()
            if node.kind is not Kind.CONVOLUTION
        ],
        "conversions": [
            {
                "from": str(conversion.chain[0]) if conversion.chain else None,
                "to": str(conversion.chain[-1]) if conversion.chain else None,
                "tensor": conversion.tensor,
                "chain": [str(layout) for layout in conversion.chain],
                "source": conversion.source,
                "readers": list(conversion.readers),
                "cost_ms": finite(conversion.ms),
                "cost_is": conversion.kind,
            }
            for conversion in choice.conversions
        ],
        "primitives_ms": choice.nodes_ms,
        "conversions_ms": finite(choice.conversions_ms),
        "total_ms": finite(choice.total_ms),
        "optimal": selection.optimal,
        "gap": selection.gap,
        "solver_seconds": selection.selected.solver_seconds,
        "strategies": {
            name: None if result is None else finite(result.total_ms) for name, result in selection.compared.items()
        },
        "tables": tables_json(selection),
        "arena": None if selection.need is None else {"bytes": selection.need.bytes, "node": selection.need.node},
        "left_out": [{"name": node.name, "why": node.why} for node in network.left_out],
        "assumed": list(selection.assumed),
        "notes": list(selection.notes),
        "foreign": None if selection.foreign is None else foreign_json(selection.foreign),
    }


def _node_json(selection: Selection, name: str, scenario: Scenario) -> dict[str, Any]:
    chosen, fastest, next_best = selection.choice.chosen[name], _fastest(selection, name), _next_best(selection, name)
    return {
        "name": name,
        "primitive": chosen.name,
        "layout_in": str(chosen.layout_in),
        "layout_out": str(chosen.layout_out),
        "cost_ms": chosen.cost.ms,
        "cost_is": chosen.cost.kind,
        "spread_ms": chosen.cost.spread_ms,
        "scenario": asdict(scenario),
        "fastest": {"primitive": fastest.name, "cost_ms": fastest.cost.ms},
        "next_best": None if next_best is None else {"primitive": next_best.name, "cost_ms": next_best.cost.ms},
        "families": families_json(selection, name),
    }


def _next_best(selection: Selection, node: str) -> Alternative | None:
    """Return the cheapest alternative, by its own cost, of the families other than the chosen one's.

    It may be cheaper than the chosen alternative. None if there is no other family.
    """
    chosen = selection.choice.chosen[node]
    others = [
        alternative
        for alternative in selection.problem.alternatives[node]
        if family_of(alternative) != family_of(chosen)
    ]
    return min(others, key=lambda alternative: alternative.cost.ms, default=None)


def _fastest(selection: Selection, node: str) -> Alternative:
    """Return the alternative of least cost by itself; the chosen one if none is cheaper."""
    return min(
        (selection.choice.chosen[node], *selection.problem.alternatives[node]),
        key=lambda alternative: alternative.cost.ms,
    )


def show_selection(selection: Selection, out: "Console") -> None:
    """Print tables of nodes, conversions and strategies, and sentences about the proof and the nodes left out."""
    kinds = Counter(alternative.cost.kind for alternative in selection.choice.chosen.values() if alternative.primitive)
    are = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    out.print(
        f"{selection.model} on {selection.board}, {selection.core}, threads {selection.threads}; "
        f"costs of nodes: {are or 'none'}"
    )
    _show_nodes(selection, out)
    _show_conversions(selection, out)
    show_tables(selection, out)
    proof = "optimal by these costs" if selection.optimal else f"at most {selection.gap:.2%} of it can be saved"
    out.print(
        f"{selection.selected.strategy}: {shown_ms(selection.choice.total_ms)} ms, of which conversions "
        f"{shown_ms(selection.choice.conversions_ms)} ms; {proof}; solved in {selection.selected.solver_seconds:.3f} s"
    )
    for node in selection.problem.network.left_out:
        out.print(f"left out: {node.name} {node.why}: it is computed in HWC, and its cost is not counted")
    if selection.need is not None:
        out.print(f"memory: {selection.need.bytes} bytes, at {selection.need.node}")
    for sentence in () if selection.foreign is None else foreign_sentences(selection.foreign):
        out.print(sentence)
    for sentence in selection.notes:
        out.print(f"note: {sentence}")
    for sentence in selection.assumed:
        out.print(f"assumed: {sentence}")


def _show_nodes(selection: Selection, out: "Console") -> None:
    from rich.table import Table

    table = Table()
    for title in ("node", "scenario", "primitive", "ms", "next family", "faster alone"):
        table.add_column(title, overflow="fold", justify="right" if title == "ms" else "left")
    for node in selection.problem.network.convolutions:
        chosen, s = selection.choice.chosen[node.name], node.scenario
        if s is None:
            continue
        text = s.text
        next_best, fastest = _next_best(selection, node.name), _fastest(selection, node.name)
        next_family = "" if next_best is None else f"{family_of(next_best)} {_relative(next_best, chosen)}"
        faster = f"{fastest.name} {_relative(fastest, chosen)}" if fastest.cost.ms < chosen.cost.ms else ""
        table.add_row(node.name, text, chosen.name, shown_ms(chosen.cost.ms), next_family, faster)
    out.print(table)
    out.print(
        "Scenario: C,H,W,stride,K,M,pad,groups, and the zeros among the weights if there are many. Next family: cost "
        "of the cheapest primitive of any other family, relative to the chosen one. Faster alone: a faster primitive "
        "that was not chosen because of the conversions that it needs, or because the strategy forbids it."
    )


def _relative(alternative: Alternative, chosen: Alternative) -> str:
    if chosen.cost.ms <= 0:
        return f"{alternative.cost.ms:.4f} ms"
    return f"{alternative.cost.ms / chosen.cost.ms - 1:+.0%}"


def _show_conversions(selection: Selection, out: "Console") -> None:
    from rich.table import Table

    if not selection.choice.conversions:
        out.print("No conversions.")
        return
    table = Table("image", "after", "before", "conversion", "ms", "cost is")
    graphs = {
        link.tensor: graph
        for link, graph in zip(selection.problem.network.links, selection.problem.graphs, strict=True)
    }
    for conversion in selection.choice.conversions:
        chain = " > ".join(map(str, conversion.chain)) or "impossible"
        size, readers = graphs[conversion.tensor].size, ", ".join(conversion.readers)
        table.add_row(str(size), conversion.source, readers, chain, shown_ms(conversion.ms), conversion.kind)
    out.print(table)
