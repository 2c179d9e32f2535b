"""Reports of `mavcg build MODEL --partial`: JSON and tables."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from mavcg.graph.counts import bounds_words
from mavcg.model.note import dimensions_json
from mavcg.model.partial.planned_parts import PartialResult

if TYPE_CHECKING:
    from rich.console import Console


def partial_json(result: PartialResult) -> dict[str, Any]:
    """Return the document of `mavcg build MODEL --partial --json`; sizes and multiply-accumulates are counted."""
    plan, build = result.plan, result.request.build
    nodes = plan.nodes
    return {
        "output": str(build.output),
        "also": str(result.request.also) if result.request.also else None,
        "target": build.target.zig_name,
        "seconds": round(result.seconds, 3),
        "library_bytes": result.library_bytes,
        "loaded_bytes": result.loaded_bytes,
        "weight_bytes": result.weight_bytes,
        "subgraphs": [
            {
                "name": planned.program.name,
                "nodes": len(subgraph.nodes),
                "macs": subgraph.macs,
                "macs_share": plan.share(subgraph.macs),
                "arena_bytes": planned.program.arena_bytes,
                "dimensions": dimensions_json(planned.program),
                "inputs": [{"name": t.name, "type": str(t.type)} for t in planned.program.inputs],
                "outputs": [{"name": t.name, "type": str(t.type)} for t in planned.program.outputs],
                "operators": dict(Counter(nodes[i].op for i in subgraph.nodes).most_common()),
            }
            for subgraph, planned in zip(plan.subgraphs, result.planned, strict=True)
        ],
        "left": [{"op": left.op, "count": left.count, "why": left.why} for left in plan.left],
        "macs": plan.macs,
        "macs_share": plan.share(sum(subgraph.macs for subgraph in plan.subgraphs)),
        "nodes_with_unknown_macs": plan.unknown_macs,
        "sizes": [{"shape": shape, "macs_share": share} for shape, share in result.sizes],
    }


def show_partial(result: PartialResult, to: "Console") -> None:
    """Print the subgraphs, then the nodes that stay with the other runtime, with the reasons."""
    from rich.table import Table

    document = partial_json(result)
    to.print(f"{document['output']} for {document['target']}, {document['library_bytes'] / 1e6:.2f} MB")
    if document["also"]:
        to.print(f"{document['also']}: the model that calls it")
    table = Table(box=None)
    for name in ("subgraph", "inputs", "outputs"):
        table.add_column(name)
    for name in ("nodes", "MACs", "share"):
        table.add_column(name, justify="right")
    for subgraph in document["subgraphs"]:
        ends = [", ".join(f"{t['name']} {t['type']}" for t in subgraph[key]) for key in ("inputs", "outputs")]
        table.add_row(
            subgraph["name"], *ends, str(subgraph["nodes"]), f"{subgraph['macs']:,}", f"{subgraph['macs_share']:.1%}"
        )
    to.print(table)
    bounds = {name: ends for subgraph in document["subgraphs"] for name, ends in subgraph["dimensions"].items()}
    for name, ends in bounds.items():
        to.print(f"{name}: {bounds_words(*ends)}, in each run anew; the table has its longest", highlight=False)
    unknown = document["nodes_with_unknown_macs"]
    more = f"; those of {unknown} more nodes are known only at run time" if unknown else ""
    to.print(f"{document['macs_share']:.1%} of {document['macs']:,} MACs{more}")
    if document["sizes"]:
        to.print(f"{len(document['sizes'])} sizes; the table above shows the first")
        for size in document["sizes"]:
            to.print(f"  {size['shape']}: {size['macs_share']:.1%} of the MACs")
    if not document["left"]:
        to.print("nothing stays with the runtime")
        return
    left = Table(box=None, title="what stays with the runtime", title_justify="left")
    left.add_column("nodes", justify="right")
    left.add_column("operator")
    left.add_column("why")
    for left_out in document["left"]:
        left.add_row(str(left_out["count"]), left_out["op"], left_out["why"])
    to.print(left)
