"""A kernel's spec from what repr() printed of it, as a library's note keeps it: so that its code can be made again."""

import ast
import re
import sys
from enum import Enum
from functools import cache
from typing import Any

from mavcg.errors import MavcgError
from mavcg.kernel import KernelSpec, View
from mavcg.kernels.registry import emitters

_NUMBERS = {"inf": float("inf"), "nan": float("nan")}
_MEMBER = re.compile(r"<(\w+)\.(\w+): [^<>]*>")  # of an enumeration, as repr prints it


@cache
def _classes() -> dict[str, type]:
    """Every frozen type that a spec may be made of, by name: those of the modules that define specs."""
    found: dict[str, type] = {"View": View}
    for spec in emitters():
        for name, value in vars(sys.modules[spec.__module__]).items():
            if isinstance(value, type) and (hasattr(value, "__dataclass_fields__") or issubclass(value, Enum)):
                found[name] = value
    return found


def spec_from_text(text: str, place: str = "spec") -> KernelSpec:
    """The spec whose repr is `text`. Nothing in it is run: it may name the types of specs, and hold constants.

    Raises: MavcgError for any other text.
    """
    try:
        made = _made(ast.parse(_MEMBER.sub(r"\1.\2", text), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise MavcgError(
            f"{place}: '{text[:60]}' is no kernel's spec of this mavcg ({error}); build the library again"
        ) from error
    if not isinstance(made, KernelSpec):
        raise MavcgError(f"{place}: '{text[:60]}' is no kernel's spec; build the library again")
    return made


def _made(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(_made(one) for one in node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_made(node.operand)
    if isinstance(node, ast.Name):
        return _NUMBERS[node.id]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        kind = _classes()[node.value.id]
        if issubclass(kind, Enum):
            return kind[node.attr]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        return _classes()[node.func.id](**{word.arg: _made(word.value) for word in node.keywords if word.arg})
    raise ValueError(f"{type(node).__name__} has no place in a spec")
