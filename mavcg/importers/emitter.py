"""The graph under construction by an importer, with evaluation of values that are known at import.

An operator with known inputs is evaluated immediately; all others become nodes. So shapes that a file computes from
shapes, and weights that it computes with operators, are plain arrays when an operator reads them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph, GraphCount, Node, TensorType, fresh_names, prune
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.ops import infer, make_node
from mavcg.graph.ops.loops import LOOP_OPS
from mavcg.graph.ops.op import node_location
from mavcg.graph.reference import evaluate
from mavcg.graph.reference.work import temporary_bytes, work
from mavcg.importers.counts import Count, Counted, NotCounted, carry
from mavcg.importers.limits import (
    LARGEST_BYTES,
    LARGEST_TENSOR_BYTES,
    LEAST_TRIPS,
    MOST_BYTES,
    MOST_NODES,
    UnsupportedOp,
)
from mavcg.importers.loop_rows import with_rows
from mavcg.importers.value import Value, all_tensors, constant, moved_quantised

MOST_FOLDED_WORK = 1 << 32  # maximum elementary steps that an import evaluates in all: some seconds
MOST_FOLDED_ELEMENTS = 1 << 25  # maximum elements of an evaluated arithmetic operator, which computes in float64
_SAME_VALUES = ("reshape", "transpose", "slice", "broadcast_to")  # results have the elements of the first input
_MOVES = (*_SAME_VALUES, "concat", "gather", "scatter", "pad", "cast", "bitcast", "where")
COUNTED_OPERATORS = "those that compute each of its elements on its own (docs/models.md, Lengths that a run decides)"


@dataclass
class OpenLoop:
    """A loop to whose body nodes are added.

    within: number of the loop around it. enter: what nodes read of others enters the body. entered: by the tensor that
    entered. own: made in the body, and in loops in it.
    """

    number: int
    within: int
    enter: bool
    entered: dict[str, str] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)


class Emitter:
    """A graph builder that evaluates operators whose inputs are known.

    placed: names of known values that are constants of the graph; a value is added once. loops: recurrent operators and
    loops of at least `least_trips` iterations become loops of the graph (ops/loops.py), and are unrolled otherwise.
    open_loops: that nodes are added to, the outermost one first. counts_of: names of the scalars that are counts, by an
    element that they are computed from (run_numbers.py).
    """

    def __init__(self, name: str, loops: bool = False, least_trips: int = LEAST_TRIPS) -> None:
        self.builder = GraphBuilder(name)
        self.loops = loops
        self.least_trips = least_trips
        self.loop_count = 0
        self.open_loops: list[OpenLoop] = []
        self._placed: dict[Value, str] = {}
        self.true_places: dict[str, Value] = {}
        self.counts_of: dict[tuple[str, int], list[str]] = {}
        self._producers: dict[str, Node] = {}
        self._listed = 0
        self._inside: dict[tuple[str, int, int], Value] = {}
        self._made_bytes = 0
        self._steps_left = MOST_FOLDED_WORK

    def place(self, value: Value) -> str:
        """Return the name of a value in the graph; a known value is added as a constant."""
        if value.name:
            return value.name
        if value not in self._placed:
            if value.quantised is not None and value.quantised.block:
                self.count_bytes(value.type.bytes, f"constant %{value.stem}")
                self._placed[value] = self.builder.constant(value.quantised.real, value.stem)
            elif value.quantised is not None:
                w = value.quantised
                parts = [
                    self.builder.constant(a, f"{value.stem}.{n}")
                    for a, n in ((w.q, "q"), (w.scale, "scale"), (w.zero, "zero"))
                ]
                self._placed[value] = self.builder.add("dequantize", parts, value.stem, axis=w.axis)
            else:
                assert value.known is not None
                if not value.known.flags.c_contiguous:
                    self.count_bytes(value.type.bytes, f"constant %{value.stem}")
                self._placed[value] = self.builder.constant(value.known, value.stem)
        return self._placed[value]

    def add(self, op: str, inputs: Sequence[Value | None], origin: str, **attrs: Any) -> Value:
        """Return the result of an operator with one output: evaluated, or of a new node.

        Raises: MavcgError, naming the node, for incompatible inputs and attributes, and for a result that is too large.
        """
        if not all_tensors(inputs):
            raise MavcgError(f"node '{origin}' ({op}): a sequence where a tensor is needed")
        moved = inputs[0] if inputs and op in _SAME_VALUES else None
        count = self._carried_count(op, inputs, origin, attrs)
        if op == "flat_index" and count is not None:
            inputs = [self.mask_rest(value, origin) if value is not None else None for value in inputs]
        made = self._add(op, inputs, origin, attrs)
        made = replace(made, count=count) if count is not None else made
        return replace(made, narrow=moved.narrow) if moved is not None and moved.narrow else made

    def _carried_count(
        self, op: str, inputs: Sequence[Value | None], origin: str, attrs: dict[str, Any]
    ) -> Count | None:
        """Return the count of an operator's result. Raises: UnsupportedOp for one that cannot pass a count on."""
        if all(value is None or value.count is None for value in inputs):
            return None
        node = make_node(op, [str(i) if v is not None else "" for i, v in enumerate(inputs)], ("",), origin, **attrs)
        known = dict(node.attrs)
        rank = inputs[0].rank if inputs[0] is not None else 0
        if isinstance(axis := known.get("axis"), int):
            known["axis"] = axis % rank if rank else axis
        if isinstance(axes := known.get("axes"), tuple):
            known["axes"] = tuple(int(a) % rank for a in axes)
        try:
            if self.open_loops:
                raise NotCounted(f"{op} in a loop of a tensor of which only a run decides the length")
            return carry(op, [Counted(v.shape, v.count) if v is not None else None for v in inputs], known)
        except NotCounted as error:
            raise UnsupportedOp(f"{node_location(node)}: {error}; supported: {COUNTED_OPERATORS}") from error

    def producer(self, name: str) -> Node | None:
        """Return the node that makes a tensor; None for an input and a constant."""
        nodes = self.builder.nodes
        for node in nodes[self._listed :]:
            self._producers.update(dict.fromkeys(node.outputs, node))
        self._listed = len(nodes)
        return self._producers.get(name)

    def mask_rest(self, value: Value, origin: str) -> Value:
        """Return a value with zeros from its count on, and no longer with a count; one without a count as it is."""
        if value.count is None:
            return value
        axis, length = value.count.axis, value.shape[value.count.axis]
        column = [length if i == axis else 1 for i in range(value.rank)]
        inside = self._add("reshape", [self.inside_count(value.count, length)], origin, {"shape": tuple(column)})
        zero = constant(np.zeros((), DTYPES[value.dtype]))
        return self._add("where", [inside, replace(value, count=None), zero], origin, {})

    def inside_count(self, count: Count, length: int) -> Value:
        """Return, for each index below `length`, True if it is below the count: bool [length]."""
        key = (*count.length, length)
        if key not in self._inside:
            numbers = constant(np.arange(length, dtype=np.int64))
            self._inside[key] = self._add("less", [numbers, self.count_value(count)], "count", {})
        return self._inside[key]

    def count_value(self, count: Count) -> Value:
        """Return a count as a value, an i64 scalar."""
        value = Value(TensorType("i64", ()), count.tensor)
        factor = constant(np.int64(count.factor))
        return value if count.factor == 1 else self._add("mul", [value, factor], "count", {})

    def _add(self, op: str, inputs: Sequence[Value | None], origin: str, attrs: dict[str, Any]) -> Value:
        kept = moved_quantised(op, inputs, attrs)
        if kept is not None:
            if kept.quantised is not None and op == "transpose":
                self.count_bytes(kept.quantised.q.nbytes, f"node '{origin}' ({op})")
            return kept
        if op not in LOOP_OPS and op != "reshape" and all(v is None or v.is_constant for v in inputs):
            folded = self._fold(op, inputs, origin, attrs)
            if folded is not None:
                return folded
        elif op == "reshape" and inputs[0] is not None and inputs[0].is_constant and inputs[0].array is not None:
            node = make_node(op, ("0",), ("",), origin, **attrs)
            (type,) = infer(node, {"0": inputs[0].type})
            return Value(type, known=inputs[0].array.reshape(type.shape), stem=inputs[0].stem)
        if len(self.builder.nodes) >= MOST_NODES:
            raise MavcgError(f"node '{origin}' ({op}): more than {MOST_NODES} nodes; too large a model")
        names = [self.place(v) if v is not None else "" for v in inputs]
        if any(loop.enter for loop in self.open_loops):
            names = [self._name_in_body(name, origin) for name in names]
        name = self.builder.add(op, names, origin, **attrs)
        if self.open_loops:
            self.open_loops[-1].own.add(name)
        type = self.builder.types[name]
        if type.bytes > LARGEST_TENSOR_BYTES:
            raise MavcgError(
                f"node '{origin}' ({op}): its result {type} takes {type.bytes} bytes; at most {LARGEST_TENSOR_BYTES}"
            )
        return Value(type, name)

    def _name_in_body(self, name: str, origin: str) -> str:
        """Return the name of a tensor in the body of the innermost open loop."""
        if not name or name in self.builder.constants:
            return name
        made = max((i for i, loop in enumerate(self.open_loops) if name in loop.own), default=-1)
        for loop in self.open_loops[made + 1 :]:
            if loop.enter:
                if name not in loop.entered:
                    entered = self.builder.add("loop_enter", [name], origin, loop=loop.number, within=loop.within)
                    loop.entered[name] = entered
                    loop.own.add(entered)
                name = loop.entered[name]
        return name

    def count_work(self, steps: int, where: str) -> None:
        """Count the elementary steps of a result that must be evaluated. Raises: MavcgError if all take too many."""
        self._steps_left -= steps
        if self._steps_left < 0:
            raise MavcgError(f"{where}: to compute what the file needs known takes more than {MOST_FOLDED_WORK} steps")

    def count_bytes(self, bytes: int, where: str) -> None:
        """Count the bytes of an evaluated result. Raises: MavcgError if all results together are too large."""
        self._made_bytes += bytes
        if self._made_bytes > MOST_BYTES:
            raise MavcgError(f"{where}: what the file computes from its constants takes more than {MOST_BYTES} bytes")

    def _fold(self, op: str, inputs: Sequence[Value | None], origin: str, attrs: dict[str, Any]) -> Value | None:
        """Return the evaluated result; None if that is too much work."""
        names = [str(i) if v is not None else "" for i, v in enumerate(inputs)]
        node = make_node(op, names, ("",), origin, **attrs)
        given = [v for v in inputs if v is not None]
        types = {str(i): v.type for i, v in enumerate(inputs) if v is not None}
        known = {str(i): v.array for i, v in enumerate(inputs) if v is not None and v.array is not None}
        (type,) = infer(node, types, known)
        if type.bytes > LARGEST_BYTES:
            location = node_location(node)
            raise MavcgError(f"{location}: its result {type} takes {type.bytes} bytes; at most {LARGEST_BYTES}")
        if op not in _MOVES and max(type.elements, *(v.type.elements for v in given)) > MOST_FOLDED_ELEMENTS:
            return None
        estimated, known_types = replace(node, outputs=("result",)), types | {"result": type}
        steps = work(estimated, known_types)
        if steps > self._steps_left or temporary_bytes(estimated, known_types) > LARGEST_BYTES:
            return None
        self._steps_left -= steps
        arrays = [v.array if v is not None else None for v in inputs]
        self.count_bytes(type.bytes, node_location(node))
        (array,) = evaluate(node, [*arrays, *[None] * (len(node.inputs) - len(arrays))])
        return Value(type, known=array, stem=given[0].stem)


def finish_graph(emitter: Emitter, inputs: Collection[str], names: Sequence[str], values: Sequence[Value]) -> Graph:
    """Return the finished graph, with outputs under their names and without unneeded nodes.

    inputs: names of the graph's inputs. names, values: names, without repetition, and values of the outputs. An output
    has the name of an input only if it is that input.
    """
    builder = emitter.builder
    renamed: dict[str, str] = {}
    inputs = set(inputs)
    for name, value in zip(names, values, strict=True):
        made = emitter.place(value)
        if made in inputs and made == name:
            renamed[made] = name
            continue
        if value.is_constant or made in renamed or made in inputs:
            # An input, a constant or another output under a second name needs a copy.
            made = builder.add("reshape", [made], name, shape=value.shape)
        renamed[made] = name
    counts, made_counts = list[GraphCount](), dict[tuple[str, int], str]()
    for name, value in zip(names, values, strict=True):
        if value.count is None:
            continue
        if value.count.length not in made_counts:
            made = emitter.place(emitter.count_value(value.count))
            if made in renamed or made in inputs:
                made = builder.add("reshape", [made], name, shape=())
            renamed[made] = made_counts[value.count.length] = fresh_names((*names, *inputs), [f"{name}.count"])[0]
        counts.append(GraphCount(name, value.count.axis, made_counts[value.count.length]))
    graph = replace(builder.finish(list(renamed)), counts=tuple(counts))
    return _with_names(with_rows(prune(graph)), renamed)


def _with_names(graph: Graph, required: Mapping[str, str]) -> Graph:
    """Return the graph with tensors renamed; other tensors with these names get fresh names."""
    names = dict(required)
    taken = set(required.values()) | set(graph.inputs)
    inputs = set(graph.inputs)
    inside = [name for name in graph.types if name not in names and name in taken and name not in inputs]
    names.update(zip(inside, fresh_names({*graph.types, *taken}, inside), strict=True))
    nodes = tuple(
        replace(node.with_inputs(names), outputs=tuple(names.get(o, o) for o in node.outputs)) for node in graph.nodes
    )
    return replace(
        graph,
        nodes=nodes,
        outputs=tuple(names.get(o, o) for o in graph.outputs),
        types={names.get(n, n): t for n, t in graph.types.items()},
        constants={names.get(n, n): a for n, a in graph.constants.items()},
    )
