"""Serialisation of kernel specs as JSON values in a versioned format, and the inverse.

A library's note has the specs of its kernels in this format, and a kernel's symbol ends in a digest of it, so that
neither depends on the names of classes and fields in the source:

    value                   JSON
    str, int, bool, None    itself
    float                   a number with a point or an exponent; {"float": "inf"}, "-inf" or "nan" where not finite
    tuple                   an array
    dataclass               {tag: [field, ..]}, fields by number; trailing fields with their default are left out
    member of an enum       {tag: value}

A class gets its permanent tag from @spec_format; the number of a field is its position in the class. Classes and fields
may be renamed. A new field goes to the end and has a default. The meaning of a tag or a position never changes: a class
that needs a change gets a new tag (tests/mavcg/specs/test_serialize.py lists all tags).
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any, TypeVar

from mavcg.errors import MavcgError

FORMAT = 1  # version of the format that new libraries' notes have
_FLOAT = "float"
_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

Class = TypeVar("Class", bound=type)
_CLASSES: dict[str, type] = {}
_TAGS: dict[type, str] = {}


def spec_format(tag: str) -> Callable[[Class], Class]:
    """Return a decorator that registers a frozen dataclass or an enum under a permanent tag.

    A module that is loaded again (importlib.reload, or its folder imported under another name) replaces its class.
    """

    def register(kind: Class) -> Class:
        known = _CLASSES.get(tag, kind)
        assert tag != _FLOAT and _source(known) == _source(kind), f"two classes with the tag '{tag}'"
        _CLASSES[tag], _TAGS[kind] = kind, tag
        return kind

    return register


def _source(kind: type) -> tuple[str, str]:
    """Return (name of the class, name of its module without the package)."""
    return kind.__qualname__, kind.__module__.removeprefix("mavcg.")


def tagged_classes() -> Mapping[str, type]:
    """Return all registered classes of imported modules, by tag."""
    return _CLASSES


def to_json(value: Any) -> Any:
    """Return a spec, or part of a spec, as a JSON value. Raises: TypeError for a type without a tag."""
    kind = type(value)
    if value is None or kind in (str, int, bool):
        return value
    if kind is float:
        return value if math.isfinite(value) else {_FLOAT: str(value)}
    if kind is tuple:
        return [to_json(item) for item in value]
    tag = _TAGS.get(kind)
    if tag is None:
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} has no tag; add @spec_format to the class")
    if isinstance(value, Enum):
        return {tag: value.value}
    members = [(field, getattr(value, field.name)) for field in fields(value)]
    while members and _is_default(*members[-1]):
        members.pop()
    return {tag: [to_json(item) for _, item in members]}


def _is_default(field: "Field[Any]", value: Any) -> bool:
    return field.default is not MISSING and type(field.default) is type(value) and bool(field.default == value)


def to_text(value: Any) -> str:
    """Return to_json as canonical text, equal for equal specs: without blanks, floats with the fewest digits."""
    return json.dumps(to_json(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def from_json(value: Any) -> Any:
    """Return the spec, or part of a spec, that to_json converted to this value.

    Raises: ValueError, TypeError or KeyError for any other value.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list):
        return tuple(from_json(item) for item in value)
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError("an object of a spec has one key, a tag")
    ((tag, content),) = value.items()
    if tag == _FLOAT:
        return _NON_FINITE[content]
    kind = class_of(tag)
    if issubclass(kind, Enum):
        return kind(content)
    if not isinstance(content, list):
        raise ValueError(f"'{tag}' has an array of fields")
    return kind(*(from_json(item) for item in content))


def class_of(tag: str) -> type:
    """Return the class with a tag. Raises: ValueError for an unknown tag."""
    if tag not in _CLASSES:
        raise ValueError(f"'{tag}' is not a tag of a spec")
    return _CLASSES[tag]


def check_format(version: Any, location: str) -> None:
    """Check a note's version of the format. Raises: MavcgError for a version that this mavcg cannot read."""
    if version != FORMAT:
        raise MavcgError(
            f"{location}: its specs are in format {version}, and this mavcg reads format {FORMAT}; build the library "
            "again, or use the mavcg that built it"
        )
