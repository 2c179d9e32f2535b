"""Random ONNX graphs for bench.differential: an operator of each kind, others behind it, odd shapes, hard numbers."""

from collections.abc import Callable, Mapping, Sequence
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
UNARY = (
    "Abs", "Ceil", "Floor", "Round", "Neg", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Tanh", "Sigmoid", "Erf", "Relu",
    "Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Softplus", "Softsign", "Sign", "Reciprocal",
    "Identity", "Shrink",
)  # fmt: skip
# The opset that has an operator first, or first has it in the form that is written here.
SINCE = {
    "Expand": 8, "Max": 8, "Min": 8, "Mean": 8, "Sum": 8, "Erf": 9, "Sign": 9, "Shrink": 9, "Where": 9, "Less": 9,
    "Greater": 9, "IsNaN": 9, "OneHot": 11, "EyeLike": 9, "ConstantOfShape": 9, "Upsample": 9, "QuantizeLinear": 10,
    "DequantizeLinear": 10, "MatMulInteger": 10, "ConvInteger": 10, "QLinearConv": 10, "QLinearMatMul": 10, "Mod": 10,
    "IsInf": 10, "ThresholdedRelu": 10, "Slice": 10, "TopK": 10, "AveragePool": 7, "Equal": 11, "Round": 11, "Pad": 11,
    "CumSum": 11, "GatherElements": 11, "DepthToSpace": 11, "DynamicQuantizeLinear": 11, "Clip": 11, "Resize": 11,
    "GatherND": 12, "ScatterND": 11, "Celu": 12, "LessOrEqual": 12, "GreaterOrEqual": 12, "HardSwish": 14, "Trilu": 14,
    "CastLike": 15, "LayerNormalization": 17, "Mish": 18, "Gelu": 20, "GroupNormalization": 21, "RMSNormalization": 23,
    "Swish": 24, "MaxPool": 10, "Tile": 7, "Squeeze": 7, "Unsqueeze": 7,
}  # fmt: skip
UNTIL = {"Upsample": 9}
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Mean", "Sum")
COMPARISONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip


@dataclass
class Part:
    """A graph while it grows.

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
        """Add an input, of the graph's float type where no other is given; some numbers of hard graphs are hard."""
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
        """Add a node; its output's name, or a list of names."""
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
        """Mostly small; at times a length around the ends of vectors."""
        rank = int(self.rng.integers(1, 5)) if rank is None else rank
        return tuple(self.pick(15, 16, 17, 33) if self.rng.random() < 0.15 else self.size(7) for _ in range(rank))

    def model(self) -> Any:
        return model_of([self])


def model_of(parts: Sequence[Part]) -> Any:
    """One model of independent graphs."""
    from onnx import helper

    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for part in parts for name, array in part.inputs.items()
    ]  # fmt: skip
    outputs = [helper.make_empty_tensor_value_info(name) for part in parts for name in part.outputs]
    nodes, constants = [n for p in parts for n in p.nodes], [c for p in parts for c in p.constants]
    graph = helper.make_graph(nodes, "differential", inputs, outputs, constants)
    opset = parts[0].opset
    imports = [helper.make_opsetid("", opset)]
    if any(node.domain for node in nodes):
        imports.append(helper.make_opsetid(MICROSOFT, 1))
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSIONS[opset])


def kinds_of(opset: int) -> list[str]:
    """The kinds of graphs that an opset has."""
    return [kind for kind in KINDS if SINCE.get(kind, 0) <= opset <= UNTIL.get(kind, 99)]


def random_part(seed: int, number: int, opset: int) -> Part:
    """Graph number `number`: it follows from seed, number and opset."""
    rng = np.random.default_rng([seed, number])
    dtype = FLOAT_TYPES[int(rng.choice(3, p=(0.7, 0.12, 0.18)))]
    part = Part(f"g{number}_", opset, rng, hard=bool(rng.random() < 0.3), dtype=dtype)
    kinds = kinds_of(opset)
    made = KINDS[kinds[int(rng.integers(len(kinds)))]](part)
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
        types = (np.int32, np.int64, np.uint32, np.uint64) if op in ("Max", "Min") else (np.int32, np.int64)
        dtype = p.pick(p.dtype, p.dtype, *types) if whole and p.opset >= 12 else p.dtype
        low = 0.1 if op == "Pow" else -3
        return str(p.add(op, p.input(*shape, dtype=dtype, low=low), p.input(*other, dtype=dtype)))

    return made


def _comparison(op: str) -> Callable[[Part], str]:
    def made(p: Part) -> str:
        shape = p.shape()
        dtype = p.pick(p.dtype, p.dtype, np.int32, np.int64)
        return str(p.add(op, p.input(*shape, dtype=dtype), p.input(*shape, dtype=dtype)))

    return made


def _logic(op: str) -> Callable[[Part], str]:
    def made(p: Part) -> str:
        shape = p.shape()
        inputs = [p.input(*shape, dtype=np.bool_) for _ in range(1 if op == "Not" else 2)]
        return str(p.add(op, *inputs))

    return made


def _modulo(p: Part) -> str:
    shape, dtype = p.shape(), p.pick(p.dtype, *WHOLE_TYPES)
    fmod = int(np.dtype(dtype).kind == "f") or p.pick(0, 1)
    divisor = p.constant(p.rng.integers(1, 90, shape), dtype)
    return str(p.add("Mod", p.input(*shape, dtype=dtype), divisor, fmod=fmod))


def _reduction(op: str) -> Callable[[Part], str]:
    def made(p: Part) -> str:
        shape = p.shape()
        axes = sorted({int(p.rng.integers(len(shape))) for _ in range(2)})
        low = 0.1 if op in ("ReduceLogSum", "ReduceProd") else -3
        whole = op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare")
        dtype = p.pick(p.dtype, p.dtype, np.int32, np.int64) if whole else p.dtype
        x, keep = p.input(*shape, low=low, dtype=dtype), {"keepdims": p.pick(0, 1)}
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
        more: dict[str, Any] = {"MaxPool": {"ceil_mode": p.pick(0, 1)}, "LpPool": {"p": p.pick(1, 2)}}.get(
            op, {"count_include_pad": p.pick(0, 1)}
        )
        return str(p.add(op, x, **_wide_enough(p, x, _window(p), (1, 1)), **more))

    return made


def _normal(op: str) -> Callable[[Part], str]:
    def made(p: Part) -> str:
        x, n = _image(p, p.pick(2, 4, 6))
        if op == "BatchNormalization":
            variance = p.constant(p.rng.uniform(0.2, 2, n), p.dtype)
            return str(p.add(op, x, p.weights(n), p.weights(n), p.weights(n), variance))
        if op == "InstanceNormalization":
            return str(p.add(op, x, p.weights(n), p.weights(n)))
        if op in ("LayerNormalization", "RMSNormalization"):
            return str(p.add(op, x, p.weights(p.inputs[x].shape[-1]), axis=-1))
        if op == "GroupNormalization":
            return str(p.add(op, x, p.weights(n), p.weights(n), num_groups=2))
        return str(p.add(op, x, size=3))

    return made


def _of_axis(op: str) -> Callable[[Part], Any]:
    def made(p: Part) -> Any:
        shape = p.shape()
        axis = int(p.rng.integers(len(shape)))
        if op == "CumSum":  # the importer has it of constants only, as TopK and others below
            x, more = p.constant(p.rng.uniform(-3, 3, shape), p.dtype), {"exclusive": p.pick(0, 1)}
            return _with_input(p, p.add(op, x, p.constant(axis, np.int64), reverse=p.pick(0, 1), **more))
        if op == "TopK":
            k = p.constant([p.size(shape[axis])], np.int64)
            more = {"largest": p.pick(0, 1)} if p.opset >= 11 else {}
            x = p.constant(p.rng.uniform(-3, 3, shape), p.dtype)
            return _with_input(p, p.add(op, x, k, outputs=2, axis=axis, **more)[0])
        if op == "Concat":
            others = [p.input(*(p.size(5) if i == axis else n for i, n in enumerate(shape))) for _ in range(p.size(3))]
            return p.add(op, *others, axis=axis)
        return p.add(op, p.input(*shape), axis=axis)

    return made


def _with_input(p: Part, name: str) -> str:
    """A constant tensor that the model computes, added to an input."""
    return str(p.add("Add", name, p.input(1)))


def _indexed(p: Part, op: str, shape: tuple[int, ...]) -> str:
    x = p.constant(p.rng.uniform(-3, 3, shape), p.dtype)
    if op == "GatherElements":
        return str(p.add(op, x, p.constant(p.rng.integers(0, shape[1], shape), np.int64), axis=1))
    if op == "GatherND":
        indices = np.stack([p.rng.integers(0, n, (3, 4)) for n in shape[: p.pick(1, 2)]], -1)
        return str(p.add(op, x, p.constant(indices, np.int64)))
    rows = p.rng.permutation(shape[0])[: p.size(shape[0])]
    updates = p.constant(p.rng.uniform(-3, 3, (len(rows), *shape[1:])), p.dtype)
    return str(p.add(op, x, p.constant(rows[:, None], np.int64), updates))


def _moved(op: str) -> Callable[[Part], Any]:
    def made(p: Part) -> Any:
        dtype = p.pick(p.dtype, p.dtype, p.dtype, *WHOLE_TYPES, np.bool_)
        shape = p.shape(p.pick(2, 3, 4))
        rank = len(shape)
        if op in ("GatherElements", "GatherND", "ScatterND"):
            return _with_input(p, _indexed(p, op, shape))
        x = p.input(*shape, dtype=dtype)
        if op == "Transpose":
            return p.add(op, x, perm=[int(v) for v in p.rng.permutation(rank)])
        if op == "Slice":
            starts, steps = [p.pick(0, 1, -3) for _ in shape], [p.pick(1, 1, 2) for _ in shape]
            ends = [p.pick(2, 100, -1) for _ in shape]
            return p.add(op, x, *(p.constant(v, np.int64) for v in (starts, ends, list(range(rank)), steps)))
        if op == "Pad":
            pads = [p.pick(0, 0, 1) for _ in range(2 * rank)]
            mode = p.pick("constant", "edge", "reflect") if min(shape) > 1 and dtype == p.dtype else "constant"
            return p.add(op, x, p.constant(pads, np.int64), mode=mode)
        if op == "Gather":
            indices = p.rng.integers(-shape[0] if p.opset >= 11 else 0, shape[0], p.shape(p.pick(1, 2)))
            return p.add(op, x, p.constant(indices, np.int64), axis=0)
        if op == "Tile":
            return p.add(op, x, p.constant([p.size(3) for _ in shape], np.int64))
        if op == "Expand":
            y = p.input(*(p.pick(1, n) for n in shape), dtype=dtype)
            return p.add(op, y, p.constant(shape, np.int64))
        if op == "Split" and p.opset < 18:
            return p.add(op, x, outputs=shape[1], axis=1) if shape[1] > 1 else p.add("Identity", x)
        if op == "Trilu":
            return p.add(op, x, upper=p.pick(0, 1))
        if op in ("Squeeze", "Unsqueeze"):
            axes = [0] if op == "Unsqueeze" else [0, 2]
            y = x if op == "Unsqueeze" else p.input(1, shape[0], 1, shape[1], dtype=dtype)
            return p.add(op, y, p.constant(axes, np.int64)) if p.opset >= 13 else p.add(op, y, axes=axes)
        if op == "Reshape":
            return p.add(op, x, p.constant([-1, shape[0]], np.int64))
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
            return p.add(op, p.input(*p.shape(), dtype=np.float32), scale, zero)
        if op == "DequantizeLinear":
            return p.add(op, p.input(*p.shape(), dtype=dtype), scale, zero)
        if op == "DynamicQuantizeLinear":
            return p.add(op, p.input(*p.shape(), dtype=np.float32), outputs=3)
        if op == "MatMulInteger":
            w = p.constant(p.rng.integers(-127, 127, (9, 5)), np.int8)
            return p.add(op, p.input(4, 9, dtype=np.uint8), w, p.constant(2, np.uint8))
        if op == "QLinearMatMul":
            w, w_scale = p.constant(p.rng.integers(-60, 60, (9, 5)), np.int8), p.constant(0.02, np.float32)
            given = (p.input(4, 9, dtype=dtype), scale, zero, w, w_scale, p.constant(0, np.int8))
            return p.add(op, *given, p.constant(0.1, np.float32), p.constant(9, dtype))
        if op == "ConvInteger":
            w = p.constant(p.rng.integers(-60, 60, (5, 3, 3, 3)), np.int8)
            return p.add(op, p.input(1, 3, 6, 7, dtype=np.uint8), w, p.constant(3, np.uint8))
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
    dtype = p.pick(p.dtype, p.dtype, np.int32, np.int64, np.uint8, np.int8) if p.opset >= 12 else p.dtype
    low, high = (-0.5, 1.5) if np.dtype(dtype).kind == "f" else (3, 90)
    return str(p.add("Clip", p.input(*p.shape(), dtype=dtype), p.constant(low, dtype), p.constant(high, dtype)))


def _cast(p: Part) -> str:
    from onnx import helper

    types = (*FLOAT_TYPES, *WHOLE_TYPES, np.bool_)
    source, target = p.pick(*types), p.pick(*types)
    p.hard = False  # the integer that NaN, or a number out of its range, becomes is not defined
    low = 0 if np.dtype(target).kind == "u" else -3
    return str(p.add("Cast", p.input(*p.shape(), dtype=source, low=low),
                     to=helper.np_dtype_to_tensor_dtype(np.dtype(target))))  # fmt: skip


def _cast_like(p: Part) -> str:
    p.hard = False
    return str(p.add("CastLike", p.input(*p.shape()), p.constant([1], p.pick(*FLOAT_TYPES, np.int32, np.int8))))


def _one_hot(p: Part) -> str:
    depth, values = p.constant(7, np.int64), p.constant([0, 1], np.float32)
    indices = p.constant(p.rng.integers(-7, 7, p.shape(2)), np.int64)
    return str(p.add("Mul", p.add("OneHot", indices, depth, values, axis=-1), p.input(7, dtype=np.float32)))


def _filled(op: str) -> Callable[[Part], str]:
    """A constant tensor that the model computes, added to an input."""

    def made(p: Part) -> str:
        from onnx import numpy_helper

        x = p.input(3, 5)
        if op == "EyeLike":
            return str(p.add("Add", p.add(op, x, k=p.pick(-1, 0, 2)), x))
        value = numpy_helper.from_array(np.array([2], p.dtype))
        return str(p.add("Add", p.add(op, p.constant([3, 5], np.int64), value=value), x))

    return made


def _sum_of_whole(op: str) -> Callable[[Part], str]:
    def made(p: Part) -> str:
        x = p.input(*p.shape(), dtype=p.pick(np.int32, np.int64, np.int8))
        return str(p.add(op, x))

    return made


def _microsoft(op: str) -> Callable[[Part], str]:
    """The operators of com.microsoft that the importer has."""

    def eight_bits(p: Part, *shape: int) -> tuple[str, str, str]:
        dtype = p.memo.setdefault("dtype", p.pick(np.uint8, np.int8))
        return (
            p.input(*shape, dtype=dtype), p.constant(p.rng.uniform(0.01, 0.1), np.float32),
            p.constant(p.pick(0, 3), dtype),
        )  # fmt: skip

    def real(p: Part) -> str:
        if op == "FusedMatMul":
            a, b = p.pick((), (2,)), p.pick(1, 8, 31)
            turned_a, turned_b = p.pick(0, 1), p.pick(0, 1)
            x = p.input(*a, *((7, 5) if turned_a else (5, 7)))
            w = p.input(*a, *((b, 7) if turned_b else (7, b)))
            return str(p.add(op, x, w, domain=MICROSOFT, transA=turned_a, transB=turned_b, alpha=p.pick(1.0, 0.3)))
        if op == "FusedConv":
            x, n = _image(p)
            act = p.pick("Relu", "Sigmoid", "Tanh", "LeakyRelu")
            params: dict[str, Any] = {"activation_params": [0.1]} if act == "LeakyRelu" else {}
            w = p.weights(5, n, 3, 3)
            return str(p.add(op, x, w, p.weights(5), domain=MICROSOFT, pads=[1] * 4, activation=act, **params))
        shape = p.shape()
        bias = [p.weights(shape[-1])] if op == "BiasGelu" or (op == "FastGelu" and p.pick(0, 1)) else []
        more: dict[str, Any] = {"alpha": p.pick(1.702, 1.0)} if op == "QuickGelu" else {}
        return str(p.add(op, p.input(*shape), *bias, domain=MICROSOFT, **more))

    def made(p: Part) -> str:
        if not op.startswith("Q") or op == "QuickGelu":
            return real(p)
        scale = p.constant(p.rng.uniform(0.02, 0.2), np.float32)
        shape = p.shape(4)
        given = [*eight_bits(p, *shape)]
        zero = p.constant(p.pick(0, 5), p.memo["dtype"])
        more: dict[str, Any] = {}
        if op in ("QLinearAdd", "QLinearMul"):
            given += eight_bits(p, *shape[p.pick(0, 2) :])
        elif op == "QLinearConcat":
            given = [scale, zero, *given, *eight_bits(p, *shape)]
            return str(p.add(op, *given, domain=MICROSOFT, axis=p.pick(0, 1, 3)))
        elif op == "QLinearAveragePool":
            more = {"kernel_shape": [1, min(2, shape[3])], "strides": [1, 1]}
        elif op == "QLinearLeakyRelu":
            more = {"alpha": 0.1}
        elif op == "QLinearSoftmax":
            more = {"axis": p.pick(-1, 1), "opset": 13}
        elif op == "QLinearGlobalAveragePool":
            more = {"channels_last": 0}
        elif op == "QGemm":
            rows, inner, columns = p.pick(1, 5), p.pick(7, 33), p.pick(8, 31)
            x_zero, w_zero = p.constant(p.pick(0, 3), np.uint8), p.constant(0, np.int8)
            x_scale, w_scale = p.constant(0.03, np.float32), p.constant(0.02, np.float32)
            w = p.constant(p.rng.integers(-60, 60, (inner, columns)), np.int8)
            bias = p.constant(p.rng.integers(-500, 500, columns), np.int32)
            p.inputs.clear()
            x = p.input(rows, inner, dtype=np.uint8)
            out = p.constant(100, np.uint8)
            return str(p.add(op, x, x_scale, x_zero, w, w_scale, w_zero, bias, scale, out, domain=MICROSOFT, alpha=1.0))
        return str(p.add(op, *given, scale, zero, domain=MICROSOFT, **more))

    return made


MICROSOFTS = (
    "BiasGelu", "FastGelu", "Gelu", "QuickGelu", "FusedConv", "FusedMatMul", "QGemm", "QLinearAdd", "QLinearMul",
    "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearSigmoid",
    "QLinearSoftmax",
)  # fmt: skip


def _unary(op: str) -> Callable[[Part], str]:
    return lambda p: str(p.add(op, p.input(*p.shape(), low=-30 if op in ("Sin", "Cos", "Tan") else -3)))


KINDS: Mapping[str, Callable[[Part], Any]] = {
    **{op: _unary(op) for op in (*UNARY, "HardSwish", "Mish", "Gelu", "Swish")},
    **{op: _unary(op) for op in ("IsNaN", "IsInf")},
    **{op: _binary(op) for op in BINARY},
    **{op: _comparison(op) for op in COMPARISONS},
    **{op: _logic(op) for op in ("And", "Or", "Xor", "Not")},
    **{op: _reduction(op) for op in REDUCTIONS},
    **{op: _pool(op) for op in ("MaxPool", "AveragePool", "LpPool")},
    **{op: _normal(op) for op in ("BatchNormalization", "InstanceNormalization", "LayerNormalization",
                                  "GroupNormalization", "LRN", "RMSNormalization")},
    **{op: _of_axis(op) for op in ("Softmax", "LogSoftmax", "Hardmax", "CumSum", "TopK", "Concat", "ArgMax", "ArgMin")},
    **{op: _moved(op) for op in ("Transpose", "Slice", "Pad", "Gather", "GatherElements", "Tile", "Expand", "Split",
                                 "Flatten", "Trilu", "GatherND", "ScatterND", "Squeeze", "Unsqueeze", "Reshape")},
    **{op: _blocks(op) for op in ("DepthToSpace", "SpaceToDepth")},
    **{op: _quantised(op) for op in ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger",
                                     "QLinearConv", "QLinearMatMul", "ConvInteger")},
    **{f"{MICROSOFT}.{op}": _microsoft(op) for op in MICROSOFTS},
    **{op: _filled(op) for op in ("EyeLike", "ConstantOfShape")},
    **{f"{op} of whole numbers": _sum_of_whole(op) for op in ("Abs", "Neg")},
    "GlobalAveragePool": lambda p: p.add("GlobalAveragePool", _image(p)[0]),
    "GlobalMaxPool": lambda p: p.add("GlobalMaxPool", _image(p)[0]),
    "GlobalLpPool": lambda p: p.add("GlobalLpPool", _image(p)[0], p=p.pick(1, 2)),
    "LpNormalization": lambda p: p.add("LpNormalization", p.input(*p.shape(2)), axis=p.pick(0, 1), p=p.pick(1, 2)),
    "Conv": _conv, "ConvTranspose": _conv_transpose, "MatMul": _matmul, "Gemm": _gemm, "Resize": _resize,
    "Upsample": lambda p: p.add("Upsample", _image(p)[0], p.constant([1, 1, p.pick(1, 2), p.pick(2, 3)], np.float32),
                                mode=p.pick("nearest", "linear")),
    "Where": _where, "Clip": _clip, "Cast": _cast, "CastLike": _cast_like, "Mod": _modulo, "OneHot": _one_hot,
}  # fmt: skip
# Operators whose result is of the graph's float type: others may follow.
_FLOATING = frozenset({
    *UNARY, "ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "Conv", "ConvTranspose", "MatMul", "Gemm",
    "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize", "BatchNormalization",
    "InstanceNormalization", "LRN", "Where", "Softmax", "FusedConv", "FusedMatMul", "BiasGelu", "QuickGelu",
})  # fmt: skip
