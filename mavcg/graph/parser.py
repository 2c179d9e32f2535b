"""Parser of the text format of graphs (parts.py prints it), for tests and experiments."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph.parts import (
    DTYPES,
    PLAIN,
    Array,
    AttrValue,
    Fields,
    GraphCount,
    GraphState,
    Node,
    TensorType,
    digest,
    is_float,
    scalar_text,
    type_of,
)

DIGITS = 400  # maximum length of a number; the largest f64 in full has 309 digits before its point


def parse_fields(text: str, constants: Mapping[str, Array]) -> Fields:
    """Parse a printed graph into the fields of a Graph.

    constants: arrays of the constants that are too long to be printed, by name; each is checked against its digest in
    the text. Raises: MavcgError with line and column.
    """
    return _Parser(text, constants).graph()


_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\\n]|\\.)*")"""
    r"""|(?P<number>[-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|inf|nan)(?![\w.]))"""
    r"""|(?P<type>[a-z]+[0-9]*\[[0-9,]*\])|(?P<word>[A-Za-z0-9_.:/$@+-]+)|(?P<mark>[%{}()\[\]=,:#]))"""
)
_TYPE = re.compile(r"([a-z]+[0-9]*)\[((?:[0-9]{1,18}(?:,[0-9]{1,18})*)?)\]")


class _Parser:
    """A recursive-descent parser of one text. at: position after the last token; start: position of the last token."""

    def __init__(self, text: str, constants: Mapping[str, Array]) -> None:
        self.text = text
        self.given = constants
        self.at = 0
        self.start = 0
        self.inputs: list[str] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}

    def fail(self, problem: str) -> MavcgError:
        line = self.text.count("\n", 0, self.start) + 1
        column = self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1
        return MavcgError(f"graph text: line {line}, column {column}: {problem}; the form is what a graph prints as")

    def look(self) -> re.Match[str] | None:
        """Return the match of the next token and set `start`; None at the end or if no token matches."""
        match = _TOKEN.match(self.text, self.at)
        if match is None or match.lastgroup is None:
            self.start = len(self.text) - len(self.text[self.at :].lstrip())
            return None
        self.start = match.start(match.lastgroup)
        return match

    def peek(self) -> str:
        match = self.look()
        return match[match.lastgroup] if match and match.lastgroup else ""

    def next(self, expected: str = "") -> tuple[str, str]:
        """Consume the next token and return (kind, text). expected: description of the token, for the error message."""
        match = self.look()
        if match is None or match.lastgroup is None:
            rest = self.text[self.start : self.start + 1]
            problem = f"{rest!r} starts nothing" if rest else "the text ends here"
            raise self.fail(f"{problem}, where {expected} should be" if expected else problem)
        self.at = match.end()
        return match.lastgroup, match[match.lastgroup]

    def take(self, expected: str) -> None:
        _, token = self.next(f"'{expected}'")
        if token != expected:
            raise self.fail(f"{token!r} where '{expected}' should be")

    def word(self, expected: str) -> str:
        kind, text = self.next(expected)
        if kind != "word":
            raise self.fail(f"{text!r} where {expected} should be")
        return text

    def name(self) -> str:
        """Parse a name, plain or quoted."""
        if self.text.startswith('"', self.at):
            return self.string()
        self.start = self.at
        match = PLAIN.match(self.text, self.at)
        if match is None:
            raise self.fail("a name should be here")
        self.at = match.end()
        return match[0]

    def tensor(self) -> str:
        """Parse %name, or _ for an absent tensor."""
        if self.peek() == "_":
            self.next()
            return ""
        self.take("%")
        return self.name()

    def definition(self) -> str:
        """Parse `%name: type` of a new tensor, and return the name."""
        self.take("%")
        name, start = self.name(), self.start
        if name in self.types:
            raise self.fail(f"%{name} is defined twice")
        self.take(":")
        self.types[name] = self.type()
        self.start = start
        return name

    def string(self) -> str:
        kind, text = self.next("a string")
        if kind != "string":
            raise self.fail(f"{text!r} where a string should be")
        return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text[1:-1])

    def type(self) -> TensorType:
        kind, text = self.next("a type such as f32[1,3]")
        match = _TYPE.fullmatch(text)
        if kind != "type" or match is None or match[1] not in DTYPES:
            raise self.fail(f"{text!r} where a type such as f32[1,3] should be")
        return TensorType(match[1], tuple(int(d) for d in match[2].split(",") if d))

    def scalar(self) -> bool | int | float:
        kind, text = self.next("a number")
        if kind == "word" and text in ("true", "false"):
            return text == "true"
        if kind != "number" or len(text) > DIGITS:
            raise self.fail(f"{text[:40]!r} where a number should be")
        return int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else float(text)

    def list_to(self, end: str) -> tuple[Any, ...]:
        """Parse the numbers of a list up to its closing bracket."""
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
            return self.array(name, values, tensor)
        _, text = self.next("'{' or a digest")
        array: Array | None = self.given.get(name)
        if array is None:
            raise self.fail(f"constant %{name}: its array is not in the text and was not given")
        if text != f"sha256:{digest(array)}" or type_of(array) != tensor:
            raise self.fail(f"constant %{name}: the array given is not the one that was printed")
        return array

    def array(self, name: str, values: tuple[Any, ...], tensor: TensorType) -> Array:
        """Return the values of a constant as an array of its type; values that the type cannot hold are errors."""
        dtype = DTYPES[tensor.dtype]
        for value in values:
            fits = isinstance(value, bool) == (dtype.kind == "b")
            if fits and dtype.kind in "iu":
                fits = isinstance(value, int) and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max
            elif fits and is_float(dtype):
                fits = isinstance(value, float) or abs(value) < 1 << 1000
            if not fits:
                raise self.fail(f"constant %{name}: {scalar_text(value)[:40]} is not of type {tensor.dtype}")
        with np.errstate(over="ignore"):
            return np.array(values, dtype=dtype).reshape(tensor.shape)

    def outputs(self) -> tuple[str, ...]:
        names = []
        while True:
            if self.peek() == "_":
                self.next()
                names.append("")
            else:
                names.append(self.definition())
            if self.peek() != ",":
                return tuple(names)
            self.take(",")

    def node(self) -> Node:
        outputs = self.outputs()
        self.take("=")
        op = self.word("an operator")
        self.take("(")
        inputs = []
        while self.peek() != ")":
            inputs.append(self.tensor())
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        attrs: dict[str, AttrValue] = {}
        while self.on_this_line() and self.peek() != "#":
            key = self.word("an attribute")
            if key in attrs:
                raise self.fail(f"attribute {key} is given twice")
            self.take("=")
            attrs[key] = self.value()
        origin = ""
        if self.on_this_line():
            self.take("#")
            origin = self.string()
        return Node(op, tuple(inputs), outputs, tuple(sorted(attrs.items())), origin)

    def on_this_line(self) -> bool:
        """Return True if another token follows on the line of the last one."""
        match = self.look()
        return match is not None and "\n" not in self.text[self.at : self.start]

    def graph(self) -> Fields:
        self.take("graph")
        self.look()
        self.at = self.start
        name = self.name()
        self.take("{")
        nodes, states, counts = list[Node](), list[GraphState](), list[GraphCount]()
        while self.peek() != "return":
            if self.peek() == "state":
                states.append(self.state())
            elif self.peek() == "count":
                counts.append(self.count())
            elif self.peek() in ("input", "const"):
                _, keyword = self.next()
                tensor = self.definition()
                if keyword == "input":
                    self.inputs.append(tensor)
                else:
                    self.take("=")
                    self.constants[tensor] = self.constant(tensor, self.types[tensor])
            else:
                nodes.append(self.node())
        self.take("return")
        outputs = [self.returned_tensor()]
        while self.peek() == ",":
            self.take(",")
            outputs.append(self.returned_tensor())
        self.take("}")
        if self.look() is not None or self.start < len(self.text):
            raise self.fail("there is text after the graph's end")
        made = name, tuple(self.inputs), tuple(outputs), tuple(nodes), self.types, self.constants
        return Fields(*made, tuple(states), tuple(counts))

    def count(self) -> GraphCount:
        """Parse `count %output axis=0 = %count`."""
        self.next()
        output = self.returned_tensor()
        for token in ("axis", "="):
            self.take(token)
        axis = self.scalar()
        if not isinstance(axis, int):
            raise self.fail(f"axis {axis} where a whole number should be")
        self.take("=")
        return GraphCount(output, axis, self.returned_tensor())

    def state(self) -> GraphState:
        """Parse `state %input = %output`, and the initial value after `from`."""
        self.next()
        self.take("%")
        name, start = self.name(), self.start
        if name not in self.inputs:
            self.start = start
            raise self.fail(f"%{name} is no input above, which a state is")
        self.take("=")
        output = self.returned_tensor()
        if self.peek() != "from":
            return GraphState(name, output)
        self.next()
        return GraphState(name, output, self.constant(name, self.types[name]))

    def returned_tensor(self) -> str:
        self.take("%")
        return self.name()
