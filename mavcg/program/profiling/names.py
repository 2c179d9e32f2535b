"""Shortens C++ names for tables and pictures so that they stay distinct."""

import re

from mavcg.program.profiling.demangle import without_parameters


def short_names(names: list[str], limit: int) -> list[str]:
    """Shorten names to `limit` characters: remove parameters, then template arguments, then scopes.

    Names that become equal (overloads) get a number.
    """
    short = [shorten(_without_template_arguments(without_parameters(name) or name, limit), limit) for name in names]
    seen: dict[str, int] = {}
    distinct = []
    for name in short:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if short.count(name) == 1 else f"{shorten(name, limit - 4)} #{seen[name]}")
    return distinct


def _without_template_arguments(name: str, limit: int) -> str:
    """Shorten `a<b<c>, d>::f` to `a<…>::f` if it is over the limit, then remove leading scopes: `…::f`."""
    if len(name) <= limit or not _is_balanced(name):
        return name
    while "<" in name:  # innermost first; a control character replaces what is removed, until all is done
        name = re.sub(r"<[^<>]*>", "\x01", name)
    name = name.replace("\x01", "<…>")
    while len(name) > limit and "::" in name.removeprefix("…::"):
        name = "…::" + name.removeprefix("…::").partition("::")[2]
    return name


def shorten(text: str, limit: int) -> str:
    """Replace the middle of a text by … if it is too long; names differ at both ends."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def _is_balanced(name: str) -> bool:
    """True if every < opens template arguments that a > closes: false for operator<, operator-> and comparisons."""
    depth = 0
    for char in name:
        depth += (char == "<") - (char == ">")
        if depth < 0:
            return False
    return depth == 0
