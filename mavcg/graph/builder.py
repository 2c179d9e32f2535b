"""Construction of graphs node by node, with type inference, for importers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node, TensorType, type_of
from mavcg.graph.ops import infer, make_node
from mavcg.graph.ops.op import check_type, node_location


class GraphBuilder:
    """A graph under construction.

    types: type of every tensor so far, by name. constants: arrays so far, by name. nodes: in order; equal nodes are not
    merged.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self._inputs: list[str] = []
        self._numbers: dict[str, int] = {}

    def input(self, name: str, type: TensorType) -> str:
        """Add an input and return its name. Raises: MavcgError if the name is taken."""
        self._take(name, type, f"graph {self.name}, its inputs")
        self._inputs.append(name)
        return name

    def constant(self, array: Any, stem: str = "c") -> str:
        """Add a constant and return its name: `stem`, with a number if that is taken.

        array: a NumPy array, which is not copied if it is contiguous in row-major order, or Python numbers, of which
        floats become f32, integers i64, and bools bool. Raises: MavcgError for an unsupported element type.
        """
        numpy = isinstance(array, np.ndarray | np.generic)
        values = np.asarray(array, order="C")
        if not numpy and values.dtype == np.float64:
            values = values.astype(np.float32)
        # A read-only view, so that the caller's array stays writable.
        values = values.astype(values.dtype.newbyteorder("="), copy=False).view()
        values.flags.writeable = False
        name = self._fresh(stem)
        self._take(name, type_of(values), f"graph {self.name}, its constants")
        self.constants[name] = values
        return name

    def add(
        self, op: str, inputs: Sequence[str], origin: str = "", outputs: Sequence[str] | None = None, **attrs: Any
    ) -> str:
        """Add a node with one output and return the output's name.

        inputs: names, "" for an absent one. outputs: names, by default made of the operator and a number. attrs: as for
        mavcg.graph.ops.nodes.make_node; axis and axes may be negative, counting from the end.
        Raises: MavcgError that names the node.
        """
        (name,) = self.add_many(op, inputs, origin, outputs, **attrs)
        return name

    def add_many(
        self, op: str, inputs: Sequence[str], origin: str = "", outputs: Sequence[str] | None = None, **attrs: Any
    ) -> tuple[str, ...]:
        """Add a node with any number of outputs and return their names. Arguments as for `add`. Raises: as add."""
        names = list(outputs) if outputs is not None else [""]
        node = make_node(op, inputs, names, origin, **attrs)
        node = self._normalise_axes(node)
        types = infer(node, self.types, self.constants)
        if outputs is None:
            names = [self._fresh(op) for _ in types]
        if len(names) != len(types):
            raise MavcgError(f"{node_location(node)}: {len(names)} outputs named where the operator has {len(types)}")
        for name, type in zip(names, types, strict=True):
            self._take(name, type, node_location(node))
        self.nodes.append(Node(node.op, node.inputs, tuple(names), node.attrs, origin))
        return tuple(names)

    def finish(self, outputs: Sequence[str]) -> Graph:
        """Return the finished graph. Raises: MavcgError for an unknown output, or without outputs."""
        if not outputs:
            raise MavcgError(f"graph {self.name}: it has no outputs; nothing would be computed")
        for name in outputs:
            if name not in self.types:
                raise MavcgError(f"graph {self.name}: no node makes its output %{name}")
        return Graph(
            self.name, tuple(self._inputs), tuple(outputs), tuple(self.nodes), dict(self.types), dict(self.constants)
        )

    def _take(self, name: str, type: TensorType, where: str) -> None:
        if not name:
            raise MavcgError(f"{where}: a tensor without a name")
        if name in self.types:
            raise MavcgError(f"{where}: the name %{name} is taken; every tensor needs a name of its own")
        check_type(where, name, type)
        self.types[name] = type

    def _fresh(self, stem: str) -> str:
        while True:
            number = self._numbers.get(stem, 0)
            self._numbers[stem] = number + 1
            name = f"{stem}.{number}" if number else stem
            if name not in self.types:
                return name

    def _normalise_axes(self, node: Node) -> Node:
        """Return the node with negative axes, which count from the first input's last dimension, replaced."""
        first = self.types.get(node.inputs[0]) if node.inputs else None
        if first is None:
            return node
        rank, attrs = len(first.shape), dict(node.attrs)
        axis, axes = attrs.get("axis"), attrs.get("axes")
        if isinstance(axis, int) and axis < 0:
            return node.with_attrs(axis=axis + rank)
        if isinstance(axes, tuple) and all(isinstance(a, int) for a in axes):
            return node.with_attrs(axes=tuple(sorted(int(a) + rank if a < 0 else int(a) for a in axes)))
        return node
