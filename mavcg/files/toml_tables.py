"""Read tables of a TOML file as frozen dataclasses, whose annotations define keys and types."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

from mavcg.errors import MavcgError

T = TypeVar("T")

# A field's annotation -> the types that TOML may have there, and their name for people.
_KINDS: Mapping[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    str | None: ((str,), "a string"),
    float | None: ((int, float), "a number"),
    int | None: ((int,), "a whole number"),
    int | str | None: ((int, str), "a whole number or a string"),
    tuple[str, ...]: ((list,), "a list of strings"),
    bool | None: ((bool,), "true or false"),
}


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file. Raises: MavcgError for a file that cannot be read or is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); write one, or give options") from error
    except (ValueError, RecursionError) as error:
        raise MavcgError(f"{path}: not TOML ({error}); correct it") from error


def read_table(path: Path, name: str, kind: type[T], table: Mapping[str, Any]) -> T:
    """Return a dataclass with the values of a table; a field without a key keeps its default.

    name: name of the table for errors, as in build.hot or model[0].file. kind: the dataclass, with annotations from
    _KINDS. Raises: MavcgError naming file, key and value for an unknown key, a wrong type and a missing key without a
    default.
    """
    known = fields(kind)  # type: ignore[arg-type]
    kinds = {field.name: field.type for field in known}
    for key in table:
        if key not in kinds:
            raise MavcgError(f"{path}: {name}.{key} is not known; keys are {', '.join(kinds)}")
    for field in known:
        if field.default is MISSING and field.name not in table:
            raise MavcgError(f"{path}: {name}.{field.name} is missing; add {field.name} = ...")
    return kind(**{key: _check_value(f"{path}: {name}.{key}", kinds[key], value) for key, value in table.items()})


def _check_value(location: str, kind: Any, value: Any) -> Any:
    types, words = _KINDS[kind]
    # A bool is an int to Python.
    good = isinstance(value, types) and (bool in types or not isinstance(value, bool))
    if list in types:
        good = good and all(isinstance(item, str) for item in value)
    if not good:
        raise MavcgError(f"{location} = {value_text(value)}: is not {words}; correct it")
    if any("\0" in item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)):
        raise MavcgError(f"{location} = {value_text(value)}: holds a zero byte, which no name can; correct it")
    return tuple(value) if isinstance(value, list) else value


def value_text(value: Any) -> str:
    """Format a value for an error message: its repr, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
