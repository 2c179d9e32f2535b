"""A cost as a row of the database and as an entry of a JSON table, with everything that it depends on."""

import json
import platform
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mavcg.choose.algorithms.costs.provider import IMPORTED, KINDS, SIMULATED, Cost
from mavcg.errors import MavcgError
from mavcg.files.decode import json_document, read_text
from mavcg.specs.primitive import AxisWindow, Layout, Scenario
from mavcg.toolchain.zig import compiler_version

VERSION = 3
BEFORE_KERNELS = 1  # the version of tables that do not say of which kernels a figure is
BEFORE_TURNS = 2  # of tables without interleaved rounds
FORMAT = "mavcg costs"
WARM, COLD = "warm", "cold"
_MOST_MS = 1e12  # thirty years: sums of costs stay finite

KEY = ("what", "core", "threads", "compiler", "block", "caches")
VALUES = ("ms", "spread_ms", "runs", "kind", "date", "host", "kernels", "turns")
COLUMNS = (*KEY, *VALUES)


@dataclass(frozen=True)
class Conversion:
    """Conversion of an image of c channels, h rows and w columns to another layout."""

    layout_from: Layout
    layout_to: Layout
    c: int
    h: int
    w: int


@dataclass(frozen=True)
class Record:
    """A cost with everything that it depends on.

    what: a scenario and a primitive's name, or a conversion. compiler: as in compiler_version. block: channels per
    block of CHWc. cold: true if caches held something else before each run. date: UTC, ISO 8601. host: the machine of
    the figure. kernels: version of the kernels' sources (kernel_version); "" if unknown.
    """

    what: tuple[Scenario, str] | Conversion
    cost: Cost
    core: str
    threads: int = 1
    block: int = 0
    compiler: str = ""
    cold: bool = False
    date: str = ""
    host: str = ""
    kernels: str = ""


_SCENARIO = tuple(field.name for field in fields(Scenario))
_WORDS = ("across", "dtype")  # that are no numbers
DTYPES = ("f32", "i8", "u8")
# Left out where equal: old tables have none.
_NEW = {"sparsity": 0, "block_sparsity": 0, "across": None, "batch": 1, "dtype": "f32"}


def text_of(operation: tuple[Scenario, str] | Conversion) -> str:
    """Return the text in the database: JSON without spaces, in the order of the fields."""
    if isinstance(operation, Conversion):
        parts: dict[str, Any] = {
            "conversion": [str(operation.layout_from), str(operation.layout_to), operation.c, operation.h, operation.w]
        }
    else:
        values = {name: getattr(operation[0], name) for name in _SCENARIO}
        kept = {name: value for name, value in values.items() if name not in _NEW or value != _NEW[name]}
        if "across" in kept:
            kept["across"] = list(astuple(kept["across"]))
        parts = {"primitive": operation[1], "scenario": kept}
    return json.dumps(parts, separators=(",", ":"))


def what_of(text: str) -> tuple[Scenario, str] | Conversion:
    """Parse what text_of wrote. Raises: KeyError, TypeError or ValueError for anything else."""
    return _parse_operation(json.loads(text))


def _parse_operation(value: Any) -> tuple[Scenario, str] | Conversion:
    """Parse what a row is about: a primitive on a scenario, or a conversion.

    Raises: KeyError, TypeError or ValueError for what is neither.
    """
    if "conversion" in value:
        source, target, *sizes = value["conversion"]
        return Conversion(Layout(source), Layout(target), *map(_whole, sizes))
    given = value["scenario"]
    names = [name for name in _SCENARIO if name not in _WORDS and (name not in _NEW or name in given)]
    across = AxisWindow(*map(_whole, given["across"])) if "across" in given else None
    dtype = given.get("dtype", "f32")
    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}")
    scenario = Scenario(**{name: _whole(given[name]) for name in names}, across=across, dtype=dtype)
    return scenario, _word(value["primitive"])


def is_time(value: Any) -> bool:
    """True if a value is milliseconds that a run can take: a number from 0 to 30 years."""
    return isinstance(value, int | float) and 0 <= value <= _MOST_MS


def cost_of(row: Sequence[Any]) -> Cost:
    """Return the cost in a row of the database. Raises: ValueError for a row that mavcg did not write."""
    ms, spread_ms, runs, kind, rounds = row
    if not (is_time(ms) and is_time(spread_ms)):
        raise ValueError(f"{ms!r} and {spread_ms!r} are not times in milliseconds")
    return Cost(ms, kind, spread_ms, runs, rounds)


def row_of(record: Record) -> tuple[Any, ...]:
    """Return the database's row of a record. Raises: MavcgError for a cost that is not a time in milliseconds."""
    cost = record.cost
    if cost.kind not in KINDS or not (is_time(cost.ms) and is_time(cost.spread_ms)):
        raise MavcgError(f"cost {cost}: its time is not 0 or more milliseconds; measure it again")
    date = record.date or datetime.now(UTC).isoformat(timespec="seconds")
    caches, compiler = COLD if record.cold else WARM, record.compiler or compiler_version()
    return (
        text_of(record.what),
        record.core,
        record.threads,
        compiler,
        record.block,
        caches,
        float(cost.ms),
        float(cost.spread_ms),
        cost.runs,
        cost.kind,
        date,
        record.host or platform.node(),
        record.kernels,
        cost.turns,
    )


def table_text(rows: list[tuple[Any, ...]]) -> str:
    """Return the rows as JSON that read_table takes."""
    costs = [{**dict(zip(COLUMNS, row, strict=True)), "what": json.loads(row[0])} for row in rows]
    return json.dumps({"format": FORMAT, "version": VERSION, "costs": costs}, indent=1) + "\n"


def read_table(path: Path) -> list[tuple[Any, ...]]:
    """Read the rows of an exported table. Raises: MavcgError for a file that `export` did not write."""
    remedy = "name a file that `mavcg tune --export` wrote"
    document = json_document(read_text(path, remedy), f"{path}: is not a table of costs", remedy)
    table = document.of_format(FORMAT, BEFORE_KERNELS, BEFORE_TURNS, VERSION).value
    version = document.value["version"]
    try:
        return [
            _imported_row(
                entry,
                entry["kernels"] if version > BEFORE_KERNELS else "",
                entry["turns"] if version > BEFORE_TURNS else 0,
            )
            for entry in table["costs"]
        ]
    except (KeyError, TypeError, ValueError, RecursionError, MavcgError) as error:
        words = f"without {error}" if isinstance(error, KeyError) else str(error)
        raise MavcgError(f"{document.where} ({words}); {remedy}") from None


def _imported_row(value: Any, kernels: Any, rounds: Any) -> tuple[Any, ...]:
    """Return the row of an entry. A simulated cost stays one; all others become imported."""
    kind = SIMULATED if value.get("kind") == SIMULATED else IMPORTED
    cost = Cost(_number(value["ms"]), kind, _number(value["spread_ms"]), _whole(value["runs"]), _whole(rounds))
    if value["caches"] not in (WARM, COLD):
        raise ValueError(f"unknown caches {value['caches']!r}")
    return row_of(
        Record(
            _parse_operation(value["what"]),
            cost,
            _word(value["core"]),
            _whole(value["threads"]),
            _whole(value["block"]),
            _word(value["compiler"]),
            value["caches"] == COLD,
            _word(value["date"]),
            _word(value["host"]),
            _word(kernels),
        )
    )


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 40:
        raise ValueError(f"{value!r} is not a whole number of 0 or more")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
