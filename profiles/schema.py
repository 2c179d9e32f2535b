"""Read facts from TOML, and refuse wrong ones with errors that name the file, the key, the fault and the remedy.

A table is taken apart key by key, since what a fact may be depends on others; each value goes through the door of all
files, mavcg/files/decode.py, as of a type with limits.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from mavcg.errors import ProfileError
from mavcg.files import decode
from mavcg.files.file_types import value_text as value_text
from mavcg.files.store import open_store
from mavcg.hardware.core import Fact

Table = Mapping[str, Any]
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")  # goes into symbol names (f.cortex-a55) and file names
LEAST_GB_PER_S = 1e-6  # slower is nothing: times would leave the numbers that a computer has
MOST_GB_PER_S = 2000  # more than any CPU's memory or cache gives; a figure that was left in MB/s mostly is more
BAD_FILE = "correct the file or remove it"
_TEXT = Annotated[str, Meta(min_length=1, description="text")]
Names = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...], Meta(description="a list of names", examples=['["...", "..."]'])
]
_TABLES = Annotated[tuple[dict[str, Any], ...], Meta(description="a list of tables")]
_RATE = f"a number of 10^9 bytes a second, above 0 and at most {MOST_GB_PER_S}"
_GB_PER_S = Annotated[float, Meta(gt=0, le=MOST_GB_PER_S, description=_RATE)]


def read_toml(path: Path) -> dict[str, Any]:
    """Return the file's table, which callers share and must not change.

    Raises: ProfileError if the file cannot be read or is not TOML.
    """
    return toml_of(path, read_text(path))


def read_text(path: Path) -> str:
    """Return the file's text. Raises: ProfileError if it cannot be read."""
    return decode.read_text(path, BAD_FILE, ProfileError)


@lru_cache(maxsize=256)
def toml_of(path: Path, text: str) -> dict[str, Any]:
    """Return the table of a file's text. path: for errors. Raises: ProfileError if it is not TOML.

    The result is kept, because one command reads the same cores several times. It is kept in the user's cache too, as
    JSON, which is read in a hundredth of the time: each file that `mavcg launch` compiles needs every core of an
    architecture, to recognise it.
    """
    store = open_store("facts")
    if (kept := store.read(text, dict[str, Any])) is not None:
        return kept
    table: dict[str, Any] = decode.toml_document(text, str(path), BAD_FILE, ProfileError).value
    with suppress(TypeError, ValueError, RecursionError):  # dates; numbers of thousands of digits; deep nesting
        if json.loads(json.dumps(table)) == table:  # not so of keys or numbers that JSON has not
            store.write(text, table)
    return table


def refuse(path: Path, key: str, wrong: str, remedy: str) -> ProfileError:
    """Return the error for one key of one file, for the caller to raise."""
    return ProfileError(f"{path}: {key}: {wrong}; {remedy}")


def value_as(path: Path, key_path: str, value: object, kind: Any, remedy: str) -> Any:
    """Return a value as of a type, such as Annotated[int, Meta(ge=1, description="a whole number above 0")].

    key_path: key that an error names. remedy: what to write in place of a wrong value. Raises: ProfileError.
    """
    if value is None:
        raise refuse(path, key_path, "missing", remedy)

    def place(below: str) -> str:
        return f"{path}: {key_path}{'' if below.startswith('[') else '.'}{below}"

    return decode.Document(value, f"{path}: {key_path}", remedy, ProfileError, place).decode(kind)


def text(path: Path, table: Table, key: str, default: str | None = None, key_path: str = "") -> str:
    """Return a plain string that is not a fact: a name, a description, a note.

    key_path: key that an error names, if not `key`. default: None if the key is required.
    """
    kind = _TEXT if default is None else Annotated[str, Meta(description="text")]
    value: str = value_as(path, key_path or key, table.get(key, default), kind, f'give it as {key} = "..."')
    return value


def whole(
    path: Path, table: Table, key: str, key_path: str, low: int, high: int, default: int | None = None, unit: str = ""
) -> int:
    """Return an integer of a table from low to high, both included. key_path: key that an error names.

    unit: what the number counts, for errors; without it they write the range in hexadecimal, as for identity registers.
    """
    words = f"number of {unit} from {low} to {high}" if unit else f"number from {low:#x} to {high:#x}"
    kind = Annotated[int, Meta(ge=low, le=high, description=f"a whole {words}")]
    value: int = value_as(path, key_path, table.get(key, default), kind, f"give {key} as a number in that range")
    return value


def rate(path: Path, value: object, key_path: str) -> float:
    """Return a bandwidth in 10^9 bytes per second, from LEAST_GB_PER_S to MOST_GB_PER_S.

    key_path: key that an error names.
    """
    remedy = "give a number in that range, such as 12.8, or remove the fact"
    gb_per_s: float = value_as(path, key_path, value, _GB_PER_S, remedy)
    if gb_per_s < LEAST_GB_PER_S:
        wrong = f"{value_text(value)} is less than {LEAST_GB_PER_S:g} GB/s"
        raise refuse(path, key_path, wrong, "give a larger number, such as 12.8, or remove the fact")
    return gb_per_s


def flag(path: Path, value: object, key_path: str, remedy: str) -> bool:
    """Return true or false. key_path: key that an error names."""
    value_of: bool = value_as(path, key_path, value, bool, remedy)
    return value_of


def names(path: Path, table: Table, key: str, key_path: str) -> tuple[str, ...]:
    """Return a list of strings; () if it is absent."""
    listed: tuple[str, ...] = value_as(path, key_path, table.get(key, []), Names, f'give it as {key} = ["...", "..."]')
    return listed


def one_of(path: Path, value: object, key: str, allowed: tuple[str, ...]) -> str:
    """Return the value, which must be one of the allowed strings."""
    if value not in allowed:
        raise refuse(path, key, f"{value_text(value)} is not known", f"give one of {', '.join(allowed)}")
    return str(value)


def only(path: Path, table: Table, allowed: tuple[str, ...], key_path: str = "") -> None:
    """Raise ProfileError for a key that is not allowed, so that no mistyped key is ignored."""
    for key in table:
        if key not in allowed:
            raise refuse(path, f"{key_path}{value_text(key)[1:-1]}", "no such key", decode.remedy_of_key(key, allowed))


def table_of(path: Path, value: object, key_path: str, remedy: str) -> Table:
    """Return a table. key_path: key that an error names."""
    if isinstance(value, dict):  # thousands are, of all cores
        return value
    table: Table = value_as(path, key_path, value, dict[str, Any], remedy)
    return table


def tables(path: Path, table: Table, key: str) -> tuple[Table, ...]:
    """Return a list of tables; () if it is absent."""
    listed: tuple[Table, ...] = value_as(
        path, key, table.get(key, []), _TABLES, f"give it as {key} = [{{ ... }}, {{ ... }}]"
    )
    return listed


def source_of(path: Path, table: Table, key_path: str) -> str:
    """Return the source that a fact must have.

    Raises: ProfileError if it is missing or empty.
    """
    source = table.get("source")
    if not isinstance(source, str) or not source.strip():
        raise no_source(path, key_path)
    return source


def no_source(path: Path, key_path: str) -> ProfileError:
    """Return the error for a fact without a source."""
    return refuse(path, key_path, "no source", "add one or remove the fact")


def value_and_source(path: Path, table: Table, key: str, key_path: str = "") -> tuple[Any, str] | None:
    """Return value and source of a fact written as key = { value = ..., source = "..." }; None if it is absent."""
    key_path = key_path or key
    if key not in table:
        return None
    remedy = f'write {key} = {{ value = ..., source = "..." }}'
    fact = table_of(path, table[key], key_path, remedy)
    if "value" not in fact:
        raise refuse(path, key_path, f"{value_text(fact)} has no value", remedy)
    only(path, fact, ("value", "unit", "source"), f"{key_path}.")
    return fact["value"], source_of(path, fact, key_path)


def check_name(path: Path, table: Table) -> None:
    """Check that the name is that of the file, and can be a part of a symbol."""
    name = text(path, table, "name")
    if name != path.stem:
        raise refuse(
            path, "name", f"{value_text(name)} is not the file's name", f'write name = "{path.stem}" or rename the file'
        )
    profile_name(path, table)


def profile_name(path: Path, table: Table) -> str:
    """Return the name, which can be a part of a symbol, whatever the file's own name is."""
    name = text(path, table, "name")
    if not NAME.fullmatch(name) or name == "generic":
        raise refuse(
            path, "name", f"{value_text(name)} cannot be a name", "use a-z, 0-9, dot and dash; generic is taken"
        )
    return name


def fact(path: Path, table: Table, key: str, sources: list[tuple[str, str]], key_path: str = "") -> object:
    """Return the value of a fact and add its source to sources; None if it is absent."""
    fact_and_source = value_and_source(path, table, key, key_path)
    if fact_and_source is None:
        return None
    sources.append((key_path or key, fact_and_source[1]))
    return fact_and_source[0]


def figures(path: Path, table: Table, key_path: str) -> tuple[Fact, ...]:
    """Return every figure in a table of figures, such as [issue] or [instr."fmla v.4s"], in the order of the file.

    Raises: ProfileError for an entry that is not { value, unit, source }.
    """
    if "value" in table or "unit" in table or "source" in table:
        only(path, table, ("value", "unit", "source"), f"{key_path}.")
        value, unit = table.get("value"), table.get("unit")
        if not isinstance(value, int | float | bool | str):
            raise refuse(path, key_path, "no value", "add one or remove the fact")
        if not isinstance(unit, str) or not unit:
            raise refuse(path, key_path, "no unit", 'add one, such as unit = "cycles"')
        return (Fact(key_path, value, unit, source_of(path, table, key_path)),)
    facts: list[Fact] = []
    for key, below in table.items():
        remedy = f'write {key} = {{ value = ..., unit = "...", source = "..." }}'
        facts += figures(path, table_of(path, below, f"{key_path}.{key}", remedy), f"{key_path}.{key}")
    return tuple(facts)
