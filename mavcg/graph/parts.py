"""The parts of a graph, tensor types and nodes, and the printer of graphs as text, for people and for dumps.

    graph name {
      input %x: f32[1,4,4,2]
      input %h: f32[1,8]
      state %h = %h_next                    # read by a run; what the run left in %h_next is read by the next one
      const %w: f32[8,1,1,2] = sha256:0123456789abcdef01234567
      const %half: f32[] = {0.5}
      %conv: f32[1,4,4,8] = conv2d(%x, %w, _, _) act="" act_args=[] ... # "what the user's file calls it"
      count %kept axis=0 = %n               # of %kept a run makes the first %n indices of dimension 0
      return %conv, %kept, %n
    }

_ marks an absent input. Names with special characters are quoted. parser.py reads the text; mavcg.graph re-exports
the parts.
"""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError

Array = NDArray[Any]
AttrValue = bool | int | float | str | tuple[int, ...] | tuple[float, ...]

DTYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "f32": np.dtype(np.float32),
        "f16": np.dtype(np.float16),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "f64": np.dtype(np.float64),
        "i8": np.dtype(np.int8),
        "u8": np.dtype(np.uint8),
        "i16": np.dtype(np.int16),
        "u16": np.dtype(np.uint16),
        "i32": np.dtype(np.int32),
        "u32": np.dtype(np.uint32),
        "i64": np.dtype(np.int64),
        "u64": np.dtype(np.uint64),
        "bool": np.dtype(np.bool_),
    }
)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return True for NumPy's types of floats and bf16, of which NumPy knows no kind."""
    return dtype.kind == "f" or dtype == DTYPES["bf16"]


_NAME_OF_DTYPE = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class TensorType:
    """The type of a tensor. dtype: a key of DTYPES. shape: dimensions, all known and at least 0."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size of a dense array of this type, in bytes."""
        return self.elements * DTYPES[self.dtype].itemsize


def type_of(array: Array) -> TensorType:
    """Return the type of a NumPy array. Raises: MavcgError for an unsupported element type."""
    name = _NAME_OF_DTYPE.get(array.dtype.newbyteorder("="))
    if name is None:
        raise MavcgError(f"a constant of type {array.dtype}: not supported; there are {', '.join(DTYPES)}")
    return TensorType(name, tuple(int(d) for d in array.shape))


@dataclass(frozen=True)
class Node:
    """A node of a graph: one application of an operator.

    inputs: tensor names, "" for an absent optional input. attrs: all attributes of the operator, sorted by name,
    including defaults (graph/ops/nodes.py fills them in). origin: the node of the user's file that it comes
    from, for messages and reports.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: tuple[tuple[str, AttrValue], ...] = ()
    origin: str = ""

    def attr(self, name: str) -> Any:
        """Return the value of an attribute. Raises: KeyError for an unknown attribute."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(f"{self.op} has no attribute {name}")

    @property
    def output(self) -> str:
        """The node's only output."""
        (name,) = self.outputs
        return name

    def with_attrs(self, **changed: AttrValue) -> "Node":
        """Return the node with some attributes changed."""
        return replace(self, attrs=tuple(sorted((dict(self.attrs) | changed).items())))

    def with_inputs(self, names: Mapping[str, str]) -> "Node":
        """Return the node with inputs renamed by `names`, other inputs stay; the node itself if none is renamed."""
        inputs = tuple([names.get(i, i) for i in self.inputs])
        return self if inputs == self.inputs else replace(self, inputs=inputs)


@dataclass(frozen=True)
class GraphState:
    """A tensor that lives between runs: in `input` a run reads what the run before it left in `output`.

    input, output: names of an input and an output of the graph, of one type; in the graph of one length of a bounded
    dimension the output may be longer, as a cache that grows is. initial: the value before the first run; None: zeros.
    """

    input: str
    output: str
    initial: Array | None = field(default=None, compare=False)


@dataclass(frozen=True)
class GraphCount:
    """An output of whose length along an axis each run decides: its type has the longest.

    output: name of the graph's output. axis: counted from 0. count: name of another output, an i64 scalar that the
    caller does not see: the number of indices along the axis that the run has made, from the first one on.
    """

    output: str
    axis: int
    count: str


INLINE_ELEMENTS = 8  # maximum elements of a constant that is printed in full


class Fields(NamedTuple):
    """The fields of a Graph, in the same order."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Array]
    states: tuple[GraphState, ...] = ()
    counts: tuple[GraphCount, ...] = ()


def text_of(graph: Fields) -> str:
    """Return the graph as text, with constants sorted by name and nodes in order."""
    lines = [f"graph {_word(graph.name)} {{"]
    lines += [f"  input %{_word(name)}: {graph.types[name]}" for name in graph.inputs]
    lines += [_state_text(state) for state in graph.states]
    for name in sorted(graph.constants):
        lines.append(f"  const %{_word(name)}: {graph.types[name]} = {_constant_text(graph.constants[name])}")
    lines += [f"  {_node_text(node, graph.types)}" for node in graph.nodes]
    lines += [f"  count %{_word(c.output)} axis={c.axis} = %{_word(c.count)}" for c in graph.counts]
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


def _state_text(state: GraphState) -> str:
    initial = "" if state.initial is None else f" from {_constant_text(state.initial)}"
    return f"  state %{_word(state.input)} = %{_word(state.output)}{initial}"


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
    match value:
        case str():
            return _quote(value)
        case tuple():
            return "[" + ", ".join(scalar_text(v) for v in value) + "]"
    return scalar_text(value)


def _node_text(node: Node, types: Mapping[str, TensorType]) -> str:
    outputs = ", ".join(f"%{_word(n)}: {types[n]}" if n else "_" for n in node.outputs)
    inputs = ", ".join(f"%{_word(n)}" if n else "_" for n in node.inputs)
    attrs = "".join(f" {key}={_attr_text(value)}" for key, value in node.attrs)
    origin = f" # {_attr_text(node.origin)}" if node.origin else ""
    return f"{outputs} = {node.op}({inputs}){attrs}{origin}"
