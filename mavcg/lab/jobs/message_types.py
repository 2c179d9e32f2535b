"""The types of messages: which classes a type has in it, and whether a value is of a type."""

import collections.abc
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import FunctionType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

# Functions that a message may name: those that pack constants, which recipes hold.
_FUNCTION_MODULES = "mavcg.kernels."
_FUNCTION_NAMES = ("pack", "_pack")
_NUMBERS: dict[type, tuple[type, ...]] = {
    int: (int, np.integer),
    float: (float, int, np.floating, np.integer),
    bool: (bool, np.bool_),
}


def type_name(kind: Any) -> str:
    """Return the name of a class, with its module; of another annotation its text."""
    return f"{kind.__module__}:{kind.__qualname__}" if isinstance(kind, type) and not get_args(kind) else str(kind)


class MessageClasses:
    """The classes that may occur in messages of a type."""

    def __init__(self, expected: Any) -> None:
        self._classes = _classes_of(expected)

    def object(self, name: Any) -> tuple[type, Mapping[str, Any]]:
        """Return the class of this name and the types of its fields. Raises: KeyError if it is not expected."""
        made = self._classes[name]
        if issubclass(made, Enum):
            raise KeyError(name)
        return made, field_types(cast(Any, made))

    def enum(self, name: Any) -> type[Enum]:
        """Return the enumeration of this name. Raises: KeyError if it is not expected."""
        made = self._classes[name]
        if not issubclass(made, Enum):
            raise KeyError(name)
        return made

    def function(self, name: Any) -> Any:
        """Return the function of this name that packs constants. Raises: KeyError for any other."""
        module, _, function = str(name).partition(":")
        found = vars(sys.modules[module]).get(function) if module.startswith(_FUNCTION_MODULES) else None
        if not isinstance(found, FunctionType) or not function.startswith(_FUNCTION_NAMES):
            raise KeyError(name)
        return found


@cache
def field_types(made: Any) -> Mapping[str, Any]:
    """Return the types of the fields of a dataclass or a named tuple, in their order."""
    hints = get_type_hints(made)
    names = [f.name for f in fields(made)] if is_dataclass(made) else getattr(made, "_fields")  # noqa: B009
    return {name: hints[name] for name in names}


@cache
def _classes_of(expected: Any) -> Mapping[str, type]:
    """Return the classes that occur in a type, in the fields of these, and those that are derived from them."""
    found: dict[str, type] = {}
    todo = [expected]
    while todo:
        kind = todo.pop()
        todo += [each for each in get_args(kind) if each is not Ellipsis and not isinstance(each, str | list)]
        if not isinstance(kind, type) or get_args(kind) or type_name(kind) in found:
            continue
        if is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
            found[type_name(kind)] = kind
            todo += [*field_types(kind).values(), *kind.__subclasses__()]
        elif issubclass(kind, Enum):
            found[type_name(kind)] = kind
    return found


def fits(value: Any, expected: Any) -> bool:
    """Return True if a value is of a type. Fields of objects were compared when they were made."""
    origin, arguments = get_origin(expected), get_args(expected)
    if expected is Any or isinstance(expected, TypeVar) or expected is collections.abc.Hashable:
        return True
    if expected is None or expected is NoneType:
        return value is None
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in arguments)
    if origin is Literal:
        return value in arguments
    if origin is np.ndarray:
        return isinstance(value, np.ndarray)
    if origin is collections.abc.Callable or expected is collections.abc.Callable:
        return isinstance(value, FunctionType)
    if origin is tuple:
        return isinstance(value, tuple) and _members_fit(value, arguments)
    if _derives(origin, Mapping):
        key, item = arguments
        return isinstance(value, dict) and all(fits(k, key) and fits(v, item) for k, v in value.items())
    if _derives(origin, collections.abc.Set):
        return isinstance(value, frozenset) and all(fits(each, arguments[0]) for each in value)
    if _derives(origin, Sequence):
        kinds = (list,) if origin is list else (tuple, list)
        return isinstance(value, kinds) and all(fits(each, arguments[0]) for each in value)
    return isinstance(expected, type) and isinstance(value, _NUMBERS.get(expected, (expected,)))


def _derives(origin: Any, base: type) -> bool:
    """Return True if the origin of a type is a class that is derived from `base`."""
    return isinstance(origin, type) and issubclass(origin, base)


def _members_fit(value: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return all(fits(each, arguments[0]) for each in value)
    return len(value) == len(arguments) and all(map(fits, value, arguments))
