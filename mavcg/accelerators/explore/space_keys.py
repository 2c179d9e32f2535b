"""Tables and keys of spaces' files: each key has a value or a list of values."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mavcg.profiles import schema
from mavcg.profiles.schema import refuse


def read_table(path: Path, document: Mapping[str, Any], name: str, known: tuple[str, ...], remedy: str) -> Any:
    """Return the table of this name in a space's file. known: its keys. remedy: for a file without it.

    Raises: ProfileError if it is missing or no table, and for another key.
    """
    table = document.get(name)
    if not isinstance(table, dict):
        wrong = "missing" if table is None else f"{schema.value_text(table)} is not a table"
        raise refuse(path, name, wrong, remedy)
    schema.only(path, table, known, f"{name}.")
    return table


def read_values(path: Path, key_path: str, listed: Any, check: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return the values of a key, at least one and none twice, each as `check` returns it. Raises: ProfileError."""
    values = listed if isinstance(listed, list) else [listed]
    if not values:
        raise refuse(path, key_path, "has no values", "give it at least one, or a value without a list")
    for number, value in enumerate(values):
        if value in values[:number]:
            raise refuse(path, key_path, f"{schema.value_text(value)} is given twice", "remove one of them")
    return tuple(map(check, values))
