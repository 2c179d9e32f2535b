"""A core whose facts are given other values, by the keys of its file: what simulate:CORE measures with --facts."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mavcg.cost.core_facts import MISPREDICT, SIMULATOR_KEYS, assumed_fact
from mavcg.errors import MavcgError
from mavcg.files.decode import read_toml
from mavcg.hardware.core import Core, Fact
from mavcg.hardware.instr_classes import CLASSES, FAMILIES, ROLES
from mavcg.hardware.timing import ClassTiming, Timing, UnitUse
from mavcg.profiles.rates import rate

WIDTH, IN_FLIGHT = "issue.width", "window.in_flight"
SIZES = ("caches.l1d_bytes", "caches.l2_bytes", "caches.l3_bytes")
ROW_FACTS = ("latency", "per_cycle", "blocks")
FORWARD = "forward."
MOST_CYCLES = 64  # of a unit, when a rate is looked for
_RATE_ERROR = 0.01
_ENDS = ("value", "cycles")


@dataclass(frozen=True)
class RequestedFact:
    """A fact of the file of --facts. name: its key there. keys: the facts that it stands for, one for each class."""

    name: str
    keys: tuple[str, ...]
    value: float


def row_key(op_class: str, name: str) -> str:
    """Return the key of a figure of a class. name: of ROW_FACTS."""
    return f"instr.{op_class}.{name}"


def forward_key(producer: str, consumer: str, role: str) -> str:
    """Return the key of a forwarding latency."""
    return f"{FORWARD}{producer}->{consumer}" + (f".{role}" if role else "")


def read_facts(path: Path) -> tuple[RequestedFact, ...]:
    """Read a file of facts, written as in a core's file, or as dotted keys with a number each.

    Raises: MavcgError naming file, key and remedy.
    """
    table = read_toml(path).value
    requested = []
    for name, value in _flat(table, ()):
        if isinstance(value, str) or name.split(".")[-1] in ("source", "unit"):
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise MavcgError(f"{path}: {name}: {value!r} is not a number; give the fact's value alone")
        requested.append(RequestedFact(name, tuple(_keys(path, name)), float(value)))
    if not requested:
        raise MavcgError(f"{path}: no facts; write some, such as branches.mispredict = 11")
    return tuple(requested)


def _flat(table: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        at = (*above, key)
        if isinstance(value, Mapping):
            yield from _flat(value, at)
        else:
            yield ".".join(at[:-1] if len(at) > 1 and key in _ENDS else at), value


def _keys(path: Path, name: str) -> Iterator[str]:
    """Yield the keys of the facts that a key of the file stands for. Raises: MavcgError if it is no fact's key."""
    if name.startswith("instr."):
        classes, _, figure = name.removeprefix("instr.").rpartition(".")
        unknown = [one for one in classes.split() if one not in CLASSES]
        if figure not in ROW_FACTS or unknown or not classes:
            raise MavcgError(
                f"{path}: {name}: is not instr.CLASS.FIGURE; classes are those of `mavcg estimate --set`, figures are "
                f"{', '.join(ROW_FACTS)}"
            )
        yield from (row_key(one, figure) for one in classes.split())
    elif name.startswith(FORWARD):
        made_by, arrow, read_by = name.removeprefix(FORWARD).partition("->")
        consumers, _, role = read_by.partition(".")
        ends = [*made_by.split(), *consumers.split()]
        if not arrow or not made_by.split() or not consumers.split() or (role and role not in ROLES):
            raise MavcgError(f"{path}: {name}: is not forward.PRODUCER->CONSUMER[.ROLE]; write it as in a core's file")
        if unknown := [end for end in ends if end not in (*CLASSES, *FAMILIES, "*")]:
            raise MavcgError(f"{path}: {name}: no class or family is named {unknown[0]}; correct it")
        yield from (forward_key(one, other, role) for one in made_by.split() for other in consumers.split())
    elif name in (WIDTH, IN_FLIGHT, MISPREDICT, *SIZES, *SIMULATOR_KEYS):
        yield name
    else:
        raise MavcgError(
            f"{path}: {name}: is not a fact that a core's timing has; name instr.CLASS.latency, forward.A->B, "
            f"{WIDTH}, {IN_FLIGHT}, {MISPREDICT}, caches.l2_latency or others of docs/add-a-core.md"
        )


def values_of(core: Core, timing: Timing) -> dict[str, float]:
    """Return the facts of a core's timing, by key, as its files have them or as they are assumed."""
    values = {
        row_key(name, figure): float(getattr(row, figure))
        for name, row in timing.classes.items()
        for figure in ROW_FACTS
    }
    values |= {forward_key(*ends): float(cycles) for ends, cycles in timing.forwards.items() if cycles >= 0}
    values[WIDTH] = float(timing.width)
    given = {fact.key: float(fact.value) for fact in core.facts if isinstance(fact.value, int | float)}
    for key in (MISPREDICT, *SIMULATOR_KEYS):
        values[key] = given[key] if key in given else float(assumed_fact(core, key))
    return values | {key: given[key] for key in (IN_FLIGHT, *SIZES) if key in given}


def alter_core(core: Core, timing: Timing, facts: Mapping[str, float]) -> tuple[Core, Timing]:
    """Return the core and its timing with other values of these facts, by key.

    Raises: MavcgError for a value that no core can have, and for a rate that no use of the core's units gives.
    """
    if WIDTH in facts:
        timing = replace(timing, width=_whole(WIDTH, facts[WIDTH], 1))
    rows = dict(timing.classes)
    for name in CLASSES:
        figures = {figure: facts[key] for figure in ROW_FACTS if (key := row_key(name, figure)) in facts}
        if figures:
            rows[name] = replace(timing.of(name), name=name)
        if "latency" in figures:
            rows[name] = replace(rows[name], latency=_whole(row_key(name, "latency"), figures["latency"], 0))
        if "blocks" in figures:
            rows[name] = replace(rows[name], blocks=_whole(row_key(name, "blocks"), figures["blocks"], 0))
        if "per_cycle" in figures:
            rows[name] = with_rate(rows[name], figures["per_cycle"], timing)
        elif name in rows and ("blocks" in figures or WIDTH in facts):  # which may limit the rate
            rows[name] = replace(rows[name], per_cycle=round(rate(rows[name], timing), 4))
    forwards = dict(timing.forwards)
    for key, value in facts.items():
        if key.startswith(FORWARD):
            forwards[ends_of(key)] = _whole(key, value, 0)
    own = [
        Fact(key, _plain(value), "", "altered")
        for key, value in facts.items()
        if not key.startswith(("instr.", FORWARD))
    ]
    kept = [fact for fact in core.facts if fact.key not in facts]
    timing = replace(timing, classes=rows, forwards=forwards)
    return replace(core, facts=(*kept, *own)), timing


def ends_of(key: str) -> tuple[str, str, str]:
    """Return producer, consumer and role of a forwarding latency's key."""
    producer, _, rest = key.removeprefix(FORWARD).partition("->")
    consumer, _, role = rest.partition(".")
    return producer, consumer, role


def with_rate(row: ClassTiming, per_cycle: float, timing: Timing) -> ClassTiming:
    """Return a row whose units allow this rate, with the least change of them.

    Raises: MavcgError if none does: another number of cycles, or fewer or more micro-operations of the same kind.
    """
    if abs(rate(row, timing) / per_cycle - 1) < _RATE_ERROR:
        return replace(row, per_cycle=per_cycle)
    for units in _other_units(row.units):
        other = replace(row, units=units, per_cycle=per_cycle)
        if abs(rate(other, timing) / per_cycle - 1) < _RATE_ERROR:
            return other
    raise MavcgError(
        f"instr.{row.name}.per_cycle: {per_cycle:g}: no use of its units gives that rate ({row.per_cycle:g} now); "
        "give one that a whole number of cycles of its units makes"
    )


def _other_units(units: tuple[UnitUse, ...]) -> Iterator[tuple[UnitUse, ...]]:
    counts: Iterable[int] = [len(units), *range(len(units) - 1, 0, -1)]
    for count in counts:
        for cycles in range(1, MOST_CYCLES + 1):
            yield tuple(replace(use, cycles=cycles) for use in units[:count])
    for cycles in range(1, MOST_CYCLES + 1):
        yield tuple(replace(use, cycles=cycles) for use in units + units)


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _whole(key: str, value: float, least: int) -> int:
    if value != int(value) or not least <= value <= 4096:
        raise MavcgError(f"{key}: {value:g} is not a whole number from {least} to 4096; correct it")
    return int(value)
