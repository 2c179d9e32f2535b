"""Writes the report of a fleet's measurements as JSON and as tables: costs of each type, and its boards compared."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mavcg.choose.algorithms.costs.database import CostDb
from mavcg.hosts.host import find_board
from mavcg.lab.fleet.fleet_file import Fleet, FleetBoard
from mavcg.lab.fleet.tune_fleet import TunedType
from mavcg.lab.runners.facts import MachineFacts
from mavcg.lab.tuning.state import INTERRUPT
from mavcg.lab.tuning.tune_network import facts_document, tuned_document
from mavcg.specs.primitive import Primitive

if TYPE_CHECKING:
    from rich.console import Console


def fleet_document(
    fleet: Fleet,
    model: str,
    tuned: Sequence[TunedType],
    interrupted: bool,
    database: CostDb,
    primitives: Sequence[Primitive],
) -> dict[str, Any]:
    """Return the JSON document of `mavcg tune --runner fleet:FILE`: for each type as for one board, and its boards."""
    types = []
    for tuned_type in tuned:
        document = tuned_document(model, tuned_type.kind, f"fleet:{fleet.path}", tuned_type.cores, database, primitives)
        boards = [{"core": core, **asdict(summary)} for core, summary in tuned_type.boards]
        types.append({**document, "type": tuned_type.kind, "boards": boards})
    keys = ("measured", "already", "pruned", "left", "in_turns", "undecided")
    return {
        "model": model,
        "fleet": str(fleet.path),
        **{key: sum(entry[key] for entry in types) for key in keys},
        "stopped": INTERRUPT if interrupted else next((entry["stopped"] for entry in types if entry["stopped"]), ""),
        "types": types,
    }


def check_document(fleet: Fleet, facts: Mapping[FleetBoard, MachineFacts | str]) -> dict[str, Any]:
    """Return the JSON document of --check: each board's facts, or the reason why they cannot be read."""
    boards = []
    for board, board_facts in facts.items():
        head = {"name": board.name, "type": board.kind}
        if isinstance(board_facts, str):
            boards.append({**head, "runner": board.runner, "fault": board_facts})
        else:
            boards.append({**head, **facts_document(board.runner, board_facts, find_board(board.kind)), "fault": ""})
    return {"fleet": str(fleet.path), "boards": boards}


def show_boards(document: Mapping[str, Any], out: "Console") -> None:
    """Print a row for each board and core, outliers marked."""
    from rich.table import Table

    for of_type in document["types"]:
        table = Table("board", "core", title=f"Boards of type {of_type['type']}, by the probe of each batch")
        for heading in ("probe ms", "of the type's", "spread", "figures", "repeated", "max. C", "min. GHz"):
            table.add_column(heading, justify="right")
        table.add_column("")
        for row in of_type["boards"]:
            remark = f"left out: {row['aside']}" if row["aside"] else "outlier" if row["outlier"] else ""
            ghz = None if row["khz"] is None else row["khz"] / 1e6
            table.add_row(
                row["name"],
                row["core"],
                _number(row["probe_ms"], ".4f"),
                _number(row["ratio"], ".3f"),
                _number(row["spread"], ".1%"),
                str(row["jobs"]),
                str(row["repeated"]),
                _number(row["celsius"], ".0f"),
                _number(ghz, ".2f"),
                remark,
            )
        out.print(table)


def show_check(document: Mapping[str, Any], out: "Console") -> None:
    """Print a row for each board: its model, clocks and temperature."""
    from rich.table import Table

    table = Table("board", "type", "runner", "cores", "hottest C", "it says", title=f"{document['fleet']}")
    for row in document["boards"]:
        if row["fault"]:
            table.add_row(row["name"], row["type"], row["runner"], "", "", row["fault"])
            continue
        cores = dict.fromkeys(cpu["core"] or "generic" for cpu in row["cpus"])
        heat = max(row["celsius"].values(), default=None)
        words = "; ".join((*row["differences"], *row["hints"]))
        table.add_row(row["name"], row["type"], row["runner"], ", ".join(cores), _number(heat, ".0f"), words)
    out.print(table)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
