"""Print an XGraph as text, and parse it.

    xgraph net {
      %image = input() shape=[1, 8, 8, 3] radix=6
      %conv1 = conv(%image) shape=[1, 8, 8, 4] kernel=[3, 3] pads=[1, 1, 1, 1] act="relu" radix=4 weight_radix=[7]
        parameters=sha256:0123456789abcdef01234567
      return %conv1
    }

A node is one line (here two). Fields at their default are left out; values are JSON. Parameters and graphs of host
nodes appear as digests, and are passed to the parser.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Any

from mavcg.accelerators.shapes import check_xgraph
from mavcg.accelerators.xgraph import CONVOLUTIONS, Parameters, XGraph, XNode
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.parts import digest

_HEAD = re.compile(r"xgraph (\S+) \{")
_LINE = re.compile(r"  %(\S+) = (\w+)\(([^()]*)\)(.*)")
_KEY = re.compile(r" (\w+)=")
_DIGESTS = ("parameters", "graph")
_FIELDS = {f.name: f for f in fields(XNode) if f.name not in ("name", "kind", "inputs")}
_SIGN = re.compile(r"sha256:[0-9a-f]{24}")
MOST_DIGITS = 24  # maximum digits of a number


def text_of(graph: XGraph) -> str:
    """Return the graph as text, which ends with a newline."""
    lines = [f"xgraph {graph.name} {{"]
    for node in graph.nodes:
        line = f"  %{node.name} = {node.kind}({', '.join('%' + name for name in node.inputs)})"
        for name, f in _FIELDS.items():
            value = getattr(node, name)
            if f.default is MISSING or value != f.default:
                line += f" {name}={json.dumps(value)}"
        if node.name in graph.parameters:
            line += f" parameters={_parameters_digest(graph.parameters[node.name])}"
        if node.name in graph.hosts:
            line += f" graph={_graph_digest(graph.hosts[node.name])}"
        lines.append(line)
    lines.append("  return " + ", ".join(f"%{name}" for name in graph.outputs))
    return "\n".join([*lines, "}", ""])


def _parameters_digest(parameters: Parameters) -> str:
    joined = digest(parameters.weights) + digest(parameters.bias)
    return "sha256:" + hashlib.sha256(joined.encode()).hexdigest()[:24]


def _graph_digest(graph: Graph) -> str:
    return "sha256:" + hashlib.sha256(str(graph).encode()).hexdigest()[:24]


def parse_xgraph(
    text: str,
    parameters: Mapping[str, Parameters] = MappingProxyType({}),
    hosts: Mapping[str, Graph] = MappingProxyType({}),
) -> XGraph:
    """Return the graph that was printed as `text`, checked.

    parameters, hosts: parameters and graphs of the nodes that have them, by name; each is checked against its digest.
    Raises: MavcgError naming the line.
    """
    lines = text.split("\n")
    head = _HEAD.fullmatch(lines[0])
    if head is None:
        raise _fail(1, f"is {lines[0][:60]!r}, not 'xgraph NAME {{'")
    nodes, kept, graphs = list[XNode](), dict[str, Parameters](), dict[str, Graph]()
    for number, line in enumerate(lines[1:], start=2):
        if line.startswith("  return "):
            break
        node, signs = _node(number, line)
        nodes.append(node)
        if "parameters" in signs:
            kept[node.name] = _field_value(number, node, "parameters", parameters, _parameters_digest, signs)
        if "graph" in signs:
            graphs[node.name] = _field_value(number, node, "graph", hosts, _graph_digest, signs)
        if node.kind in CONVOLUTIONS and "parameters" not in signs:
            raise _fail(number, f"{node.kind} {node.name} has no parameters=sha256:..")
    else:
        raise _fail(len(lines), "the text ends without a line '  return %NAME'")
    if lines[number:] != ["}", ""]:
        raise _fail(number + 1, "a line '}' should end the text")
    outputs = [name.strip() for name in line.removeprefix("  return ").split(",")]
    if not all(re.fullmatch(r"%\S+", name) for name in outputs):
        raise _fail(number, f"is {line[:60]!r}, not '  return %NAME'")
    graph = XGraph(head[1], tuple(nodes), tuple(name[1:] for name in outputs), kept, graphs)
    check_xgraph(graph)
    return graph


def _field_value(
    number: int, node: XNode, field: str, known: Mapping[str, Any], sign: Any, signs: Mapping[str, str]
) -> Any:
    if node.name not in known:
        raise _fail(number, f"the {field} of {node.name} are not part of the text; give them to parse_xgraph")
    if sign(known[node.name]) != signs[field]:
        raise _fail(number, f"the {field} given for {node.name} differ from those that were printed")
    return known[node.name]


def _fail(number: int, wrong: str) -> MavcgError:
    return MavcgError(f"xgraph text: line {number}: {wrong}; write it as text_of() prints an XGraph")


def _node(number: int, line: str) -> tuple[XNode, dict[str, str]]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise _fail(number, f"{line[:60]!r} is not '  %NAME = KIND(%INPUT, ..) KEY=VALUE ..'")
    inputs = [name.strip() for name in match[3].split(",")] if match[3].strip() else []
    if not all(re.fullmatch(r"%\S+", name) for name in inputs):
        raise _fail(number, f"inputs ({match[3][:60]}) are not written as %NAME, %NAME")
    values, signs = _values(number, match[4])
    if "shape" not in values:
        raise _fail(number, f"{match[1]} has no shape=[..]")
    return XNode(match[1], match[2], tuple(name[1:] for name in inputs), **values), signs


def _values(number: int, text: str) -> tuple[dict[str, Any], dict[str, str]]:
    values, signs, at = dict[str, Any](), dict[str, str](), 0
    while at < len(text):
        key = _KEY.match(text, at)
        if key is None or key[1] in values or key[1] in signs or key[1] not in (*_FIELDS, *_DIGESTS):
            raise _fail(
                number,
                f"{text[at : at + 60]!r} does not begin with a new key; keys are {', '.join(_FIELDS)}",
            )
        if key[1] in _DIGESTS:
            sign = _SIGN.match(text, key.end())
            if sign is None:
                raise _fail(number, f"{key[1]} is not sha256:.. of 24 digits")
            signs[key[1]], at = sign[0], sign.end()
            continue
        try:
            value, at = json.JSONDecoder().raw_decode(text, key.end())
        except (ValueError, RecursionError):
            raise _fail(number, f"{key[1]}={text[key.end() : key.end() + 60]} is not a JSON value") from None
        values[key[1]] = _convert_value(number, key[1], value)
    return values, signs


def _is_number(value: object, real: bool) -> bool:
    return type(value) is int and abs(value) < 1 << 63 or (real and type(value) is float)


def _convert_value(number: int, key: str, value: Any) -> Any:
    """Return a value as the field's type. Raises: MavcgError naming the line."""
    default = _FIELDS[key].default
    if key == "radix":
        good = value is None or _is_number(value, False)
    elif isinstance(default, str):
        good = isinstance(value, str) and "\n" not in value
    elif isinstance(default, int):
        good = _is_number(value, False)
    else:  # a tuple
        sized = default is MISSING or default == () or (isinstance(value, list) and len(value) == len(default))
        good = isinstance(value, list) and sized and all(_is_number(v, key == "act_args") for v in value)
        value = tuple(float(v) if key == "act_args" else v for v in value) if good else value
    if not good:
        raise _fail(number, f"{key}={json.dumps(value)[:60]} has the wrong type for this field")
    return value
