"""Random ONNX graphs for bench.differential: an operator of every kind, others behind it, odd shapes, hard numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
OPSETS = (11, 13, 17, 18, 21)
IR_VERSIONS = {11: 6, 13: 7, 17: 8, 18: 8, 21: 10}
HARD = np.array([np.nan, np.inf, -np.inf, 1e-41, -3e-45, 3e38, -0.0, 1e7], np.float32)
UNARY = (
    "Abs", "Ceil", "Floor", "Round", "Neg", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Tanh", "Sigmoid", "Erf", "Relu",
    "Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Softplus", "Softsign", "Sign", "Reciprocal",
    "Identity", "Shrink",
)  # fmt: skip
SINCE = {
    "Celu": 12, "HardSwish": 14, "Trilu": 14, "LayerNormalization": 17, "Mish": 18, "Gelu": 20,
    "GroupNormalization": 21,
}  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Mean", "Sum")
COMPARISONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip


@dataclass
class Part:
    """One graph while it grows. prefix: of all its names. operators: in the order in which they were added."""

    prefix: str
    opset: int
    rng: np.random.Generator
    hard: bool = False
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: dict[str, Array] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)

    def name(self) -> str:
        return f"{self.prefix}{len(self.nodes) + len(self.constants) + len(self.inputs)}"

    def input(self, *shape: int, dtype: Any = np.float32, low: float = -3, high: float = 3) -> str:
        """A new input of the graph; of floats some are hard where the graph is to have such."""
        name = f"{self.name()}_x"
        if np.dtype(dtype).kind == "f":
            values = self.rng.uniform(low, high, shape).astype(dtype)
            if self.hard:
                places = self.rng.random(shape) < 0.1
                values = np.where(places, self.rng.choice(HARD, shape), values).astype(dtype)
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
        return self.constant(self.rng.uniform(-1, 1, shape), np.float32)

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """A node; its output's name, or a list of names."""
        from onnx import helper

        names = [f"{self.name()}_{op.lower()}{i or ''}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, f"{names[0]}_node", **attributes))
        self.operators.append(op)
        return names[0] if outputs == 1 else names

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def size(self, most: int = 9) -> int:
        return int(self.rng.integers(1, most + 1))

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """Mostly small; at times a length around the ends of vectors."""
        rank = int(self.rng.integers(1, 5)) if rank is None else rank
        return tuple(self.pick(15, 16, 17, 33) if self.rng.random() < 0.15 else self.size(7) for _ in range(rank))

    def model(self) -> Any:
        return model_of([self])


def model_of(parts: Sequence[Part]) -> Any:
    """One model of graphs that have nothing to do with each other."""
    from onnx import helper

    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for part in parts for name, array in part.inputs.items()
    ]  # fmt: skip
    outputs = [helper.make_empty_tensor_value_info(name) for part in parts for name in part.outputs]
    nodes, constants = [n for p in parts for n in p.nodes], [c for p in parts for c in p.constants]
    graph = helper.make_graph(nodes, "differential", inputs, outputs, constants)
    opset = parts[0].opset
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSIONS[opset])


def random_part(seed: int, number: int, opset: int) -> Part:
    """Graph number `number`: it follows from seed, number and opset."""
    rng = np.random.default_rng([seed, number])
    part = Part(f"g{number}_", opset, rng, hard=bool(rng.random() < 0.3))
    kinds = [kind for kind in KINDS if SINCE.get(kind, 0) <= opset]
    made = KINDS[kinds[number % len(kinds)]](part)
    names = list(made) if isinstance(made, list) else [made]
    for _ in range(int(rng.integers(0, 3))):
        if len(names) == 1 and part.operators[-1] in _FLOATING:
            names[0] = part.add(part.pick(*(op for op in UNARY if SINCE.get(op, 0) <= opset)), names[0])
    part.outputs = names
    return part


def _image(p: Part, channels: int | None = None) -> tuple[str, int]:
    channels = channels or p.pick(1, 2, 3, 4, 8, 17)
    return p.input(p.pick(1, 1, 2), channels, p.size(11) + 2, p.size(11) + 2), channels


def _window(p: Part) -> dict[str, Any]:
    kernel = [p.size(3), p.size(3)]
    return {"kernel_shape": kernel, "strides": [p.size(3), p.size(3)], "pads": [p.pick(0, k // 2) for k in kernel] * 2}


def _binary(op: str) -> Callable[[Part], str]:
    def made(p: Part) -> str:
        shape = p.shape()
        other = tuple(p.pick(n, n, 1) for n in shape)[p.pick(0, 0, len(shape) // 2) :]
        whole = op not in ("Pow", "PRelu", "Mean", "Sum", "Div")
        dtype = p.pick(np.float32, np.float32, np.int32, np.int64) if whole else np.float32
        low = 0.1 if op == "Pow" else -3
        return str(p.add(op, p.input(*shape, dtype=dtype, low=low), p.input(*other, dtype=dtype)))

    return made


def _comparison(op: str) -> Callable[[Part], str]:
    def made(p: Part) -> str:
        shape = p.shape()
        name = op.removesuffix("OrEqual") if p.opset < 12 else op
        return str(p.add(name, p.input(*shape), p.input(*shape)))

    return made


def _reduction(op: str) -> Callable[[Part], str]:
    def made(p: Part) -> str:
        shape = p.shape()
        axes = sorted({int(p.rng.integers(len(shape))) for _ in range(2)})
        low = 0.1 if op in ("ReduceLogSum", "ReduceProd") else -3
        x, keep = p.input(*shape, low=low), {"keepdims": p.pick(0, 1)}
        if p.opset >= 18 or (op == "ReduceSum" and p.opset >= 13):
            return str(p.add(op, x, p.constant(axes, np.int64), **keep))
        return str(p.add(op, x, axes=axes, **keep))

    return made


def _conv(p: Part) -> str:
    x, channels = _image(p)
    groups = p.pick(1, 1, channels)
    window, out = _window(p), groups * p.pick(1, 2, 5, 16)
    w = p.weights(out, channels // groups, *window["kernel_shape"])
    bias = [p.weights(out)] if p.rng.random() < 0.5 else []
    dilations = [p.size(2), p.size(2)]
    window["pads"] = [2 * n for n in window["pads"]]
    return str(p.add("Conv", x, w, *bias, group=groups, dilations=dilations, **_wide_enough(p, x, window, dilations)))


def _wide_enough(p: Part, x: str, window: dict[str, Any], dilations: Sequence[int]) -> dict[str, Any]:
    """The window with pads that it fits in."""
    for axis in (0, 1):
        span = (window["kernel_shape"][axis] - 1) * dilations[axis] + 1
        short = span - p.inputs[x].shape[2 + axis] - window["pads"][axis] - window["pads"][axis + 2]
        window["pads"][axis] += max(0, short)
    return window


def _conv_transpose(p: Part) -> str:
    x, channels = _image(p)
    w = p.weights(channels, p.pick(1, 3, 16), p.size(3), p.size(3))
    return str(p.add("ConvTranspose", x, w, strides=[p.size(3), p.size(3)]))


def _pool(op: str) -> Callable[[Part], str]:
    def made(p: Part) -> str:
        x, _ = _image(p)
        more: dict[str, Any] = {"ceil_mode": p.pick(0, 1)} if op == "MaxPool" else {"count_include_pad": p.pick(0, 1)}
        return str(p.add(op, x, **_wide_enough(p, x, _window(p), (1, 1)), **more))

    return made


def _normal(op: str) -> Callable[[Part], str]:
    def made(p: Part) -> str:
        x, n = _image(p, p.pick(2, 4, 6))
        if op == "BatchNormalization":
            variance = p.constant(p.rng.uniform(0.2, 2, n), np.float32)
            return str(p.add(op, x, p.weights(n), p.weights(n), p.weights(n), variance))
        if op == "InstanceNormalization":
            return str(p.add(op, x, p.weights(n), p.weights(n)))
        if op == "LayerNormalization":
            return str(p.add(op, x, p.weights(p.inputs[x].shape[-1]), axis=-1))
        if op == "GroupNormalization":
            return str(p.add(op, x, p.weights(n), p.weights(n), num_groups=2))
        return str(p.add(op, x, size=3))

    return made


def _of_axis(op: str) -> Callable[[Part], Any]:
    def made(p: Part) -> Any:
        shape = p.shape()
        axis = int(p.rng.integers(len(shape)))
        if op == "CumSum":
            return p.add(op, p.input(*shape), p.constant(axis, np.int64), reverse=p.pick(0, 1), exclusive=p.pick(0, 1))
        if op == "TopK":
            k = p.constant([p.size(shape[axis])], np.int64)
            return p.add(op, p.input(*shape), k, outputs=2, axis=axis, largest=p.pick(0, 1))
        if op == "Concat":
            others = [p.input(*(p.size(5) if i == axis else n for i, n in enumerate(shape))) for _ in range(p.size(3))]
            return p.add(op, *others, axis=axis)
        return p.add(op, p.input(*shape), axis=axis)

    return made


def _moved(op: str) -> Callable[[Part], Any]:
    def made(p: Part) -> Any:
        dtype = p.pick(np.float32, np.float32, np.int64, np.uint8)
        shape = p.shape(p.pick(2, 3, 4))
        rank = len(shape)
        x = p.input(*shape, dtype=dtype)
        if op == "Transpose":
            return p.add(op, x, perm=[int(v) for v in p.rng.permutation(rank)])
        if op == "Slice":
            starts, steps = [p.pick(0, 1, -3) for _ in shape], [p.pick(1, 1, 2) for _ in shape]
            ends = [p.pick(2, 100, -1) for _ in shape]
            return p.add(op, x, *(p.constant(v, np.int64) for v in (starts, ends, list(range(rank)), steps)))
        if op == "Pad":
            pads = [p.pick(0, 0, 1) for _ in range(2 * rank)]
            mode = p.pick("constant", "edge", "reflect") if min(shape) > 1 and dtype == np.float32 else "constant"
            return p.add(op, x, p.constant(pads, np.int64), mode=mode)
        if op == "Gather":
            indices = p.rng.integers(-shape[0], shape[0], p.shape(p.pick(1, 2)))
            return p.add(op, x, p.constant(indices, np.int64), axis=0)
        if op == "GatherElements":
            return p.add(op, x, p.constant(p.rng.integers(0, shape[1], shape), np.int64), axis=1)
        if op == "Tile":
            return p.add(op, x, p.constant([p.size(3) for _ in shape], np.int64))
        if op == "Expand":
            y = p.input(*(p.pick(1, n) for n in shape), dtype=dtype)
            return p.add(op, y, p.constant(shape, np.int64))
        if op == "Split" and p.opset < 18:
            return p.add(op, x, outputs=shape[1], axis=1) if shape[1] > 1 else p.add("Identity", x)
        if op == "Trilu":
            return p.add(op, x, upper=p.pick(0, 1))
        return p.add("Flatten", x, axis=p.pick(0, 1, 2))

    return made


def _blocks(op: str) -> Callable[[Part], str]:
    def made(p: Part) -> str:
        if op == "DepthToSpace":
            return str(p.add(op, p.input(1, 4 * p.size(3), p.size(), p.size()), blocksize=2, mode=p.pick("DCR", "CRD")))
        return str(p.add(op, p.input(1, p.size(3), 2 * p.size(), 2 * p.size()), blocksize=2))

    return made


def _resize(p: Part) -> str:
    x, _ = _image(p)
    mode = p.pick("nearest", "linear", "cubic")
    rule = p.pick("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    scales = p.constant([1, 1, p.rng.uniform(0.5, 2.5), p.rng.uniform(0.5, 2.5)], np.float32)
    roi = p.constant([], np.float32)
    return str(p.add("Resize", x, roi, scales, mode=mode, coordinate_transformation_mode=rule))


def _matmul(p: Part) -> str:
    rows, inner, columns = p.pick(1, 5, 17), p.pick(1, 7, 33), p.pick(1, 8, 31)
    batch = p.pick((), (2,), (2, 3))
    b = p.weights(inner, columns) if p.rng.random() < 0.6 else p.input(*batch, inner, columns)
    return str(p.add("MatMul", p.input(*batch, rows, inner), b))


def _gemm(p: Part) -> str:
    rows, inner, columns = p.pick(1, 5, 17), p.pick(1, 7, 33), p.pick(1, 8, 31)
    w = p.weights(columns, inner)
    return str(p.add("Gemm", p.input(rows, inner), w, p.weights(columns), transB=1, alpha=0.5, beta=p.pick(1.0, 2.0)))


def _quantised(op: str) -> Callable[[Part], Any]:
    def made(p: Part) -> Any:
        dtype = p.pick(np.uint8, np.int8)
        scale, zero = p.constant(0.05, np.float32), p.constant(p.pick(0, 3), dtype)
        if op == "QuantizeLinear":
            return p.add(op, p.input(*p.shape()), scale, zero)
        if op == "DequantizeLinear":
            return p.add(op, p.input(*p.shape(), dtype=dtype), scale, zero)
        if op == "DynamicQuantizeLinear":
            return p.add(op, p.input(*p.shape()), outputs=3)
        if op == "MatMulInteger":
            w = p.constant(p.rng.integers(-127, 127, (9, 5)), np.int8)
            return p.add(op, p.input(4, 9, dtype=np.uint8), w, p.constant(2, np.uint8))
        x = p.input(1, 3, 6, 7, dtype=np.uint8)
        w = p.constant(p.rng.integers(-60, 60, (5, 3, 3, 3)), np.int8)
        w_scale, w_zero = p.constant(0.02, np.float32), p.constant(0, np.int8)
        x_zero, y_zero = p.constant(3, np.uint8), p.constant(100, np.uint8)
        return p.add(op, x, scale, x_zero, w, w_scale, w_zero, p.constant(0.1, np.float32), y_zero)

    return made


def _where(p: Part) -> str:
    shape = p.shape()
    condition = p.add("Less", p.input(*shape), p.input(*shape))
    return str(p.add("Where", condition, p.input(*shape), p.input(*shape)))


def _clip(p: Part) -> str:
    return str(p.add("Clip", p.input(*p.shape()), p.constant(-0.5, np.float32), p.constant(1.5, np.float32)))


def _cast(p: Part) -> str:
    source = p.pick(np.float32, np.int32, np.uint8)
    p.hard = False  # what an integer makes of NaN and of what it cannot hold is not defined
    return str(p.add("Cast", p.input(*p.shape(), dtype=source), to=p.pick(1, 6, 7, 10)))


def _unary(op: str) -> Callable[[Part], str]:
    return lambda p: str(p.add(op, p.input(*p.shape(), low=-30 if op in ("Sin", "Cos", "Tan") else -3)))


KINDS: Mapping[str, Callable[[Part], Any]] = {
    **{op: _unary(op) for op in (*UNARY, "HardSwish", "Mish", "Gelu")},
    **{op: _binary(op) for op in BINARY},
    **{op: _comparison(op) for op in COMPARISONS},
    **{op: _reduction(op) for op in REDUCTIONS},
    **{op: _pool(op) for op in ("MaxPool", "AveragePool")},
    **{op: _normal(op) for op in ("BatchNormalization", "InstanceNormalization", "LayerNormalization",
                                  "GroupNormalization", "LRN")},
    **{op: _of_axis(op) for op in ("Softmax", "LogSoftmax", "Hardmax", "CumSum", "TopK", "Concat", "ArgMax", "ArgMin")},
    **{op: _moved(op) for op in ("Transpose", "Slice", "Pad", "Gather", "GatherElements", "Tile", "Expand", "Split",
                                 "Flatten", "Trilu")},
    **{op: _blocks(op) for op in ("DepthToSpace", "SpaceToDepth")},
    **{op: _quantised(op) for op in ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger",
                                     "QLinearConv")},
    "GlobalAveragePool": lambda p: p.add("GlobalAveragePool", _image(p)[0]),
    "GlobalMaxPool": lambda p: p.add("GlobalMaxPool", _image(p)[0]),
    "LpNormalization": lambda p: p.add("LpNormalization", p.input(*p.shape(2)), axis=p.pick(0, 1), p=p.pick(1, 2)),
    "Conv": _conv, "ConvTranspose": _conv_transpose, "MatMul": _matmul, "Gemm": _gemm, "Resize": _resize,
    "Where": _where, "Clip": _clip, "Cast": _cast,
}  # fmt: skip
# What gives f32, whatever its inputs: other operators may follow.
_FLOATING = frozenset({
    *UNARY, *REDUCTIONS, "Conv", "ConvTranspose", "MatMul", "Gemm", "MaxPool", "AveragePool", "GlobalAveragePool",
    "GlobalMaxPool", "Resize", "BatchNormalization", "InstanceNormalization", "LRN", "Clip", "Where", "Softmax",
})  # fmt: skip
