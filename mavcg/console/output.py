"""Print the results of commands: JSON for scripts, rich tables for people, notes on stderr."""

import json
import math
import sys
import threading
from typing import TYPE_CHECKING, Any

from mavcg.text.terminal import one_line, say

if TYPE_CHECKING:
    from rich.console import Console

FILE_COLUMNS = 120  # width of a table that is written into a file or a pipe


def print_json(value: Any) -> None:
    """Write a JSON document to stdout; "nan", "inf" and "-inf" stand for the numbers that JSON does not have."""
    sys.stdout.write(json.dumps(_to_json(value), indent=2, allow_nan=False) + "\n")


def print_json_line(value: Any) -> None:
    """Write a JSON document as a line to stdout at once, for a script that reads while the command goes on."""
    sys.stdout.write(json.dumps(_to_json(value), allow_nan=False) + "\n")
    sys.stdout.flush()


def _to_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _to_json(entry) for key, entry in value.items()}
    return [_to_json(entry) for entry in value] if isinstance(value, list | tuple) else value


def note(message: str) -> None:
    """Print a line for people on stderr: progress, warnings, omissions and their reasons."""
    say(message)


def console() -> "Console":
    """Return the console for tables, as wide as the terminal, or FILE_COLUMNS wide for a file or pipe.

    It does not print control characters that the texts contain.
    """
    from mavcg.console.printable_console import PrintableConsole

    return PrintableConsole(highlight=False, markup=False, width=None if sys.stdout.isatty() else FILE_COLUMNS)


class Progress:
    """A line on stderr that is rewritten in place.

    If stderr is not a terminal, nothing is printed, or, if `lines`, a line for each message: for work of minutes.
    """

    def __init__(self, lines: bool = False) -> None:
        self._lines = lines
        self._lock = threading.Lock()
        self._steps = 0

    def __enter__(self) -> "Progress":
        return self

    def __call__(self, message: str) -> None:
        with self._lock:
            self._steps += 1
            if sys.stderr.isatty():
                print(f"\r\033[K[{self._steps}] {one_line(message)}", end="", file=sys.stderr, flush=True)
            elif self._lines:
                print(f"[{self._steps}] {one_line(message)}", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._steps and sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
