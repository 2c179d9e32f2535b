"""A selection beside the other strategies as the paper has it (CGO 2018): figures 5 to 7 and tables 2 and 3.

Tables 2 and 3 have a network's time on (S) one and (M) several threads by sum2d, the local optimum and the PBQP; the
figures have each strategy's speed-up over sum2d on one thread. There sum2d has one thread always; here its channels are
shared out as all rows of work are, and the (M) row has that, while speed-ups are over the (S) row's.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mavcg.selection.report.answer import Selection, family_of, finite, shown_ms
from mavcg.selection.strategies import LOCAL, PBQP, SUM2D, Selected

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = {SUM2D: "SUM2D", LOCAL: "L. OPT", PBQP: "PBQP"}
Compared = Mapping[str, Selected | None]


def rows_of(selection: Selection) -> list[tuple[str, int, Compared]]:
    """Return ("S" or "M", threads, strategies)."""
    if not selection.single:
        return [("S" if selection.threads == 1 else "M", selection.threads, selection.compared)]
    return [("S", 1, selection.single), ("M", selection.threads, selection.compared)]


def base_ms(selection: Selection) -> float | None:
    """Time of sum2d on one thread, in ms, if that is known and can do the network; else on as many as there are."""
    base = (selection.single or selection.compared).get(SUM2D)
    return None if base is None or math.isinf(base.total_ms) or base.total_ms <= 0 else base.total_ms


def speed_ups(selection: Selection, compared: Compared) -> dict[str, float | None]:
    """Return each strategy's speed relative to sum2d on one thread; None for one that cannot do the network."""
    base = base_ms(selection)
    return {
        name: None if one is None or base is None or not 0 < one.total_ms < math.inf else base / one.total_ms
        for name, one in compared.items()
    }


def tables_json(selection: Selection) -> list[dict[str, Any]]:
    """Return the rows of tables 2 and 3 for `mavcg select --json`, with all strategies."""
    return [
        {
            "row": row,
            "threads": threads,
            "ms": {name: None if one is None else finite(one.total_ms) for name, one in compared.items()},
            "faster_than_sum2d": speed_ups(selection, compared),
        }
        for row, threads, compared in rows_of(selection)
    ]


def families_json(selection: Selection, node: str) -> dict[str, dict[str, Any]]:
    """Return the cost of each family's cheapest primitive at a node by itself."""
    best: dict[str, dict[str, Any]] = {}
    for one in sorted(selection.problem.alternatives[node], key=lambda each: (each.cost.ms, each.name)):
        best.setdefault(family_of(one), {"primitive": one.name, "cost_ms": one.cost.ms, "cost_is": one.cost.kind})
    return best


def show_tables(selection: Selection, out: "Console") -> None:
    """Print all strategies, with what they cost and how much faster than sum2d they are, on one and on several
    threads."""
    from rich.table import Table

    rows = rows_of(selection)
    table, single = Table(), len(rows) == 1
    table.add_column("strategy", no_wrap=True)
    for row, threads, _ in rows:
        several = f"({row}) {threads} thread{'s' * (threads > 1)}, ms"
        parts = ("ms", "primitives", "conversions") if single else (several,)
        for title in (*parts, "faster than sum2d"):
            table.add_column(title, justify="right")
    for name in selection.compared:
        cells: list[str] = []
        for _, _, compared in rows:
            one, faster = compared.get(name), speed_ups(selection, compared).get(name)
            if one is None:
                cells += ["cannot", *[""] * (3 if single else 1)]
                continue
            c = one.choice
            cells += [shown_ms(c.total_ms)] + [shown_ms(c.nodes_ms), shown_ms(c.conversions_ms)] * single
            cells.append("" if faster is None else f"{faster:.2f}x")
        table.add_row(name, *cells)
    out.print(table)
    if not single:
        out.print("Faster than sum2d: than that on one thread.")
