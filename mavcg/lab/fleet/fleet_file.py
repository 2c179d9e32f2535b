"""Reads a fleet's TOML file: boards with types and runners, the scheduler of their hosts, rules for figures."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mavcg.errors import MavcgError, ProfileError
from mavcg.files.decode import Document, read_toml
from mavcg.files.file_types import value_text
from mavcg.hosts.host import find_board
from mavcg.lab.connections.address import DEFAULT_PORT, FarmAddress, is_address, read_address
from mavcg.lab.runners.open import FORMS, check_runner
from mavcg.profiles import schema

MOST_BOARDS = 1000


def _number(low: float, high: float, meaning: str) -> Meta:
    return Meta(ge=low, le=high, description=f"a number from {low:g} to {high:g} ({meaning})")


_Seconds = Annotated[float, _number(0.0, 86_400.0, "seconds")]


@dataclass(frozen=True)
class FleetRules:
    """Rules for which figures count, and which boards are used.

    slow: ratio of a board's probe to its type's from which on its figures do not count. outlier: relative difference of
    a board's probes from its type's from which on it is marked. hot_celsius, clock_drop: temperature, and relative fall
    of the clock, from which on a job is repeated on another board. rest_s: time for which a hot board is not used.
    late, late_s: ratio to the time of the type's batches, and minimum seconds, after which a batch is started on a
    second board. silence_s: time without output after which a program is stopped.
    """

    slow: Annotated[float, _number(1.01, 100.0, "times as long as the type's boards")] = 1.25
    outlier: Annotated[float, _number(0.001, 100.0, "fraction")] = 0.05
    hot_celsius: Annotated[float, _number(1.0, 150.0, "degrees Celsius")] = 75.0
    clock_drop: Annotated[float, _number(0.001, 1.0, "fraction of the clock")] = 0.1
    rest_s: _Seconds = 30.0
    late: Annotated[float, _number(1.1, 1000.0, "times as long as other batches")] = 3.0
    late_s: Annotated[float, _number(0.1, 86_400.0, "seconds")] = 60.0
    silence_s: Annotated[float, _number(1.0, 86_400.0, "seconds")] = 300.0


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
    document = read_toml(path, "correct it", ProfileError)
    file = document.decode(_FleetFile)
    if file.scheduler and not is_address(file.scheduler):
        remedy = f"write tls://HOST:{DEFAULT_PORT}, or leave it out where this machine reaches all boards"
        raise document.fault("scheduler", f"{value_text(file.scheduler)} is not an address of a scheduler", remedy)
    named = f"{path}: scheduler {file.scheduler}"
    scheduler = read_address(file.scheduler, insecure, named) if file.scheduler else None
    if not file.board:
        raise document.fault("board", "missing", 'add [[board]] with name = "..", type = ".." and runner = "ssh:.."')
    if len(file.board) > MOST_BOARDS:
        raise document.fault("board", f"{len(file.board)} boards", f"a fleet has at most {MOST_BOARDS}; split it")
    boards: list[FleetBoard] = []
    for number, entry in enumerate(file.board):
        _check_board(document, entry, f"board[{number}]", boards)
        boards.append(FleetBoard(entry.name, entry.type, entry.runner))
    return Fleet(path, tuple(boards), scheduler, file.rules)


@dataclass(frozen=True)
class _Board:
    name: Annotated[
        str,
        Meta(
            pattern=f"^({schema.NAME.pattern})$",
            description="a name",
            examples=["a-z, 0-9, '-', '_' and '.', beginning with one of a-z, 0-9"],
        ),
    ]
    type: str
    runner: str


@dataclass(frozen=True)
class _FleetFile:
    scheduler: str = ""
    rules: FleetRules = FleetRules()
    board: tuple[_Board, ...] = ()


def _check_board(document: Document, board: _Board, key: str, before: list[FleetBoard]) -> None:
    """Raise ProfileError for an unknown type or runner, and for a name or runner that a board before has."""
    try:
        find_board(board.type)
    except MavcgError as error:
        raise document.fault(f"{key}.type", str(error), "name one of `mavcg cores`, or add its file") from None
    try:
        check_runner(board.runner)
    except MavcgError as error:
        raise document.fault(f"{key}.runner", str(error).removeprefix("--runner "), f"give {FORMS}") from None
    for other in before:
        if other.name == board.name:
            raise document.fault(f"{key}.name", f"{board.name} is also another board's name", "name each board once")
        if other.runner == board.runner:
            wrong = f"{value_text(board.runner)} is also the runner of {other.name}"
            raise document.fault(f"{key}.runner", wrong, "two measurements on one board disturb each other: remove one")
