"""Descriptions of types, from their annotations: fields of classes, parts of tables and lists, and words for errors."""

import dataclasses
import json
import types
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

_SHOWN = 60  # characters of a value in an error
_WORDS: Mapping[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
TABLES = (dict, Mapping)
_LISTS = (list, tuple, set, frozenset, Sequence, Set)
_PLURAL: Mapping[Any, str] = {str: "strings", int: "whole numbers", float: "numbers", bool: "truth values"}


class FileField(NamedTuple):
    kind: Any
    required: bool


@cache
def file_fields(kind: Any) -> Mapping[str, FileField]:
    """Return the fields of a class by their keys in files; none if a type has no class with fields."""
    made = next((each for each in union_members(kind) if isinstance(each, type)), None)
    if made is None or not (dataclasses.is_dataclass(made) or issubclass(made, msgspec.Struct)):
        return {}
    hints = get_type_hints(made, include_extras=True)
    if dataclasses.is_dataclass(made):
        own = [each for each in dataclasses.fields(made) if each.init]
        unset = dataclasses.MISSING
        return {e.name: FileField(hints[e.name], e.default is unset and e.default_factory is unset) for e in own}
    return {each.encode_name: FileField(hints[each.name], each.required) for each in msgspec.structs.fields(made)}


@cache
def has_fields(kind: Any) -> bool:
    """Return True if values of a type have keys that only it knows: the type, or a part of it, is a class of fields."""
    inner = (argument for member in union_members(kind) for argument in get_args(member))
    return bool(file_fields(kind)) or any(map(has_fields, inner))


def union_members(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one type, without their annotations."""
    if get_origin(kind) is Annotated:
        return union_members(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(inner for member in get_args(kind) for inner in union_members(member))
    return (kind,)


def parts_of(value: Any, kind: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield key path, value and type of each part of a table or list; none where the type has no parts."""
    if isinstance(value, dict):
        fields = file_fields(kind)
        of_items = [get_args(member)[1] for member in union_members(kind) if get_origin(member) in TABLES]
        for key, below in value.items():
            if key in fields:
                yield join_path(at, key), below, fields[key].kind
            elif of_items:
                yield join_path(at, key), below, of_items[0]
    elif isinstance(value, list):
        for member in union_members(kind):
            if get_origin(member) in _LISTS:
                given = get_args(member)
                fixed = get_origin(member) is tuple and given[-1] is not Ellipsis
                kinds = given if fixed else given[:1] * len(value)
                for number, (below, item) in enumerate(zip(value, kinds, strict=False)):
                    yield f"{at}[{number}]", below, item
                return


def join_path(at: str, key: str) -> str:
    """Return the path of a key below another one; keys that are no words are quoted."""
    word = key if key.replace("_", "").replace("-", "").isalnum() else value_text(key)
    return f"{at}.{word}" if at else word


def noun_of(kind: Any) -> str:
    """Return what a value of a type is, for "is not ..."."""
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        described = next((meta.description for meta in metas if getattr(meta, "description", None)), None)
        return described or noun_of(inner) + "".join(map(_limits, metas))
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(noun_of(member) for member in get_args(kind) if member is not type(None))
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) in _LISTS:
        items = _PLURAL.get(next(iter(union_members(get_args(kind)[0]))))
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


def example_of(kind: Any) -> str:
    """Return an example of a type's value for a remedy; "" if it has none."""
    if get_origin(kind) in (Union, types.UnionType):
        return next(filter(None, map(example_of, get_args(kind))), "")
    metas = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    examples = next((meta.examples for meta in metas if getattr(meta, "examples", None)), ())
    return str(examples[0]) if examples else ""


def value_text(value: object, most: int = _SHOWN) -> str:
    """Return a value as JSON on one line for an error, shortened if it is long."""
    try:
        text = json.dumps(value, default=str)
    except (ValueError, RecursionError):  # Python writes no number of thousands of digits, though it reads one in hex
        return "a number of thousands of digits"
    return text if len(text) <= most else f"{text[: most - 3]}..."
