"""Comparison of strategies as in the paper (CGO 2018): figures 5 to 7 and tables 2 and 3.

Tables 2 and 3 have a network's time on one (S) and several (M) threads by sum2d, the local optimum and the PBQP; the
figures have each strategy's speed-up over sum2d on one thread. In the paper sum2d always has one thread; here its
channels are divided among threads like all work, so the (M) row differs, while speed-ups refer to the (S) row.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mavcg.choose.algorithms.report.answer import Selection, family_of, finite, shown_ms
from mavcg.choose.algorithms.strategies import LOCAL, PBQP, SUM2D, Selected

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = {SUM2D: "SUM2D", LOCAL: "L. OPT", PBQP: "PBQP"}
Compared = Mapping[str, Selected | None]


def rows_of(selection: Selection) -> list[tuple[str, int, Compared]]:
    """Return the rows of the tables: ("S" or "M", threads, results by strategy)."""
    if not selection.single:
        return [("S" if selection.threads == 1 else "M", selection.threads, selection.compared)]
    return [("S", 1, selection.single), ("M", selection.threads, selection.compared)]


def base_ms(selection: Selection) -> float | None:
    """Return the time of sum2d on one thread, or if unknown on all threads, in ms.

    None if it cannot compute the network.
    """
    base = (selection.single or selection.compared).get(SUM2D)
    return None if base is None or math.isinf(base.total_ms) or base.total_ms <= 0 else base.total_ms


def speed_ups(selection: Selection, compared: Compared) -> dict[str, float | None]:
    """Return each strategy's speed-up over sum2d on one thread; None for a strategy that cannot compute the network."""
    base = base_ms(selection)
    return {
        name: None if result is None or base is None or not 0 < result.total_ms < math.inf else base / result.total_ms
        for name, result in compared.items()
    }


def tables_json(selection: Selection) -> list[dict[str, Any]]:
    """Return the rows of tables 2 and 3 for `mavcg select --json`, with all strategies."""
    return [
        {
            "row": row,
            "threads": threads,
            "ms": {name: None if result is None else finite(result.total_ms) for name, result in compared.items()},
            "faster_than_sum2d": speed_ups(selection, compared),
        }
        for row, threads, compared in rows_of(selection)
    ]


def families_json(selection: Selection, node: str) -> dict[str, dict[str, Any]]:
    """Return the cheapest primitive of each family at a node, by its cost alone."""
    best: dict[str, dict[str, Any]] = {}
    for alternative in sorted(
        selection.problem.alternatives[node], key=lambda candidate: (candidate.cost.ms, candidate.name)
    ):
        best.setdefault(
            family_of(alternative),
            {"primitive": alternative.name, "cost_ms": alternative.cost.ms, "cost_is": alternative.cost.kind},
        )
    return best


def show_tables(selection: Selection, out: "Console") -> None:
    """Print the cost of all strategies, and their speed-ups over sum2d, on one and on several threads."""
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
            result, faster = compared.get(name), speed_ups(selection, compared).get(name)
            if result is None:
                cells += ["cannot", *[""] * (3 if single else 1)]
                continue
            choice = result.choice
            cells += [shown_ms(choice.total_ms)] + [shown_ms(choice.nodes_ms), shown_ms(choice.conversions_ms)] * single
            cells.append("" if faster is None else f"{faster:.2f}x")
        table.add_row(name, *cells)
    out.print(table)
    if not single:
        out.print("Faster than sum2d: compared with sum2d on one thread.")
