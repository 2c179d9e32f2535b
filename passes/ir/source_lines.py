"""Finds the line of the program's source that IR text was made from, by the debug information in the text.

The text need not parse: its lines name metadata by number, and the metadata are lines of their own.
"""

import re

_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)$", re.MULTILINE)
_DEBUG = re.compile(r"!dbg !(\d+)")


def line_of_code(text: str, number: int) -> str:
    """Return "FILE:LINE" of the code at a line of IR text (from 1), "" if nothing tells it.

    An instruction without a location has that of the next one in its function that has one, else its function's.
    """
    lines = text.split("\n")
    start = next((at for at in range(min(number, len(lines)) - 1, -1, -1) if lines[at].startswith("define")), None)
    if start is None:
        return ""
    end = next((at for at in range(start, len(lines)) if lines[at] == "}"), len(lines) - 1)
    if number - 1 > end:
        return ""
    nodes = _nodes(text)
    for line in (*lines[number - 1 : end], lines[start]):
        if (named := _DEBUG.search(line)) and (place := _place(named[1], nodes)):
            return place
    return ""


def line_of_function(text: str, name: str) -> str:
    """Return "FILE:LINE" where a function of IR text is defined in the source, "" if nothing tells it."""
    head = re.search(rf'^define [^\n]*@"?{re.escape(name)}"?\([^\n]*!dbg !(\d+)', text, re.MULTILINE)
    return _place(head[1], _nodes(text)) if head else ""


def enclosing_function(text: str, number: int) -> str:
    """Return the name of the function at a line of IR text (from 1), "" if there is none."""
    head = ""
    for line in text.split("\n")[:number]:
        head = line if line.startswith(("define", "declare")) else "" if line == "}" else head
    named = re.search(r'@("[^"]*"|[-a-zA-Z$._0-9]+)\(', head)
    return named[1].strip('"') if named else ""


def _nodes(text: str) -> dict[str, tuple[str, str]]:
    """Return the debug metadata of IR text: number -> kind, such as DILocation, and fields."""
    return {node[1]: (node[2], node[3]) for node in _NODE.finditer(text)}


def _place(number: str, nodes: dict[str, tuple[str, str]]) -> str:
    """Return "FILE:LINE" of a location or a function; the file is that of the nearest scope which names one."""
    kind, fields = nodes.get(number, ("", ""))
    line = re.search(r"\bline: (\d+)", fields)
    seen: set[str] = set()
    while number in nodes and number not in seen:
        seen.add(number)
        kind, fields = nodes[number]
        if kind == "DIFile":
            name = re.search(r'filename: "([^"]*)"', fields)
            return f"{name[1]}:{line[1]}" if name and line else ""
        up = re.search(r"\bfile: !(\d+)", fields) or re.search(r"\bscope: !(\d+)", fields)
        number = up[1] if up else ""
    return ""
