"""Builder of a random graph of bench.differential, and the ONNX model of several graphs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
MICROSOFT = "com.microsoft"
OPSETS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24)
IR_VERSIONS = {opset: 7 if opset < 15 else 8 if opset < 19 else 9 if opset < 21 else 10 for opset in OPSETS}
FLOAT_TYPES = (np.float32, np.float16, np.float64)
WHOLE_TYPES = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
HARD: Mapping[Any, Array] = {
    np.float32: np.array([np.nan, np.inf, -np.inf, 1e-41, -3e-45, 3e38, -0.0, 1e7], np.float32),
    np.float16: np.array([np.nan, np.inf, -np.inf, 6e-8, -3e-6, 6e4, -0.0, 1e3], np.float16),
    np.float64: np.array([np.nan, np.inf, -np.inf, 1e-310, -5e-324, 1e308, -0.0, 1e15], np.float64),
}


@dataclass
class Part:
    """Builder of one graph.

    prefix: of all its names. dtype: the float type of its inputs and weights. operators: in the order in which they
    were added.
    """

    prefix: str
    opset: int
    rng: np.random.Generator
    hard: bool = False
    dtype: Any = np.float32
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: dict[str, Array] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    memo: dict[str, Any] = field(default_factory=dict)

    def name(self) -> str:
        return f"{self.prefix}{len(self.nodes) + len(self.constants) + len(self.inputs)}"

    def input(self, *shape: int, dtype: Any = None, low: float = -3, high: float = 3) -> str:
        """Add an input, of the graph's float type by default; some graphs have extreme numbers among its elements."""
        dtype = np.dtype(dtype or self.dtype)
        name = f"{self.name()}_x"
        if dtype.kind == "f":
            values = self.rng.uniform(low, high, shape).astype(dtype)
            if self.hard:
                positions = self.rng.random(shape) < 0.1
                values = np.where(positions, self.rng.choice(HARD[dtype.type], shape), values).astype(dtype)
        elif dtype.kind == "b":
            values = self.rng.random(shape) < 0.5
        else:
            info = np.iinfo(dtype)
            values = self.rng.integers(max(info.min, -200), min(info.max, 200), shape, endpoint=True).astype(dtype)
        self.inputs[name] = np.asarray(values)
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        from onnx import numpy_helper

        name = f"{self.name()}_c"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self.rng.uniform(-1, 1, shape), self.dtype)

    def add(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Add a node; returns its output's name, or a list of names."""
        from onnx import helper

        names = [f"{self.name()}_{op.lower()}{i or ''}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, f"{names[0]}_node", domain=domain, **attributes))
        self.operators.append(op)
        return names[0] if outputs == 1 else names

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def size(self, most: int = 9) -> int:
        return int(self.rng.integers(1, most + 1))

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """Return a random shape: mostly small, sometimes with a length near a multiple of a vector's."""
        rank = int(self.rng.integers(1, 5)) if rank is None else rank
        return tuple(self.pick(15, 16, 17, 33) if self.rng.random() < 0.15 else self.size(7) for _ in range(rank))

    def image(self, channels: int | None) -> tuple[str, int] | None:
        """Return an image that is there already and its number of channels, or None to make one."""
        return None

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Return the shape of an input."""
        return tuple(self.inputs[name].shape)

    def model(self) -> Any:
        return model_of([self])


def model_of(parts: Sequence[Part]) -> Any:
    """Return one model of independent graphs."""
    from onnx import helper

    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for part in parts
        for name, array in part.inputs.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for part in parts for name in part.outputs]
    nodes, constants = [n for p in parts for n in p.nodes], [c for p in parts for c in p.constants]
    graph = helper.make_graph(nodes, "differential", inputs, outputs, constants)
    opset = parts[0].opset
    imports = [helper.make_opsetid("", opset)]
    if any(node.domain for node in nodes):
        imports.append(helper.make_opsetid(MICROSOFT, 1))
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSIONS[opset])
