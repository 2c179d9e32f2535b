"""Printer of the text format of graphs, for people and for dumps; parser.py reads it.

    graph name {
      input %x: f32[1,4,4,2]
      const %w: f32[8,1,1,2] = sha256:0123456789abcdef01234567
      const %half: f32[] = {0.5}
      %conv: f32[1,4,4,8] = conv2d(%x, %w, _, _) act="" act_args=[] ... # "what the user's file calls it"
      return %conv
    }

_ marks an absent input. Names with special characters are quoted.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from mavcg.graph.parts import Array, AttrValue, Node, TensorType

INLINE_ELEMENTS = 8  # maximum elements of a constant that is printed in full


class Fields(NamedTuple):
    """The fields of a Graph, in the same order."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Array]


def text_of(graph: Fields) -> str:
    """Return the graph as text, with constants sorted by name and nodes in order."""
    lines = [f"graph {_word(graph.name)} {{"]
    lines += [f"  input %{_word(name)}: {graph.types[name]}" for name in graph.inputs]
    for name in sorted(graph.constants):
        lines.append(f"  const %{_word(name)}: {graph.types[name]} = {_constant_text(graph.constants[name])}")
    lines += [f"  {_node_text(node, graph.types)}" for node in graph.nodes]
    lines.append("  return " + ", ".join(f"%{_word(name)}" for name in graph.outputs))
    return "\n".join([*lines, "}", ""])


def digest(array: Array) -> str:
    """Return the digest that is printed for a long constant: shortened SHA-256 of its row-major little-endian bytes."""
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(data.tobytes()).hexdigest()[:24]


# Names that need no quotes. A colon at the end belongs to the type that follows.
PLAIN = re.compile(r"[A-Za-z0-9_.:/$@+-]*[A-Za-z0-9_./$@+-]")


def _word(name: str) -> str:
    return name if PLAIN.fullmatch(name) else _quote(name)


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _constant_text(array: Array) -> str:
    if array.size > INLINE_ELEMENTS:
        return f"sha256:{digest(array)}"
    return "{" + ", ".join(scalar_text(v) for v in array.reshape(-1).tolist()) + "}"


def scalar_text(value: bool | int | float) -> str:
    """Return a number in the text format."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _attr_text(value: AttrValue) -> str:
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(scalar_text(v) for v in value) + "]"
    return scalar_text(value)


def _node_text(node: Node, types: Mapping[str, TensorType]) -> str:
    outputs = ", ".join(f"%{_word(n)}: {types[n]}" if n else "_" for n in node.outputs)
    inputs = ", ".join(f"%{_word(n)}" if n else "_" for n in node.inputs)
    attrs = "".join(f" {key}={_attr_text(value)}" for key, value in node.attrs)
    origin = f" # {_attr_text(node.origin)}" if node.origin else ""
    return f"{outputs} = {node.op}({inputs}){attrs}{origin}"
