"""Read the timing tables of one core's file, from [sources] to [loads].

docs/add-a-core.md describes them. This module reads no other file; timing.py decides which core's facts fill the gaps.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from mavcg.hardware.instr_classes import CLASSES, FAMILIES, ROLES, lineage
from mavcg.hardware.timing import INDEPENDENT, ClassTiming, ForbiddenDistance, NoDualIssue, UnitUse
from mavcg.profiles import schema
from mavcg.profiles.schema import Table, refuse, value_text

TIMING_TABLES = ("forward", "no_dual_issue", "issue_distance", "loads")
MOST_QUEUED = 8  # vector instructions in the queue of an in-order core; as SIM_QUEUED of simulate/csrc
WORD = r"[a-z][a-z0-9_]*"
UNIT = re.compile(rf"(?P<pools>{WORD}(?:\|{WORD})*)(?::(?P<cycles>[1-9][0-9]{{0,3}}))?")


_CORE = Annotated[str, Meta(min_length=1, description="a core's name")]
_Pool = Annotated[int, Meta(ge=1, le=16, description="a whole number of units from 1 to 16")]
_POOLS = Annotated[dict[Annotated[str, Meta(pattern=f"^{WORD}$")], _Pool], Meta(description="a table of units")]
_Few = Annotated[int, Meta(ge=0, le=100, description="a whole number from 0 to 100")]


class ClassRow(Struct, frozen=True):
    """A row of [instr]. latency: in cycles. The others are as of ClassTiming; units in the form of UNIT."""

    latency: Annotated[int, Meta(ge=0, le=1000, description="a whole number of cycles from 0 to 1000")]
    per_cycle: Annotated[float, Meta(gt=0, le=16)]
    units: schema.Names = ()
    blocks: _Few = 0
    first: bool = False
    last: bool = False
    narrows: _Few = 0
    unaligned: _Few = 0
    slots: _Few = 0
    source: str = ""


@dataclass(frozen=True)
class OwnTiming:
    """Timing facts in a core's own file; None or empty if it has none.

    timing_of: core whose facts are inherited where this file has none. timing_of_source: the reason.
    """

    width: int | None = None
    pools: Mapping[str, int] = field(default_factory=dict)
    classes: Mapping[str, ClassTiming] = field(default_factory=dict)
    forwards: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    adjacent_forwards: frozenset[tuple[str, str, str]] = frozenset()
    disputed_forwards: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    no_dual_issue: tuple[NoDualIssue, ...] = ()
    forbidden_distances: tuple[ForbiddenDistance, ...] = ()
    vector_queue: int | None = None
    same_cycle_writes: bool | None = None
    timing_of: str | None = None
    timing_of_source: str = ""


def is_row(value: object) -> bool:
    """Return True if an entry of [instr] is a row about a class, and not a table of figures about one instruction."""
    return not isinstance(value, dict) or any(not isinstance(below, dict) for below in value.values())


def read_own_timing(path: Path, table: Table, order: str) -> OwnTiming:
    """Return the timing facts of a file whose sources are written out. order: "in" or "out", of its core.

    Raises: ProfileError naming file, key and remedy.
    """
    issue = _table(path, table, "issue")
    width = schema.whole(path, issue["width"], "value", "issue.width", 1, 16) if "width" in issue else None
    timing_of = schema.value_and_source(path, issue, "timing_of", "issue.timing_of")
    if timing_of is not None:
        schema.value_as(path, "issue.timing_of", timing_of[0], _CORE, 'give value = "a core\'s name"')
    entries = {key: entry for key, entry in _table(path, table, "instr").items() if is_row(entry)}
    given = schema.value_as(path, "instr", entries, dict[str, ClassRow], "write it as docs/add-a-core.md shows")
    rows = [timing for key, row in given.items() for timing in _rows(path, key, row, order)]
    forwards = [
        fact for key, entry in _table(path, table, "forward").items() for fact in _forwards(path, key, entry, order)
    ]
    doubled = [name for name, count in Counter(row.name for row in rows).items() if count > 1]
    if doubled:
        raise refuse(path, f"instr.{doubled[0]}", "has two rows", "keep one of them")
    return OwnTiming(
        width=width,
        vector_queue=_vector_queue(path, issue, order),
        same_cycle_writes=_same_cycle_writes(path, issue, order),
        pools=_pools(path, issue),
        classes={row.name: row for row in rows},
        forwards={fact.key: fact.cycles for fact in forwards},
        adjacent_forwards=frozenset(fact.key for fact in forwards if fact.adjacent),
        disputed_forwards={fact.key: fact.disputed for fact in forwards if fact.disputed is not None},
        no_dual_issue=tuple(
            _no_dual_issue(path, entry, f"no_dual_issue[{i}]")
            for i, entry in enumerate(schema.tables(path, table, "no_dual_issue"))
        ),
        forbidden_distances=tuple(
            _forbidden_distance(path, entry, f"issue_distance[{i}]")
            for i, entry in enumerate(schema.tables(path, table, "issue_distance"))
        ),
        timing_of=None if timing_of is None else timing_of[0],
        timing_of_source="" if timing_of is None else timing_of[1],
    )


def _table(path: Path, table: Table, key: str) -> Table:
    return schema.table_of(path, table.get(key, {}), key, f"write [{key}] and its lines below")


def _vector_queue(path: Path, issue: Table, order: str) -> int | None:
    if "vector_queue" not in issue:
        return None
    if order == "out":
        raise refuse(
            path, "issue.vector_queue", "only for in-order cores; an out-of-order core has a window", "remove it"
        )
    return schema.whole(path, issue["vector_queue"], "value", "issue.vector_queue", 0, MOST_QUEUED)


def _same_cycle_writes(path: Path, issue: Table, order: str) -> bool | None:
    allowed = schema.value_and_source(path, issue, "same_cycle_writes", "issue.same_cycle_writes")
    if allowed is None:
        return None
    if order == "out":
        raise refuse(
            path,
            "issue.same_cycle_writes",
            "only for in-order cores; an out-of-order core renames registers",
            "remove it",
        )
    return schema.flag(path, allowed[0], "issue.same_cycle_writes", "give value = true or false")


def _pools(path: Path, issue: Table) -> dict[str, int]:
    units = schema.value_and_source(path, issue, "pools", "issue.pools")
    if units is None:
        return {}
    pools: dict[str, int] = schema.value_as(path, "issue.pools", units[0], _POOLS, "give value = { load = 1, alu = 2 }")
    return pools


def _rows(path: Path, key: str, given: ClassRow, order: str) -> Iterable[ClassTiming]:
    """Yield the timing of each class that the key names."""
    key_path = f'instr."{key}"' if " " in key else f"instr.{key}"
    if not given.source.strip():
        raise schema.no_source(path, key_path)
    units = tuple(_unit(path, text, f"{key_path}.units", order) for text in given.units)
    if given.blocks and order == "out":
        raise refuse(path, f"{key_path}.blocks", "an out-of-order core is never blocked", "remove it")
    if given.first and order == "out":
        raise refuse(path, f"{key_path}.first", "an out-of-order core has no first slot", "remove it")
    if given.narrows and order == "out":
        raise refuse(path, f"{key_path}.narrows", "an out-of-order core has no slots after it", "remove it")
    if given.slots and order == "in":
        raise refuse(path, f"{key_path}.slots", "an in-order core issues an instruction in one slot", "remove it")
    if given.last and not given.blocks:
        raise refuse(
            path, f"{key_path}.last", "without blocks, other instructions may follow in its cycle", "add blocks"
        )
    for name in _class_names(path, key, key_path):
        yield ClassTiming(
            name,
            given.latency,
            given.per_cycle,
            units,
            given.blocks,
            given.source,
            given.first,
            given.unaligned,
            given.last,
            given.narrows,
            given.slots,
        )


def _unit(path: Path, text: str, key_path: str, order: str) -> UnitUse:
    match = UNIT.fullmatch(text)
    if match is None:
        raise refuse(
            path,
            key_path,
            f"{value_text(text)} is not a use of a unit",
            'write "load", "load:2" or, out of order, "a|b"',
        )
    pools = tuple(match["pools"].split("|"))
    if order == "in" and len(pools) > 1:
        raise refuse(
            path,
            key_path,
            f"{value_text(text)} leaves a choice of pools, but an in-order core uses one",
            "name one pool",
        )
    return UnitUse(pools, int(match["cycles"] or 1))


def _class_names(path: Path, key: str, key_path: str) -> tuple[str, ...]:
    names = tuple(key.split())
    for name in names or (key,):
        if name not in CLASSES:
            raise refuse(path, key_path, f"{value_text(name)} is not an instruction class", _near(name, CLASSES))
    return names


def _near(name: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"did you mean {', '.join(near)}?" if near else "mavcg/hardware/instr_classes.py lists them"


@dataclass(frozen=True)
class _Forward:
    """A row of [forward] for one (producer, consumer, role); disputed: the cycles of another source, or None."""

    key: tuple[str, str, str]
    cycles: int
    adjacent: bool
    disputed: int | None


def _forwards(path: Path, key: str, entry: object, order: str) -> list[_Forward]:
    """Return the row of each (producer, consumer, role) that "a b->c d.role" names."""
    key_path = f"forward.{key}"
    made_by, arrow, read_by = key.partition("->")
    read_by, _, role = read_by.partition(".")
    if not arrow or not made_by.split() or not read_by.split():
        raise refuse(
            path, key_path, "does not name a producer and a consumer", 'write "ldr_x->ins" or "fmla_q->fmla_q.acc"'
        )
    if role and role not in ROLES:
        raise refuse(
            path, key_path, f"{value_text(role)} is not a role of an operand", f"take one of {', '.join(ROLES)}"
        )
    entry = schema.table_of(path, entry, key_path, 'write { cycles = 4, source = "..." }')
    schema.only(path, entry, ("cycles", "independent", "adjacent", "disputed", "source"), f"{key_path}.")
    schema.source_of(path, entry, key_path)
    if "independent" in entry:
        if entry["independent"] is not True or "cycles" in entry or made_by.split() != ["*"]:
            wrong = "means that the consumer waits for no producer; it needs * as producer, true as value and no cycles"
            raise refuse(
                path, f"{key_path}.independent", wrong, 'write "*->ld1_lane_d.acc" = { independent = true, .. }'
            )
        cycles = INDEPENDENT
    else:
        cycles = schema.whole(path, entry, "cycles", f"{key_path}.cycles", 0, 1000)
    for name in (*made_by.split(), *read_by.split()):
        if name not in (*CLASSES, *FAMILIES, "*"):
            raise refuse(
                path,
                key_path,
                f"{value_text(name)} is neither an instruction class nor a family",
                _near(name, (*CLASSES, *FAMILIES)),
            )
    adjacent = "adjacent" in entry
    if adjacent and (entry["adjacent"] is not True or role != "acc" or cycles == INDEPENDENT or order == "out"):
        wrong = "means that only the next multiply-accumulate of an in-order core gets the sum earlier"
        raise refuse(
            path, f"{key_path}.adjacent", wrong, 'write "mla_q->mla_q.acc" = { cycles = 1, adjacent = true, .. }'
        )
    disputed = _disputed_latency(path, entry, key_path, cycles, order)
    return [
        _Forward((producer, consumer, role), cycles, adjacent, disputed)
        for producer in made_by.split()
        for consumer in read_by.split()
    ]


def _disputed_latency(path: Path, entry: Table, key_path: str, cycles: int, order: str) -> int | None:
    """Return the larger latency of another source, in cycles; None if the row has none."""
    if "disputed" not in entry:
        return None
    if cycles == INDEPENDENT or order == "out":
        wrong = "means that schedules of an in-order core keep to a larger latency where that costs nothing"
        raise refuse(path, f"{key_path}.disputed", wrong, 'write "ldr_x->ins" = { cycles = 3, disputed = 4, .. }')
    return schema.whole(path, entry, "disputed", f"{key_path}.disputed", cycles + 1, 1000)


def _no_dual_issue(path: Path, entry: Table, key_path: str) -> NoDualIssue:
    schema.only(path, entry, ("these", "those", "source"), f"{key_path}.")
    source = schema.source_of(path, entry, key_path)
    return NoDualIssue(_set(path, entry, "these", key_path), _set(path, entry, "those", key_path), source)


def _forbidden_distance(path: Path, entry: Table, key_path: str) -> ForbiddenDistance:
    schema.only(path, entry, ("first", "then", "cycles", "source"), f"{key_path}.")
    source = schema.source_of(path, entry, key_path)
    cycles = schema.whole(path, entry, "cycles", f"{key_path}.cycles", 1, 100)
    return ForbiddenDistance(_set(path, entry, "first", key_path), _set(path, entry, "then", key_path), cycles, source)


def _set(path: Path, entry: Table, key: str, key_path: str) -> frozenset[str]:
    """Return the classes that a rule names.

    A class stands also for the classes that inherit its facts, a family for its classes; "-" excludes.
    """
    key_path = f"{key_path}.{key}"
    classes: set[str] = set()
    for word in schema.names(path, entry, key, key_path):
        name = word.removeprefix("-")
        if name not in (*CLASSES, *FAMILIES):
            raise refuse(
                path,
                key_path,
                f"{value_text(name)} is neither an instruction class nor a family",
                _near(name, (*CLASSES, *FAMILIES)),
            )
        meant = {class_name for class_name, about in CLASSES.items() if name in (*lineage(class_name), about.family)}
        classes = classes - meant if word.startswith("-") else classes | meant
    if not classes:
        raise refuse(path, key_path, "contains no instruction class", f'give {key} = ["..."]')
    for name in CLASSES:
        if name not in classes and classes.intersection(lineage(name)):
            wrong = f"the excluded {name} inherits facts from a class that is not excluded"
            raise refuse(path, key_path, wrong, "exclude that class, too")
    return frozenset(classes)
