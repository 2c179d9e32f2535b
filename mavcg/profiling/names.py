"""C++ names cut to a length that fits a table or a picture, and still told apart."""

import re

from mavcg.profiling.demangle import without_parameters


def short_names(names: list[str], limit: int) -> list[str]:
    """Names of at most `limit` characters that stay distinct: without parameters, then template arguments, then scopes.

    Two functions that would read alike (overloads) get a number.
    """
    short = [shortened(_without_template_arguments(without_parameters(name) or name, limit), limit) for name in names]
    seen: dict[str, int] = {}
    distinct = []
    for name in short:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if short.count(name) == 1 else f"{shortened(name, limit - 4)} #{seen[name]}")
    return distinct


def _without_template_arguments(name: str, limit: int) -> str:
    """`a<b<c>, d>::f` -> `a<…>::f` for a name over the limit, then without leading scopes: `…::f`."""
    if len(name) <= limit or not _balanced(name):
        return name
    while "<" in name:  # innermost first; a control character stands for what is left out until all is done
        name = re.sub(r"<[^<>]*>", "\x01", name)
    name = name.replace("\x01", "<…>")
    while len(name) > limit and "::" in name.removeprefix("…::"):
        name = "…::" + name.removeprefix("…::").partition("::")[2]
    return name


def shortened(text: str, limit: int) -> str:
    """The text with its middle left out where it is too long: both ends tell functions apart."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def _balanced(name: str) -> bool:
    """Whether every < opens template arguments that a > closes: not so with operator<, operator-> and comparisons."""
    depth = 0
    for char in name:
        depth += (char == "<") - (char == ">")
        if depth < 0:
            return False
    return depth == 0
