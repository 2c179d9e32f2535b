"""Changes the precision of a graph's floats: f16 files to f32, f32 graphs to f16 or bf16 where there are kernels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from mavcg.graph import DTYPES, Array, Graph, Node
from mavcg.passes.graph.rewrite import Rewrite

# The inputs that stay f32 where a node of the f32 graph is computed in f16; None for a node that stays f32.
SingleInputs = Callable[[Node, Graph], Sequence[int] | None]
HALF_MAX = float(np.finfo(np.float16).max)
_MOST = {"f16": HALF_MAX, "bf16": 255 * 2.0**120}  # largest number of a type


def in_single(graph: Graph) -> Graph:
    """Compute in f32 what a graph computes in f16, without roundings between operators.

    Before:
        input %x: f16[2]
        const %w: f16[2] = {1.0, 2.0}
        %a = mul(%x, %w)
        %y = exp(%a)
        return %y
    After:
        input %x: f16[2]
        const %w.1: f32[2] = {1.0, 2.0}
        %x.1 = cast(%x) to="f32"
        %a = mul(%x.1, %w.1)
        %y.1 = exp(%a)
        %y = cast(%y.1) to="f16"
        return %y

    Inputs and outputs keep their types. A cast to f16 in the graph rounds nothing any more.
    """
    new = Rewrite(graph)
    wide: dict[str, str] = {}

    def single(name: str) -> str:
        made = new.of(name)
        if not made or new.types[made].dtype != "f16":
            return made
        if name not in wide:
            array = new.array(made)
            known = array is not None
            wide[name] = (
                new.constant(np.asarray(array).astype(np.float32), name)
                if known
                else new.add("cast", (made,), name, to="f32")
            )
        return wide[name]

    for node in graph.nodes:
        name, inputs, attrs = node.output, [single(x) for x in node.inputs], dict(node.attrs)
        if node.op == "cast" and attrs["to"] == "f16":
            attrs["to"] = "f32"
        converts = node.op != "cast" or attrs["to"] != new.types[inputs[0]].dtype
        if name in graph.outputs and graph.types[name].dtype == "f16":
            wide[name] = new.add(node.op, inputs, name, node.origin, **attrs) if converts else inputs[0]
            new.into(name, "cast", (wide[name],), node.origin, to="f16")
        elif converts:
            new.into(name, node.op, inputs, node.origin, **attrs)
        else:
            new.alias(name, inputs[0])
    return new.finish()


def in_half(graph: Graph, single_inputs: SingleInputs, dtype: str = "f16") -> Graph:
    """Compute nodes of an f32 graph in f16, or in bf16.

    Before:
        input %x: f32[2]
        const %w: f32[2] = {1.0, 0.1}
        %a = mul(%x, %w)
        %b = relu(%a)
        %y = exp(%b)
        return %y
    After:
        input %x: f32[2]
        const %w.1: f16[2] = {1.0, 0.0999755859375}
        %x.1 = cast(%x) to="f16"
        %a = mul(%x.1, %w.1)
        %b = relu(%a)
        %y.1 = exp(%b)
        %y = cast(%y.1) to="f32"
        return %y

    Nodes that stay f32 are between casts; a tensor is converted once for all its readers. Inputs and outputs keep their
    types. A finite constant beyond the type's range becomes its largest number, so that masks such as -1e9 give no NaN.
    """
    half = _Half(graph, single_inputs, dtype)
    for node in graph.nodes:
        half.add(node)
    return half.new.finish()


@dataclass
class _Half:
    """A graph under conversion to a dtype, f16 or bf16.

    halves, singles: tensor of the old graph -> its form of that type, and of f32, in the new one.
    """

    graph: Graph
    single_inputs: SingleInputs
    dtype: str
    new: Rewrite = field(init=False)
    halves: dict[str, str] = field(default_factory=dict)
    singles: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.new = Rewrite(self.graph)

    def add(self, node: Node) -> None:
        """Add a node of the old graph."""
        new, types = self.new, self.graph.types
        floats = any(types[name].dtype == "f32" for name in (*node.inputs, *node.outputs) if name)
        if node.op == "cast":
            self._add_cast(node)
        elif floats and (kept := self.single_inputs(node, self.graph)) is not None:
            inputs = [self.single(x) if i in kept else self.half(x) for i, x in enumerate(node.inputs)]
            self._make(node, inputs)
        else:
            new.into(node.output, node.op, [self.single(x) for x in node.inputs], node.origin, **dict(node.attrs))

    def half(self, name: str) -> str:
        """Return a tensor as the dtype; one of another type than f32, and "", unchanged."""
        if not name or self.graph.types[name].dtype != "f32":
            return self.new.of(name)
        if name not in self.halves:
            array = self.new.array(name)
            self.halves[name] = (
                self.new.constant(to_half(array, self.dtype), name)
                if array is not None
                else self.new.add("cast", (self.new.of(name),), name, to=self.dtype)
            )
        return self.halves[name]

    def single(self, name: str) -> str:
        """Return a tensor as f32 where the old graph has f32; others, and "", unchanged."""
        made = self.singles.get(name) or self.new.of(name)
        if not made or self.graph.types[name].dtype != "f32" or self.new.types[made].dtype == "f32":
            return made
        self.singles[name] = self.new.add("cast", (made,), name, to="f32")
        return self.singles[name]

    def _make(self, node: Node, inputs: list[str]) -> None:
        """Add a node that computes in the dtype."""
        name, attrs = node.output, dict(node.attrs)
        if name in self.graph.outputs and self.graph.types[name].dtype == "f32":
            self.halves[name] = self.new.add(node.op, inputs, name, node.origin, **attrs)
            self.singles[name] = self.new.into(name, "cast", (self.halves[name],), node.origin, to="f32")
        else:
            self.halves[name] = self.new.into(name, node.op, inputs, node.origin, **attrs)

    def _add_cast(self, node: Node) -> None:
        """Add a cast: to the dtype of an f32 tensor it is that tensor's form; from it to f32 its source is the form."""
        source, target = node.inputs[0], node.output
        from_, to = self.graph.types[source].dtype, node.attr("to")
        if from_ == "f32" and to == self.dtype:
            self.new.alias(target, self.half(source))
            return
        read = self.halves.get(source, "") if from_ == "f32" and source not in self.singles else ""
        self.new.into(target, "cast", (read or self.single(source),), node.origin, to=to)
        if from_ == self.dtype and to == "f32":
            self.halves[target] = self.new.of(source)


def to_half(array: Array, dtype: str = "f16") -> Array:
    """Return an array as f16 or bf16, finite numbers beyond its range as its largest; bf16 of f64 through f32."""
    most = _MOST[dtype]
    bounded = np.where(np.isinf(array), array, np.clip(array, -most, most))
    return np.asarray(bounded.astype(np.float32) if dtype == "bf16" else bounded).astype(DTYPES[dtype])
