"""Random ONNX graphs with a dimension whose length a run sets: shapes have SYMBOL in its place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from bench.differential.part import IR_VERSIONS, MICROSOFT, Array, Part

SYMBOL = "n"
Shape: TypeAlias = tuple[int | str, ...]
Accept: TypeAlias = Callable[[Shape], bool]
OPSETS = (17, 18, 21, 23)


class UnsuitableError(Exception):
    """Raised if no tensor of the graph suits an operator."""


@dataclass
class LengthPart(Part):
    """Builder of a graph. shapes, dtypes: of the tensors so far that others may read, the last result at the end."""

    number: int = 0
    shapes: dict[str, Shape] = field(default_factory=dict)
    dtypes: dict[str, Any] = field(default_factory=dict)

    def given(self, shape: Shape, dtype: Any = np.float32) -> str:
        """Add an input. Its values are drawn for each length (values_at)."""
        name = f"{self.name()}_x"
        self.inputs[name] = np.zeros(0, dtype)
        return self.made(name, shape, dtype)

    def made(self, name: str, shape: Shape, dtype: Any = np.float32) -> str:
        """Note the shape of a result."""
        self.shapes[name], self.dtypes[name] = shape, dtype
        return name

    def tensor(self, accept: Accept = bool, dtype: Any = np.float32, most_symbols: int = 1) -> str:
        """Return a result or input that has axes, by default, a recent one more often. Raises: UnsuitableError.

        most_symbols: axes of it that may be the symbolic dimension.
        """
        suited = {name: shape for name, shape in self.shapes.items() if shape.count(SYMBOL) <= most_symbols}
        names = [name for name, shape in suited.items() if self.dtypes[name] == dtype and accept(shape)]
        if not names:
            raise UnsuitableError
        return names[-1 - int(len(names) * self.rng.random() ** 3)]

    def weights(self, *shape: int) -> str:
        """Add a constant; a product with it has about the size of its argument."""
        depth = int(np.prod(shape[:-1])) if len(shape) > 1 else 1
        return self.constant(self.rng.uniform(-1, 1, shape) * (3 / max(1, depth)) ** 0.5, np.float32)

    def whole(self, *numbers: int) -> str:
        return self.constant(list(numbers), np.int64)

    def unary(self, op: str, x: str, **attributes: Any) -> str:
        """Add an operator whose result has its argument's shape."""
        return self.made(self.add(op, x, **attributes), self.shapes[x])


def values_at(part: LengthPart, length: int) -> dict[str, Array]:
    """Return the inputs of a run with this length."""
    rng = np.random.default_rng([length, part.number])
    values: dict[str, Array] = {}
    for name in part.inputs:
        shape = [length if isinstance(d, str) else d for d in part.shapes[name]]
        if part.dtypes[name] == np.float32:
            values[name] = rng.uniform(-3, 3, shape).astype(np.float32)
        else:
            values[name] = rng.integers(0, 7, shape).astype(part.dtypes[name])
    return values


def at_length(part: LengthPart, length: int) -> LengthPart:
    """Return the graph with inputs of this length."""
    return replace(part, inputs=values_at(part, length))


def model_of(parts: Sequence[LengthPart]) -> Any:
    """Return one model of independent graphs, whose inputs share the symbolic dimension."""
    from onnx import helper

    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype(part.dtypes[name])), part.shapes[name]
        )
        for part in parts
        for name in part.inputs
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for part in parts for name in part.outputs]
    nodes = [node for part in parts for node in part.nodes]
    constants = [constant for part in parts for constant in part.constants]
    opset = parts[0].opset
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    graph = helper.make_graph(nodes, "lengths", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSIONS[opset])


def ranked(*ranks: int) -> Callable[[Shape], bool]:
    return lambda shape: len(shape) in ranks


def fixed_end(shape: Shape) -> bool:
    """True if the last length is known."""
    return bool(shape) and shape[-1] != SYMBOL


def inner(shape: Shape) -> list[int]:
    """Return the axes of a known length above 1."""
    return [i for i, d in enumerate(shape) if d != SYMBOL and int(d) > 1]


def changed(shape: Shape, axis: int, length: int) -> Shape:
    return (*shape[:axis], length, *shape[axis + 1 :])


def an_inner_axis(part: LengthPart, x: str) -> int:
    axes = inner(part.shapes[x])
    if not axes:
        raise UnsuitableError
    return int(part.pick(*axes))
