"""Write what was found as the file of a core, mavcg's own with the facts that differ in place, and of a board."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mavcg.cost.core_facts import MISPREDICT
from mavcg.hardware.core import CONFIDENCE
from mavcg.hardware.instr_classes import CLASSES, lineage
from mavcg.hardware.timing import ClassTiming, Timing
from mavcg.lab.calibrate.altered_core import FORWARD, WIDTH, ends_of
from mavcg.lab.calibrate.calibration import CoreCalibration
from mavcg.profiles.schema import Table
from mavcg.text.safe_text import toml_string

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_OF_BOARDS = "caches."  # two boards give the same core different caches: these facts go to the board's file
_UNITS = {WIDTH: "instr/cycle", MISPREDICT: "cycles"}


def changed_facts(calibration: CoreCalibration) -> dict[str, float]:
    """Return the found facts that differ from mavcg's own, by key."""
    return {key: value for key, value in calibration.found.items() if calibration.shipped.get(key) != value}


def core_file_text(table: Table, calibration: CoreCalibration, timing: Timing, source: str) -> str:
    """Return the text of the core's file with the found facts.

    table: the core's own file, parsed. timing: the core's timing as it is with that file. source: of the found facts.
    Errors of the model against silicon, which are those of the facts as they were, are left out.
    """
    changed = changed_facts(calibration)
    new: dict[str, Any] = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    new["model"] = {CONFIDENCE.partition(".")[2]: _fact("measured by instruction", "grade", source)}
    rows = {key.split(".")[1] for key in changed if key.startswith("instr.")}
    rows |= {name for name in CLASSES if name not in timing.classes and rows.intersection(lineage(name))}
    found = calibration.model.timing
    _put_rows(new, {name: found.of(name) for name in CLASSES if name in rows and name in found.classes}, source)
    for key, value in changed.items():
        if key.startswith(FORWARD):
            producer, consumer, role = ends_of(key)
            name = f"{producer}->{consumer}" + (f".{role}" if role else "")
            forwards = new.setdefault("forward", {})
            forwards.pop(name, None)
            forwards[name] = {"cycles": int(value), "source": source}  # the last row of a forwarding counts
        elif not key.startswith(("instr.", _OF_BOARDS)):
            section, _, name = key.partition(".")
            new.setdefault(section, {})[name] = _fact(_number(value), _UNITS.get(key, "micro-ops"), source)
    return toml_text(new)


def _put_rows(table: dict[str, Any], rows: Mapping[str, ClassTiming], source: str) -> None:
    """Put rows of classes into [instr], in place of what the table says of these classes."""
    kept: dict[str, Any] = {}
    for names, row in table.get("instr", {}).items():
        left = [name for name in names.split() if name not in rows] if names.split()[0] in CLASSES else [names]
        if left:
            kept[" ".join(left)] = row
    for name, row in rows.items():
        entry: dict[str, Any] = {"latency": row.latency, "per_cycle": row.per_cycle}
        entry["units"] = ["|".join(use.any_of) + (f":{use.cycles}" if use.cycles > 1 else "") for use in row.units]
        entry |= {
            key: value for key in ("blocks", "first", "last", "narrows", "unaligned") if (value := getattr(row, key))
        }
        kept[name] = {**entry, "source": source}
    if kept:
        table["instr"] = kept


def _fact(value: Any, unit: str, source: str) -> dict[str, Any]:
    return {"value": value, "unit": unit, "source": source}


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def board_file_text(
    name: str, soc: str, target: str, source: str, clusters: list[dict[str, Any]], l3: int | None
) -> str:
    """Return the text of a board's file. clusters: tables, as docs/add-a-board.md describes them. l3: in bytes."""
    table: dict[str, Any] = {"name": name, "soc": soc, "target": target, "source": source}
    if l3 is not None:
        table["l3_bytes"] = {"value": l3, "source": source}
    return toml_text({**table, "clusters": clusters})


def cluster_table(
    calibration: CoreCalibration, cpus: str, khz: int, levels: Mapping[str, float], source: str
) -> dict[str, Any]:
    """Return the table of a cluster of a board's file.

    cpus: as the Linux kernel writes them. khz: of the clock. levels: found facts about caches, by key.
    """
    table: dict[str, Any] = {"core": calibration.core, "cpus": cpus, "max_khz": {"value": khz, "source": source}}
    for key in ("l1d_bytes", "l2_bytes"):
        if (value := levels.get(f"caches.{key}")) is not None:
            table[key] = {"value": int(value), "source": source}
    if "l2_bytes" not in table and "l1d_bytes" in table:
        table["l2_bytes"] = {"value": 0, "source": source}
    units = {"l2_latency": "cycles", "l3_latency": "cycles", "miss_slots": "lines", "prefetch_lines": "lines"}
    units |= {"memory_ns": "ns"}
    table["caches"] = {
        key: _fact(_number(value), unit, source)
        for key, unit in units.items()
        if (value := levels.get(f"caches.{key}")) is not None
    }
    return table


def toml_text(table: Table) -> str:
    """Return a table as TOML: plain keys first, then a section for each table and each entry of a list of tables."""
    lines, sections = [], []
    for key, value in table.items():
        if isinstance(value, dict):
            sections += ["", f"[{_key(key)}]", *(f"{_key(name)} = {_value(below)}" for name, below in value.items())]
        elif key == "clusters" or (isinstance(value, list) and key in ("no_dual_issue", "issue_distance")):
            for entry in value:
                sections += ["", f"[[{_key(key)}]]", *(f"{_key(name)} = {_value(v)}" for name, v in entry.items())]
        else:
            lines.append(f"{_key(key)} = {_value(value)}")
    return "\n".join([*lines, *sections, ""])


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else toml_string(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return toml_string(value)
        case dict():
            return "{ " + ", ".join(f"{_key(key)} = {_value(below)}" for key, below in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)


def profiles_path(folder: Path, kind: str, name: str) -> Path:
    """Return the path of a file below a folder of MAVCG_PROFILES. kind: "cores" or "boards"."""
    return folder / kind / f"{name}.toml"
