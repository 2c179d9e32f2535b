"""How commands print: JSON for scripts, rich tables for people, notes on stderr."""

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """Write one JSON document to stdout."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def note(message: str) -> None:
    """A line for people on stderr: progress, warnings, what was left out and why."""
    print(f"mavcg: {message}", file=sys.stderr, flush=True)
