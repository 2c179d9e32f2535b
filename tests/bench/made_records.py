"""A record as a bench makes it, for tests."""

from dataclasses import replace
from typing import Any

from bench.records import Record, record_of

HEAD = {
    "kind": "measured",
    "command": "python -m bench.x",
    "commit": "0123abcd",
    "date": "2026-11-28 10:00 UTC",
    "machine": {"processor": "A", "cpus": 2, "virtual": "yes", "libc": "glibc"},
    "versions": {"mavcg": "1"},
}
TEXT = """What it is.

| core | kind | ms | ms |
| --- | --: | --: | --: |
| a55 | loops | 1.5 | 2.5 |
| a55 | calls |  | 3.5 |

Why."""


def made(**changed: Any) -> Record:
    """Return a record with other facts; for other tests."""
    return replace(record_of("X", HEAD, TEXT), **changed)
