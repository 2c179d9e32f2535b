"""Reads a fleet's TOML file: boards with types and runners, the scheduler of their hosts, rules for figures."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.hosts.host import find_board
from mavcg.lab.farm.address import DEFAULT_PORT, FarmAddress, is_address, read_address
from mavcg.lab.runners.open import FORMS, check_runner
from mavcg.profiles import schema
from mavcg.profiles.schema import refuse

MOST_BOARDS = 1000
# Key of [rules] -> smallest and largest value, and its meaning.
_RANGES: dict[str, tuple[float, float, str]] = {
    "slow": (1.01, 100.0, "times as long as the type's boards"),
    "outlier": (0.001, 100.0, "fraction"),
    "hot_celsius": (1.0, 150.0, "degrees Celsius"),
    "clock_drop": (0.001, 1.0, "fraction of the clock"),
    "rest_s": (0.0, 86_400.0, "seconds"),
    "late": (1.1, 1000.0, "times as long as other batches"),
    "late_s": (0.1, 86_400.0, "seconds"),
    "silence_s": (1.0, 86_400.0, "seconds"),
}


@dataclass(frozen=True)
class FleetRules:
    """Rules for which figures count, and which boards are used.

    slow: ratio of a board's probe to its type's from which on its figures do not count. outlier: relative difference of
    a board's probes from its type's from which on it is marked. hot_celsius, clock_drop: temperature, and relative fall
    of the clock, from which on a job is repeated on another board. rest_s: time for which a hot board is not used.
    late, late_s: ratio to the time of the type's batches, and minimum seconds, after which a batch is started on a
    second board. silence_s: time without output after which a program is stopped.
    """

    slow: float = 1.25
    outlier: float = 0.05
    hot_celsius: float = 75.0
    clock_drop: float = 0.1
    rest_s: float = 30.0
    late: float = 3.0
    late_s: float = 60.0
    silence_s: float = 300.0


@dataclass(frozen=True)
class FleetBoard:
    """A board of a fleet. kind: its type, one of `mavcg cores`. runner: as for --runner."""

    name: str
    kind: str
    runner: str

    @property
    def resource(self) -> str:
        """The name of the resource of the worker that reaches this board."""
        return f"board-{self.name}"


@dataclass(frozen=True)
class Fleet:
    """The boards of a file. scheduler: address of the hosts' scheduler; None if this machine reaches all boards."""

    path: Path
    boards: tuple[FleetBoard, ...]
    scheduler: FarmAddress | None
    rules: FleetRules

    @property
    def kinds(self) -> tuple[str, ...]:
        """The types of its boards, without duplicates."""
        return tuple(dict.fromkeys(board.kind for board in self.boards))


def of_type(fleet: Fleet, kind: str) -> Fleet:
    """Return the boards of one type as a fleet. Raises: MavcgError if there is none."""
    boards = tuple(board for board in fleet.boards if board.kind == kind)
    if not boards:
        raise MavcgError(f"--board {kind}: {fleet.path} has no board of this type; it has {', '.join(fleet.kinds)}")
    return replace(fleet, boards=boards)


def read_fleet(path: Path, insecure: bool = False) -> Fleet:
    """Read a fleet's file, which docs/measuring-on-boards.md describes.

    insecure: allow plain TCP to a scheduler on another machine. Raises: ProfileError with file, key, value and remedy;
    MavcgError for plain TCP.
    """
    table = schema.read_toml(path)
    schema.only(path, table, ("scheduler", "rules", "board"))
    text = schema.text(path, table, "scheduler", "")
    if text and not is_address(text):
        remedy = f"write tls://HOST:{DEFAULT_PORT}, or leave it out where this machine reaches all boards"
        raise refuse(path, "scheduler", f"{schema.value_text(text)} is not an address of a scheduler", remedy)
    scheduler = read_address(text, insecure, f"{path}: scheduler {text}") if text else None
    boards: list[FleetBoard] = []
    for number, entry in enumerate(schema.tables(path, table, "board")):
        boards.append(_board(path, entry, f"board[{number}]", boards))
    if not boards:
        raise refuse(path, "board", "missing", 'add [[board]] with name = "..", type = ".." and runner = "ssh:.."')
    if len(boards) > MOST_BOARDS:
        raise refuse(path, "board", f"{len(boards)} boards", f"a fleet has at most {MOST_BOARDS}; split it")
    return Fleet(path, tuple(boards), scheduler, _rules(path, table))


def _board(path: Path, entry: Mapping[str, Any], key_path: str, before: list[FleetBoard]) -> FleetBoard:
    schema.only(path, entry, ("name", "type", "runner"), f"{key_path}.")
    name, kind, runner = (
        schema.text(path, entry, key, key_path=f"{key_path}.{key}") for key in ("name", "type", "runner")
    )
    if not schema.NAME.fullmatch(name):
        raise refuse(
            path,
            f"{key_path}.name",
            schema.value_text(name),
            "use a-z, 0-9, '-', '_' and '.', beginning with one of a-z, 0-9",
        )
    try:
        find_board(kind)
    except MavcgError as error:
        raise refuse(path, f"{key_path}.type", str(error), "name one of `mavcg cores`, or add its file") from None
    try:
        check_runner(runner)
    except MavcgError as error:
        raise refuse(path, f"{key_path}.runner", str(error).removeprefix("--runner "), f"give {FORMS}") from None
    for board in before:
        if board.name == name:
            raise refuse(path, f"{key_path}.name", f"{name} is also another board's name", "name each board once")
        if board.runner == runner:
            wrong = f"{schema.value_text(runner)} is also the runner of {board.name}"
            raise refuse(
                path, f"{key_path}.runner", wrong, "two measurements on one board disturb each other: remove one"
            )
    return FleetBoard(name, kind, runner)


def _rules(path: Path, table: dict[str, Any]) -> FleetRules:
    given = table.get("rules", {})
    if not isinstance(given, dict):
        raise refuse(path, "rules", f"{schema.value_text(given)} is not a table", "write [rules] with keys below it")
    schema.only(path, given, tuple(field.name for field in fields(FleetRules)), "rules.")
    rules = {}
    for key, value in given.items():
        low, high, meaning = _RANGES[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise refuse(path, f"rules.{key}", f"{schema.value_text(value)}", f"give {low:g} to {high:g} ({meaning})")
        rules[key] = float(value)
    return FleetRules(**rules)
