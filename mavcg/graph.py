"""The graph of a model: immutable values, printed and parsed as text.

Every tensor is a dense array of its logical shape, row-major. Operators over images see N, H, W, C in this order: an
importer of a format with another order puts transposes around them, and passes take out what cancels. What the
operators mean is in mavcg.ops; mavcg.ops.verify says whether a graph keeps to it.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError

Array = NDArray[Any]
AttrValue = bool | int | float | str | tuple[int, ...] | tuple[float, ...]

DTYPES: Mapping[str, np.dtype[Any]] = MappingProxyType({
    "f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "f64": np.dtype(np.float64), "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8), "i16": np.dtype(np.int16), "u16": np.dtype(np.uint16), "i32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32), "i64": np.dtype(np.int64), "u64": np.dtype(np.uint64), "bool": np.dtype(np.bool_),
})  # fmt: skip
_NAME_OF_DTYPE = {dtype: name for name, dtype in DTYPES.items()}
INLINE_ELEMENTS = 8  # constants of at most so many elements are printed in full


@dataclass(frozen=True)
class TensorType:
    """dtype: a key of DTYPES; shape: every dimension known and at least 0."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def elements(self) -> int:
        """How many elements it has; 1 for a scalar."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def bytes(self) -> int:
        """Size of a dense array of this type, in bytes."""
        return self.elements * DTYPES[self.dtype].itemsize


def type_of(array: Array) -> TensorType:
    """The type of a NumPy array. Raises: MavcgError for an element type that graphs do not have."""
    name = _NAME_OF_DTYPE.get(array.dtype.newbyteorder("="))
    if name is None:
        raise MavcgError(f"a constant of type {array.dtype}: not supported; there are {', '.join(DTYPES)}")
    return TensorType(name, tuple(int(d) for d in array.shape))


@dataclass(frozen=True)
class Node:
    """One operator at work.

    inputs: tensor names, "" for an optional input that is not there. attrs: sorted by name, all that the operator has,
    with its defaults filled in (mavcg.ops.make_node does both). origin: the node of the user's file that it
    comes from, for messages and reports.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: tuple[tuple[str, AttrValue], ...] = ()
    origin: str = ""

    def attr(self, name: str) -> Any:
        """The value of an attribute. Raises: KeyError for one that the operator does not have."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(f"{self.op} has no attribute {name}")

    @property
    def output(self) -> str:
        """The only output."""
        (name,) = self.outputs
        return name

    def with_attrs(self, **changed: AttrValue) -> "Node":
        """The same node with some attributes set anew."""
        return replace(self, attrs=tuple(sorted((dict(self.attrs) | changed).items())))

    def with_inputs(self, names: Mapping[str, str]) -> "Node":
        """The same node reading other tensors where `names` says so."""
        return replace(self, inputs=tuple(names.get(i, i) for i in self.inputs))


@dataclass(frozen=True)
class Graph:
    """A model: nodes in an order in which each reads only what is there already.

    inputs, outputs: tensor names. types: of every tensor, constants too. constants: arrays that nobody writes to.
    labels: what the user's file calls the inputs and outputs, where that differs.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Array] = field(default_factory=dict)

    def producers(self) -> dict[str, Node]:
        """The node that makes each tensor."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def readers(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that read each tensor, once each, in order; a graph's output counts in `outputs` only."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name:
                    found.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.types[name].shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        lines = [f"graph {_word(self.name)} {{"]
        lines += [f"  input %{_word(name)}: {self.types[name]}" for name in self.inputs]
        for name in sorted(self.constants):
            lines.append(f"  const %{_word(name)}: {self.types[name]} = {_constant_text(self.constants[name])}")
        lines += [f"  {_node_text(node, self.types)}" for node in self.nodes]
        lines.append("  return " + ", ".join(f"%{_word(name)}" for name in self.outputs))
        return "\n".join([*lines, "}", ""])

    @staticmethod
    def parse(text: str, constants: Mapping[str, Array] = MappingProxyType({})) -> "Graph":
        """The graph that was printed as `text`.

        constants: the arrays of those constants that are too long to stand in the text, by name; each is checked
        against the digest there. Raises: MavcgError with line and column.
        """
        return _Parser(text, constants).graph()


def fresh_name(taken: Iterable[str], stem: str) -> str:
    """`stem`, or the first of stem.1, stem.2, ... that is not taken."""
    used = set(taken)
    name, number = stem, 0
    while name in used:
        number += 1
        name = f"{stem}.{number}"
    return name


def pruned(graph: Graph) -> Graph:
    """The graph without nodes, constants and types that no output needs; its inputs stay."""
    needed = set(graph.outputs)
    nodes = []
    for node in reversed(graph.nodes):
        if any(name in needed for name in node.outputs):
            nodes.append(node)
            needed.update(name for name in node.inputs if name)
    kept = needed | set(graph.inputs) | {name for node in nodes for name in node.outputs if name}
    return replace(
        graph,
        nodes=tuple(reversed(nodes)),
        types={name: t for name, t in graph.types.items() if name in kept},
        constants={name: a for name, a in graph.constants.items() if name in kept},
    )


def digest(array: Array) -> str:
    """What stands for a long constant in the text: SHA-256 of its bytes, row-major and little-endian, shortened."""
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(data.tobytes()).hexdigest()[:24]


_PLAIN = re.compile(r"[A-Za-z0-9_.:/$@+-]+")


def _word(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _constant_text(array: Array) -> str:
    if array.size > INLINE_ELEMENTS:
        return f"sha256:{digest(array)}"
    return "{" + ", ".join(_scalar_text(v) for v in array.reshape(-1).tolist()) + "}"


def _scalar_text(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _attr_text(value: AttrValue) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_scalar_text(v) for v in value) + "]"
    return _scalar_text(value)


def _node_text(node: Node, types: Mapping[str, TensorType]) -> str:
    outputs = ", ".join(f"%{_word(n)}: {types[n]}" if n else "_" for n in node.outputs)
    inputs = ", ".join(f"%{_word(n)}" if n else "_" for n in node.inputs)
    attrs = "".join(f" {key}={_attr_text(value)}" for key, value in node.attrs)
    origin = f" # {_attr_text(node.origin)}" if node.origin else ""
    return f"{outputs} = {node.op}({inputs}){attrs}{origin}"


_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<number>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|inf|nan)(?![\w.]))"""
    r"""|(?P<type>[a-z]+\d*\[[\d,]*\])|(?P<word>[A-Za-z0-9_.:/$@+-]+)|(?P<mark>[%{}()\[\]=,:#]))"""
)
_TYPE = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")


class _Parser:
    """A recursive descent over the tokens of one text; `at` is a place in it."""

    def __init__(self, text: str, constants: Mapping[str, Array]) -> None:
        self.text = text
        self.given = constants
        self.at = 0

    def fail(self, what: str) -> MavcgError:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        return MavcgError(f"graph text: line {line}, column {column}: {what}; see `mavcg inspect` for the form")

    def next(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.at)
        if match is None or match.lastgroup is None:
            raise self.fail("a character that starts nothing" if self.text[self.at :].strip() else "the text ends here")
        self.at = match.end()
        return match.lastgroup, match[match.lastgroup]

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return match[match.lastgroup] if match and match.lastgroup else ""

    def take(self, wanted: str) -> None:
        found = self.peek()
        if found != wanted:
            raise self.fail(f"'{found or 'the end'}' where '{wanted}' should be")
        self.next()

    def name(self) -> str:
        """A name after its %: a plain run of characters, or a string."""
        if self.text.startswith('"', self.at):
            return self.string()
        match = _PLAIN.match(self.text, self.at)
        if match is None:
            raise self.fail("a name should be here")
        # A colon at the end belongs to the type that follows.
        word = match[0].rstrip(":")
        self.at += len(word)
        return word

    def tensor(self) -> str:
        if self.peek() == "_":
            self.next()
            return ""
        self.take("%")
        return self.name()

    def string(self) -> str:
        kind, text = self.next()
        if kind != "string":
            raise self.fail(f"'{text}' where a string should be")
        return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text[1:-1])

    def type(self) -> TensorType:
        kind, text = self.next()
        match = _TYPE.fullmatch(text)
        if kind != "type" or match is None or match[1] not in DTYPES:
            raise self.fail(f"'{text}' where a type such as f32[1,3] should be")
        return TensorType(match[1], tuple(int(d) for d in match[2].split(",") if d))

    def scalar(self) -> bool | int | float:
        kind, text = self.next()
        if text in ("true", "false"):
            return text == "true"
        if kind != "number":
            raise self.fail(f"'{text}' where a number should be")
        return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)

    def list_to(self, end: str) -> tuple[Any, ...]:
        values = []
        while self.peek() != end:
            values.append(self.scalar())
            if self.peek() != end:
                self.take(",")
        self.take(end)
        return tuple(values)

    def value(self) -> AttrValue:
        if self.peek().startswith('"'):
            return self.string()
        if self.peek() == "[":
            self.take("[")
            return self.list_to("]")
        return self.scalar()

    def constant(self, name: str, tensor: TensorType) -> Array:
        if self.peek() == "{":
            self.take("{")
            values = self.list_to("}")
            if len(values) != tensor.elements:
                raise self.fail(f"constant %{name}: {len(values)} elements for {tensor}")
            return np.array(values, dtype=DTYPES[tensor.dtype]).reshape(tensor.shape)
        _, text = self.next()
        array: Array | None = self.given.get(name)
        if array is None:
            raise self.fail(f"constant %{name}: its array is not in the text and was not given")
        if text != f"sha256:{digest(array)}" or type_of(array) != tensor:
            raise self.fail(f"constant %{name}: the array given is not the one that was printed")
        return array

    def node(self, types: dict[str, TensorType]) -> Node:
        outputs = []
        while True:
            name = self.tensor()
            outputs.append(name)
            if name:
                self.take(":")
                types[name] = self.type()
            if self.peek() != ",":
                break
            self.take(",")
        self.take("=")
        _, op = self.next()
        self.take("(")
        inputs = []
        while self.peek() != ")":
            inputs.append(self.tensor())
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        attrs: dict[str, AttrValue] = {}
        line_end = self.text.find("\n", self.at)
        while (match := _TOKEN.match(self.text, self.at)) and match.start(match.lastgroup or 0) < line_end:
            if match["mark"] == "#":
                break
            _, key = self.next()
            self.take("=")
            attrs[key] = self.value()
        origin = ""
        if self.peek() == "#":
            self.take("#")
            origin = self.string()
        return Node(op, tuple(inputs), tuple(outputs), tuple(sorted(attrs.items())), origin)

    def graph(self) -> Graph:
        self.take("graph")
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        name = self.name()
        self.take("{")
        inputs: list[str] = []
        types: dict[str, TensorType] = {}
        constants: dict[str, Array] = {}
        nodes: list[Node] = []
        while self.peek() != "return":
            if self.peek() in ("input", "const"):
                _, what = self.next()
                tensor = self.tensor()
                self.take(":")
                types[tensor] = self.type()
                if what == "input":
                    inputs.append(tensor)
                else:
                    self.take("=")
                    constants[tensor] = self.constant(tensor, types[tensor])
            else:
                nodes.append(self.node(types))
        self.take("return")
        outputs = [self.tensor()]
        while self.peek() == ",":
            self.take(",")
            outputs.append(self.tensor())
        self.take("}")
        return Graph(name, tuple(inputs), tuple(outputs), tuple(nodes), types, constants)


def check_names(names: Sequence[str], what: str) -> None:
    """Raises: MavcgError where a name comes twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise MavcgError(f"{what}: %{name} comes twice; every tensor is made once")
        seen.add(name)
