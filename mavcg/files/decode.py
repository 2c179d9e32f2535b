"""Turn JSON and TOML into typed values by msgspec; errors name the file, the key, the value and the remedy.

The types are frozen dataclasses or msgspec.Struct classes: their annotations are the description of a file. Types are
strict (a string is no number), and a key that the type does not have is refused. `Annotated[T, Meta(...)]` adds
limits; its `description` is the noun of "is not ..." in errors, and its `examples` have what a user could write.
"""

import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from mavcg.errors import MavcgError
from mavcg.files.bounded_read import read_bounded
from mavcg.files.file_types import (
    TABLES,
    example_of,
    file_fields,
    has_fields,
    join_path,
    noun_of,
    parts_of,
    union_members,
    value_text,
)

T = TypeVar("T")
MOST_BYTES = 1 << 30  # of a file


class Document(NamedTuple):
    """A parsed file or text.

    where: its name in errors. remedy: what to do about a fault that has no better one. place: where and a key's path in
    errors, by the path; None to write them as they are.
    """

    value: Any
    where: str
    remedy: str = "correct it"
    error: type[MavcgError] = MavcgError
    place: Callable[[str], str] | None = None

    def decode(self, kind: type[T], of_others: bool = False) -> T:
        """Return the value as of a type. of_others: True for a form that is not mavcg's, in which there are other keys.

        Raises: `error` with the key path and the value of the first fault: an unknown key, with the nearest known one;
        a missing key; a value of another type or outside its limits; what a class's __post_init__ refuses.
        """
        fault = None if of_others else next(_unknown_keys(self.value, kind, ""), None)
        if fault is None:
            try:
                return msgspec.convert(self.value, kind)
            except (msgspec.ValidationError, RecursionError) as refused:
                fault = _find_fault(self.value, kind, "", refused)
        if not fault.key:
            raise self.error(f"{self.where}: {fault.wrong}; {fault.remedy or self.remedy}") from None
        raise self.fault(*fault) from None

    def of_format(self, name: str, *versions: int) -> "Document":
        """Return the document without its keys `format` and `version`, which say what mavcg wrote. Raises: `error`."""
        table = self.value if isinstance(self.value, dict) else {}
        if table.get("format") != name:
            raise self.error(f"{self.where}: its format is not {name}; {self.remedy}")
        if table.get("version") not in versions:
            known = " or ".join(map(str, versions))
            given = value_text(table.get("version"))
            raise self.error(f"{self.where}: has version {given}, and this mavcg reads {known}; {self.remedy}")
        return self._replace(value={key: table[key] for key in table if key not in ("format", "version")})

    def fault(self, key: str, wrong: str, remedy: str = "") -> MavcgError:
        """Return the error for a key, for the caller to raise."""
        place = self.place(key) if self.place else f"{self.where}: {key}"
        return self.error(f"{place}: {wrong}; {remedy or self.remedy}")


def decode(
    value: Any, kind: type[T], where: str, remedy: str = "correct it", error: type[MavcgError] = MavcgError
) -> T:
    """Return a parsed value as of a type. where, remedy: as of Document. Raises: as Document.decode."""
    return Document(value, where, remedy, error).decode(kind)


def read_json(path: Path, remedy: str, error: type[MavcgError] = MavcgError) -> Document:
    """Parse a JSON file. remedy: for errors. Raises: `error` for a file that cannot be read or is not JSON."""
    return json_document(read_text(path, remedy, error), str(path), remedy, error)


def read_toml(path: Path, remedy: str = "correct it", error: type[MavcgError] = MavcgError) -> Document:
    """Parse a TOML file. Raises: `error` for a file that cannot be read or is not TOML."""
    return toml_document(read_text(path, remedy, error), str(path), remedy, error)


def json_document(
    text: str | bytes, where: str, remedy: str, error: type[MavcgError] = MavcgError, file_names: bool = False
) -> Document:
    """Parse JSON, in UTF-8 if it is bytes, in which no key occurs twice and all numbers are finite.

    file_names: True where texts are names of files, in which Python has bytes that are not UTF-8 as lone surrogates;
    elsewhere these become ?. Raises: `error`.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
        if not file_names and "\\ud" in text.lower():
            value = _without_surrogates(value)
        return Document(value, where, remedy, error)
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno}, column {fault.colno}"
        raise error(f"{where}: {place}: not JSON ({fault.msg}); {remedy}") from None
    except (ValueError, RecursionError) as fault:
        raise error(f"{where}: not JSON ({_reason(fault)}); {remedy}") from None


def toml_document(text: str, where: str, remedy: str = "correct it", error: type[MavcgError] = MavcgError) -> Document:
    """Parse TOML text. Raises: `error`."""
    try:
        return Document(tomllib.loads(text), where, remedy, error)
    except (ValueError, RecursionError) as fault:
        raise error(f"{where}: not TOML ({_reason(fault)}); {remedy}") from None


def read_text(path: Path, remedy: str, error: type[MavcgError] = MavcgError) -> str:
    """Return the text of a UTF-8 file. remedy: for errors. Raises: `error` for one that cannot be read, or is large."""
    try:
        text = read_bounded(path, MOST_BYTES).decode("utf-8-sig")  # Windows editors begin a file with a mark
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as fault:
        raise error(f"{path}: cannot be read (not UTF-8 text, byte {fault.start}); {remedy}") from None
    except (OSError, ValueError) as fault:  # a path with a null character is a ValueError
        raise error(f"{path}: cannot be read ({getattr(fault, 'strerror', fault)}); {remedy}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{value_text(twice)} appears twice in one object")
    return table


def _without_surrogates(value: Any) -> Any:
    """Return a value whose texts can be written as UTF-8: JSON may have lone surrogates, which become ?."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return list(map(_without_surrogates, value))
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(below) for key, below in value.items()}
    return value


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a number")


def _reason(fault: Exception) -> str:
    if isinstance(fault, RecursionError):
        return "nested too deep"
    too_long = "set_int_max_str_digits" in str(fault)  # in Python's own words
    return "a number of thousands of digits is too large" if too_long else str(fault)


class _Fault(NamedTuple):
    key: str
    wrong: str
    remedy: str = ""


def remedy_of_key(key: object, known: Iterable[str]) -> str:
    """Return what to do about a key that a table does not have. known: the keys that it may have."""
    near = difflib.get_close_matches(str(key), known := tuple(known), n=1)
    return f"did you mean {near[0]}?" if near else f"keys here are {', '.join(known)}; remove it"


def _unknown_keys(value: Any, kind: Any, at: str) -> Iterator[_Fault]:
    """Yield a fault for each key of the document that its type does not have."""
    if not has_fields(kind):
        return
    if isinstance(value, dict) and (fields := file_fields(kind)):
        for key, below in value.items():
            if key in fields:
                if has_fields(fields[key].kind):
                    yield from _unknown_keys(below, fields[key].kind, join_path(at, key))
                continue
            yield _Fault(join_path(at, key), "no such key", remedy_of_key(key, fields))
    else:
        for key, below, below_kind in parts_of(value, kind, at):
            yield from _unknown_keys(below, below_kind, key)


def _find_fault(value: Any, kind: Any, at: str, refused: Exception) -> _Fault:
    """Return the place of what msgspec refused: the innermost value that does not fit its type."""
    if isinstance(refused, RecursionError):
        return _Fault(at, "nested too deep")
    if isinstance(value, dict) and (fields := file_fields(kind)):
        for key, field in fields.items():
            if key not in value and field.required:
                example = example_of(field.kind)
                return _Fault(join_path(at, key), "missing", f"give it as {example or noun_of(field.kind)}")
    for member in union_members(kind) if isinstance(value, dict) else ():
        for key in value if get_origin(member) in TABLES else ():
            try:
                msgspec.convert(key, get_args(member)[0])
            except msgspec.ValidationError:
                return _Fault(join_path(at, key), f"{value_text(key)} is not {noun_of(get_args(member)[0])}")
    for key, below, below_kind in parts_of(value, kind, at):
        try:
            msgspec.convert(below, below_kind)
        except (msgspec.ValidationError, RecursionError) as inner:
            return _find_fault(below, below_kind, key, inner)
    if isinstance(refused.__cause__, ValueError):  # of a class's own check
        wrong, _, remedy = str(refused.__cause__).partition("; ")
        return _Fault(at, wrong, remedy)
    example = example_of(kind)
    return _Fault(at, f"{value_text(value)} is not {noun_of(kind)}", f"write it as {example}" if example else "")
