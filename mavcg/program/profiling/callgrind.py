"""Reads `callgrind.out`: exact self cost per function.

Source of the format: the Valgrind manual, "Callgrind Format Specification". Self cost is the sum of all cost lines
except those after `calls=`, which have the cost of the called function.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from mavcg.errors import ProfileError
from mavcg.program.profiling.sample_table import UNKNOWN, SampleTable, Tally

_NAME = re.compile(r"\((?P<id>\d{1,12})\)(?:\s+(?P<name>.*))?")
_SPEC = re.compile(r"(?P<key>c?(?:ob|fn|fl|fi|fe)|cfi|cfl|calls|jump|jcnd)\s*=\s*(?P<value>.*)")
_HEAD = re.compile(
    r"(?P<key>events|positions|cmd|summary|totals|version|creator|pid|part|desc|thread|event): ?(?P<value>.*)"
)
_COST = re.compile(r"(?:0x[0-9a-fA-F]{1,16}|[+-]?\d{1,19}|\*)(?:\s+(?:0x[0-9a-fA-F]{1,16}|[+-]\d{1,19}|\d{1,19}|\*))*")
_RECURSION = re.compile(r"'\d+$")
_NUMBER = re.compile(r"\d{1,18}")


@dataclass
class _CallgrindState:
    """The state of the reader after the lines so far. names: (kind "ob" or "fn", id) -> name (name compression)."""

    events: list[str] = field(default_factory=list)
    positions: int = 1
    event_at: int = 0
    function: str = UNKNOWN
    object: str = ""
    after_calls: bool = False
    command: str = ""
    total: float | None = None
    names: dict[tuple[str, str], str] = field(default_factory=dict)


def looks_like_callgrind(lines: Iterable[str]) -> bool:
    """True if a callgrind file may begin with these lines: a format line, or an events line and a function."""
    heads = [line.strip() for line in lines]
    says = any(line.startswith("# callgrind format") for line in heads[:3])
    return says or (any(line.startswith("events:") for line in heads) and any(h.startswith("fn=") for h in heads))


def read_callgrind(lines: Iterable[str], location: str = "callgrind.out") -> SampleTable:
    """Read self cost per function, in instructions (event Ir), or in the file's first event if Ir was not counted.

    Args:
        location: name in errors, normally the file.
    Raises: ProfileError when there is no events line, no cost, a name that is used before it is given, or when the
    costs fall short of the file's own total (truncated).
    """
    state, tally = _CallgrindState(), Tally()
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        spec, head = _SPEC.fullmatch(line), _HEAD.fullmatch(line)
        if spec is not None:
            _take_spec(state, spec["key"], spec["value"], f"{location}: line {number}")
        elif head is not None:
            _take_head(state, head["key"], head["value"].strip())
        elif _COST.fullmatch(line):
            if not state.events:
                raise ProfileError(
                    f"{location}: line {number}: costs before an events: line; give the whole file that callgrind wrote"
                )
            if not state.after_calls:
                cost = _cost(line.split(), state)
                event = state.events[state.event_at]
                tally.add(event, (state.function, state.object, None, None), cost, 0)
            state.after_calls = False
    reading = tally.reading(location, "instructions", state.command)
    counted = float(reading.frame["samples"].sum())
    if state.total is not None and counted < 0.99 * state.total:
        raise ProfileError(
            f"{location}: truncated: its costs sum to {counted:.0f} {reading.event}, its own total is "
            f"{state.total:.0f}; copy the file again, or let the program end before reading it"
        )
    return reading


def _take_spec(state: _CallgrindState, key: str, value: str, location: str) -> None:
    if key == "calls":
        state.after_calls = True
    elif key == "fn":
        state.function = _RECURSION.sub("", _name(state, "fn", value, location))
        state.after_calls = False
    elif key == "ob":
        state.object = _name(state, "ob", value, location)
    elif key in ("cfn", "cob"):  # read only because they may define a compressed name
        _name(state, key[1:], value, location)


def _take_head(state: _CallgrindState, key: str, value: str) -> None:
    if key == "events":
        state.events = value.split()
        state.event_at = state.events.index("Ir") if "Ir" in state.events else 0
    elif key == "positions":
        state.positions = max(1, len(value.split()))
    elif key == "cmd":
        state.command = value
    elif key in ("summary", "totals") and state.events:
        # A file of several parts has a summary each, and one `totals` at its end.
        cells = value.split()
        if state.event_at < len(cells) and _NUMBER.fullmatch(cells[state.event_at]):
            own = float(cells[state.event_at])
            state.total = own if key == "totals" or state.total is None else state.total + own


def _name(state: _CallgrindState, kind: str, value: str, location: str) -> str:
    """Return a name; `(id)` stands for the name of an earlier `(id) name`, and ??? for an unknown name."""
    match = _NAME.fullmatch(value)
    if match is None:
        name = value
    elif match["name"]:
        name = state.names[kind, match["id"]] = match["name"]
    elif (kind, match["id"]) in state.names:
        name = state.names[kind, match["id"]]
    else:
        raise ProfileError(
            f"{location}: {kind}=({match['id']}) is used before it is named; give the whole file that callgrind wrote"
        )
    return UNKNOWN if name == "???" else name


def _cost(cells: list[str], state: _CallgrindState) -> float:
    """Return the chosen event's cost; callgrind leaves out zeros at the end of a line."""
    at = state.positions + state.event_at
    return float(cells[at]) if at < len(cells) and _NUMBER.fullmatch(cells[at]) else 0.0
