"""How commands print: JSON for scripts, rich tables for people, notes on stderr."""

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Of a table that goes to a file or a pipe, where no terminal says how wide it is.
FILE_COLUMNS = 120


def print_json(value: Any) -> None:
    """Write one JSON document to stdout."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def note(message: str) -> None:
    """A line for people on stderr: progress, warnings, what was left out and why."""
    print(f"mavcg: {message}", file=sys.stderr, flush=True)


def console() -> "Console":
    """Where tables for people go: as wide as the terminal, plain and wide into a file."""
    from rich.console import Console

    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else FILE_COLUMNS)
