"""Rows of simulated runs of Arm builds (bench/arm_peers.py), kept in bench/arm_peer_rows.json, and which still hold.

Simulating a peer takes minutes, and neither its build nor the models of the cores change with mavcg's kernels. So its
row is kept under core, network, type, runtime, its version and the facts of the core: all that the timing models read
of it and of its board. If the simulator's code changed and the facts did not, one peer of each core and type is
simulated again; the kept rows hold if its cycles are the same. mavcg is simulated whenever it is asked for.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.arm_programs import BOARDS
from bench.arm_root import WHEELS
from mavcg import __version__
from mavcg.choose.algorithms.costs.cost_version import DIGITS
from mavcg.cost.core_facts import simulated_core
from mavcg.files.whole_file import write_whole
from mavcg.hardware.core import Core
from mavcg.profiles.load import load_board
from mavcg.profiles.timing import load_timing

ROWS_FILE = Path(__file__).with_name("arm_peer_rows.json")
SAME = 0.005  # cycles of two runs of one build: addresses of its buffers differ from run to run
_PACKAGES = {"litert": "ai-edge-litert", "mnn": "MNN"}  # of runtimes that are not named as their wheels
_KEY = ("core", "net", "dtype", "runtime")

Row = Mapping[str, Any]


def key_of(row: Row) -> tuple[str, ...]:
    """Return what a row is of: core, network, type of elements, runtime."""
    return tuple(row[name] for name in _KEY)


def version_of(runtime: str) -> str:
    """Return the version of a runtime's build that is simulated."""
    if runtime == "mavcg":
        return __version__
    pinned = dict(wheel.split("==") for wheel in WHEELS)
    return pinned[_PACKAGES.get(runtime, runtime)]


def facts_version(core: Core) -> str:
    """Return the digest of all facts by which the core is simulated, on the board that this bench has it on."""
    facts = replace(simulated_core(core, load_board(BOARDS[core.name])), assumed=())
    return hashlib.sha256(repr((facts, load_timing(core))).encode()).hexdigest()[:DIGITS]


def holds(row: Row, core: Core) -> bool:
    """Return True if a kept row has cycles of the runtime's version and the core's facts that are there now."""
    there = row["version"], row["facts"]
    return "error" not in row and there == (version_of(row["runtime"]), facts_version(core))


def kept_row(rows: Sequence[Row], key: tuple[str, ...], core: Core) -> Row | None:
    """Return the row of a core, network, type and runtime that holds; None if there is none."""
    return next((row for row in rows if key_of(row) == key and holds(row, core)), None)


def checked_rows(rows: Sequence[Row], core: Core, dtype: str, simulator: str) -> list[Row]:
    """Return the rows of peers on a core, in a type, that another version of the simulator's code made.

    The one with the fewest instructions is first, which is the quickest to simulate again. simulator: today's version.
    """
    old = [
        row
        for row in rows
        if row["runtime"] != "mavcg"
        and (row["core"], row["dtype"]) == (core.name, dtype)
        and row["simulator"] != simulator
        and holds(row, core)
    ]
    return sorted(old, key=lambda row: int(row["instructions"]))


def same_cycles(row: Row, other: Row) -> bool:
    """Return True if two rows have the same cycles, but for the addresses of buffers."""
    return "error" not in other and abs(row["cycles"] - other["cycles"]) <= SAME * row["cycles"]


def with_rows(known: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Return the known rows with these in place of those of the same core, network, type and runtime, in order."""
    of_key = {key_of(row): row for row in (*known, *new)}
    return [of_key[key] for key in sorted(of_key)]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file; none if there is no file."""
    return list(json.loads(path.read_text(encoding="utf-8"))["rows"]) if path.is_file() else []


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a file of rows, a line for each."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = f'"command": {json.dumps("python -m bench.arm_peers")}'
    write_whole(path, f'{{\n{head},\n"rows": [\n{lines}\n]\n}}\n')
