"""Exploration of boards under a power budget for one network: `python -m bench.accelerators.explore_boards [--json]`.

Mixes of Cortex-A55, A76 and X1 cores, their clocks, level-3 caches and memory bandwidths, each predicted for SqueezeNet
with seeded weights, on which no prediction depends. Latency is modelled; watts are published CoreMark figures of one
core at each clock, summed over the cores at work. A prediction takes seconds of CPU time: some four minutes in all, and
the figures do not depend on what else runs.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.accelerators.planner_tables import board_words
from bench.models import model_path
from bench.record import facts, parser_with_json, write
from mavcg.accelerators.explore.board_exploration import explore_boards
from mavcg.accelerators.explore.board_space import read_board_space
from mavcg.accelerators.explore.exploration import PLANNED
from mavcg.accelerators.explore.store import ExplorationStore
from mavcg.lab.jobs.engine import LocalEngine

OBJECTIVES = ("latency", "power")
SPACE = """
[board]
budget_w = 4.0
mix = [{ cortex-a55 = 4 }, { cortex-a55 = 6, cortex-a76 = 2 }, { cortex-a55 = 4, cortex-a76 = 4 }, { cortex-x1 = 2 }]
max_khz = { cortex-a55 = [1197000, 1785600], cortex-a76 = [1670400, 2419200], cortex-x1 = [1826000, 2850000] }
l3_bytes = [1048576, 4194304]
memory_gb_per_s = [12.8, 34.1]
"""


def measure(folder: Path, network: str) -> dict[str, Any]:
    """Explore the space for a network of bench.models without skipping points; return the record without its head."""
    (folder / "boards.toml").write_text(SPACE)
    space = read_board_space(folder / "boards.toml")
    with ExplorationStore(None) as store:
        result = explore_boards(
            space,
            {network: str(model_path(network))},
            OBJECTIVES,
            LocalEngine(),
            store,
            prune=False,
            progress=lambda message: print(f"bench: {message}", flush=True),
        )
    rows = []
    for number, point in enumerate(result.points):
        if result.states[number] != PLANNED:
            continue
        figures = result.metrics[number]
        rows.append(
            {
                "board": point.values,
                "latency_ms": round(1e3 * figures["latency"], 3),
                "power_w": round(figures["power"], 3),
                "threads": int(result.figures[number][network]["threads"]),
                "front": number in result.front,
            }
        )
    return {
        "network": network,
        "objectives": list(OBJECTIVES),
        "budget_w": space.budget_w,
        "points": len(result.points),
        "planned": rows,
    }


def main() -> None:
    """Explore, print, write bench/results/explore_boards.json."""
    parser = parser_with_json(__doc__, "the record instead of a table")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = {
            **facts("modelled", "bench.accelerators.explore_boards"),
            **measure(Path(folder), "squeezenet-random"),
        }
    write("explore_boards", record)
    if args.json:
        print(json.dumps(record, indent=2))
    else:
        _print(record)


def _print(record: Mapping[str, Any]) -> None:
    table = Table("board", "threads", "ms", "W", box=None, title=f"The front of {record['points']} boards")
    for row in sorted((row for row in record["planned"] if row["front"]), key=lambda row: row["power_w"]):
        table.add_row(board_words(row), str(row["threads"]), str(row["latency_ms"]), str(row["power_w"]))
    Console().print(table)


if __name__ == "__main__":
    main()
