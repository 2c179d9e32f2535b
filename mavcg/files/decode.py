"""Turn JSON and TOML into typed values by msgspec; errors name the file, the key, the value and the remedy.

The types are frozen dataclasses or msgspec.Struct classes: their annotations are the description of a file. Types are
strict (a string is no number), and a key that the type does not have is refused. `Annotated[T, Meta(...)]` adds
limits; its `description` is the noun of "is not ..." in errors, and its `examples` have what a user could write.
"""

import dataclasses
import difflib
import json
import tomllib
import types
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from mavcg.errors import MavcgError

T = TypeVar("T")
MOST_BYTES = 1 << 30  # of a file
_SHOWN = 60  # characters of a value in an error
_WORDS: Mapping[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
_TABLES = (dict, Mapping)
_LISTS = (list, tuple, set, frozenset, Sequence, Set)
_PLURAL: Mapping[Any, str] = {str: "strings", int: "whole numbers", float: "numbers", bool: "truth values"}


class Document(NamedTuple):
    """A parsed file or text. where: its name in errors. remedy: what to do about a fault that has no better one."""

    value: Any
    where: str
    remedy: str = "correct it"
    error: type[MavcgError] = MavcgError

    def decode(self, kind: type[T]) -> T:
        """Return the value as of a type. Raises: `error` naming file, key, value and remedy."""
        return decode(self.value, kind, self.where, self.remedy, self.error)

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
        return self.error(f"{self.where}: {key}: {wrong}; {remedy or self.remedy}")


def decode(
    value: Any, kind: type[T], where: str, remedy: str = "correct it", error: type[MavcgError] = MavcgError
) -> T:
    """Return a parsed document as a value of a type.

    Raises: `error` with the key path and the value of the first fault: an unknown key, with the nearest known one; a
    missing key; a value of another type or outside its limits; what a class's own __post_init__ refuses by ValueError.
    """
    fault = next(_unknown_keys(value, kind, ""), None)
    if fault is None:
        try:
            return msgspec.convert(value, kind)
        except (msgspec.ValidationError, RecursionError) as refused:
            fault = _find_fault(value, kind, "", refused)
    place = f"{where}: {fault.key}" if fault.key else where
    raise error(f"{place}: {fault.wrong}; {fault.remedy or remedy}") from None


def read_json(path: Path, remedy: str, error: type[MavcgError] = MavcgError) -> Document:
    """Parse a JSON file. remedy: for errors. Raises: `error` for a file that cannot be read or is not JSON."""
    return json_document(_read_text(path, remedy, error), str(path), remedy, error)


def read_toml(path: Path, remedy: str = "correct it", error: type[MavcgError] = MavcgError) -> Document:
    """Parse a TOML file. Raises: `error` for a file that cannot be read or is not TOML."""
    return toml_document(_read_text(path, remedy, error), str(path), remedy, error)


def json_document(text: str, where: str, remedy: str, error: type[MavcgError] = MavcgError) -> Document:
    """Parse JSON text, in which no key occurs twice and all numbers are finite. Raises: `error`."""
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
        return Document(_without_surrogates(value) if "\\ud" in text.lower() else value, where, remedy, error)
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


def value_text(value: object, most: int = _SHOWN) -> str:
    """Return a value as JSON on one line for an error, shortened if it is long."""
    try:
        text = json.dumps(value, default=str)
    except (ValueError, RecursionError):  # Python writes no number of thousands of digits, though it reads one in hex
        return "a number of thousands of digits"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _read_text(path: Path, remedy: str, error: type[MavcgError]) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise error(f"{path}: has more than {MOST_BYTES >> 20} MiB; {remedy}")
        return path.read_text(encoding="utf-8-sig")  # Windows editors begin a file with a mark
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else f"not UTF-8 text, byte {fault.start}"
        raise error(f"{path}: cannot be read ({reason}); {remedy}") from None


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
    return "nested too deep" if isinstance(fault, RecursionError) else str(fault)


class _Fault(NamedTuple):
    key: str
    wrong: str
    remedy: str = ""


def _unknown_keys(value: Any, kind: Any, at: str) -> Iterator[_Fault]:
    """Yield a fault for each key of the document that its type does not have."""
    if isinstance(value, dict) and (fields := _fields(kind)):
        for key, below in value.items():
            if key in fields:
                if isinstance(below, dict | list):
                    yield from _unknown_keys(below, fields[key].kind, _join(at, key))
                continue
            near = difflib.get_close_matches(str(key), fields, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"keys here are {', '.join(fields)}; remove it"
            yield _Fault(_join(at, key), "no such key", remedy)
    else:
        for key, below, below_kind in _parts(value, kind, at):
            yield from _unknown_keys(below, below_kind, key)


def _find_fault(value: Any, kind: Any, at: str, refused: Exception) -> _Fault:
    """Return the place of what msgspec refused: the innermost value that does not fit its type."""
    if isinstance(refused, RecursionError):
        return _Fault(at, "nested too deep")
    if isinstance(value, dict) and (fields := _fields(kind)):
        for key, field in fields.items():
            if key not in value and field.required:
                example = _example(field.kind)
                return _Fault(_join(at, key), "missing", f"give it as {example or _noun(field.kind)}")
    for member in _members(kind) if isinstance(value, dict) else ():
        for key in value if get_origin(member) in _TABLES else ():
            try:
                msgspec.convert(key, get_args(member)[0])
            except msgspec.ValidationError:
                return _Fault(_join(at, key), f"{value_text(key)} is not {_noun(get_args(member)[0])}")
    for key, below, below_kind in _parts(value, kind, at):
        try:
            msgspec.convert(below, below_kind)
        except (msgspec.ValidationError, RecursionError) as inner:
            return _find_fault(below, below_kind, key, inner)
    if isinstance(refused.__cause__, ValueError):  # of a class's own check
        wrong, _, remedy = str(refused.__cause__).partition("; ")
        return _Fault(at, wrong, remedy)
    example = _example(kind)
    return _Fault(at, f"{value_text(value)} is not {_noun(kind)}", f"write it as {example}" if example else "")


class _Field(NamedTuple):
    kind: Any
    required: bool


@cache
def _fields(kind: Any) -> Mapping[str, _Field]:
    """Return the fields of a class by their keys in files; none if a type has no class with fields."""
    made = next((each for each in _members(kind) if isinstance(each, type)), None)
    if made is None or not (dataclasses.is_dataclass(made) or issubclass(made, msgspec.Struct)):
        return {}
    hints = get_type_hints(made, include_extras=True)
    if dataclasses.is_dataclass(made):
        own = [each for each in dataclasses.fields(made) if each.init]
        unset = dataclasses.MISSING
        return {e.name: _Field(hints[e.name], e.default is unset and e.default_factory is unset) for e in own}
    return {each.encode_name: _Field(hints[each.name], each.required) for each in msgspec.structs.fields(made)}


def _members(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one type, without their annotations."""
    if get_origin(kind) is Annotated:
        return _members(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(inner for member in get_args(kind) for inner in _members(member))
    return (kind,)


def _parts(value: Any, kind: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield key path, value and type of each part of a table or list; none where the type has no parts."""
    if isinstance(value, dict):
        fields = _fields(kind)
        of_items = [get_args(member)[1] for member in _members(kind) if get_origin(member) in _TABLES]
        for key, below in value.items():
            if key in fields:
                yield _join(at, key), below, fields[key].kind
            elif of_items:
                yield _join(at, key), below, of_items[0]
    elif isinstance(value, list):
        for member in _members(kind):
            if get_origin(member) in _LISTS:
                given = get_args(member)
                fixed = get_origin(member) is tuple and given[-1] is not Ellipsis
                kinds = given if fixed else given[:1] * len(value)
                for number, (below, item) in enumerate(zip(value, kinds, strict=False)):
                    yield f"{at}[{number}]", below, item
                return


def _join(at: str, key: str) -> str:
    """Return the path of a key below another one; keys that are no words are quoted."""
    word = key if key.replace("_", "").replace("-", "").isalnum() else value_text(key)
    return f"{at}.{word}" if at else word


def _noun(kind: Any) -> str:
    """Return what a value of a type is, for "is not ..."."""
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        described = next((meta.description for meta in metas if getattr(meta, "description", None)), None)
        return described or _noun(inner) + "".join(map(_limits, metas))
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_noun(member) for member in get_args(kind) if member is not type(None))
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) in _LISTS:
        items = _PLURAL.get(next(iter(_members(get_args(kind)[0]))))
        return f"a list of {items}" if items else "a list"
    return _WORDS.get(kind, "a table")


def _limits(meta: Any) -> str:
    """Return the limits of a number in words."""
    if not isinstance(meta, msgspec.Meta):
        return ""
    low = f" from {meta.ge:g}" if meta.ge is not None else f" above {meta.gt:g}" if meta.gt is not None else ""
    joint = " and" if low else ""
    high = (
        (f" to {meta.le:g}" if meta.ge is not None else f"{joint} at most {meta.le:g}")
        if meta.le is not None
        else f"{joint} below {meta.lt:g}"
        if meta.lt is not None
        else ""
    )
    return low + high


def _example(kind: Any) -> str:
    """Return an example of a type's value for a remedy; "" if it has none."""
    metas = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    examples = next((meta.examples for meta in metas if getattr(meta, "examples", None)), ())
    return str(examples[0]) if examples else ""
