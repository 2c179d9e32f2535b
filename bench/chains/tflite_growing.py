"""Growing of a random TFLite chain, of f32, of signed 8 bits, or with weights of f16 that DEQUANTIZE makes f32."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.chains.chain import TFLITE, Chain, Node, pruned
from bench.chains.growing import MOST_ELEMENTS, UnsuitableError
from bench.chains.tflite_truth import computed, real, stored
from bench.differential.part import HARD, Array
from bench.tflite_file import Quantised

F32, INT8, F16 = "float32", "int8", "float16"  # what a chain computes in; of F16, its weights
TAME = 1e5


@dataclass
class TfliteGrowing:
    """Builder of a chain. real: each tensor's numbers in f64; recent: names that may be read, the last result last."""

    prefix: str
    rng: np.random.Generator
    kind: str
    hard: bool = False
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    quantised: dict[str, Quantised] = field(default_factory=dict)
    real: dict[str, Array] = field(default_factory=dict)
    recent: list[str] = field(default_factory=list)
    count: int = 0

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def name(self, what: str) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}_{what}"

    def tensor(self, accept: Callable[[Array], bool] = lambda x: True, dtype: str | None = None) -> str:
        """Return a tensor of the chain's type that is accepted, a recent one more often. Raises: UnsuitableError."""
        wanted = dtype or (INT8 if self.kind == INT8 else F32)
        names = [n for n in self.recent if self.dtypes[n] == wanted and accept(self.real[n])]
        if not names:
            raise UnsuitableError("no tensor")
        return names[-1 - int(len(names) * self.rng.random() ** 2.5)]

    def of_rank(self, rank: int) -> str:
        """Return a tensor of this rank, reshaped from another where there is none."""
        try:
            return self.tensor(lambda x: x.ndim == rank)
        except UnsuitableError:
            x = self.tensor()
            total, lengths = self.real[x].size, []
            for _ in range(rank - 1):
                lengths.append(self.pick(*(n for n in range(1, min(total, 24) + 1) if total % n == 0)))
                total //= lengths[-1]
            return self.move("RESHAPE", x, self.ints([*lengths, total]), options="ReshapeOptions")

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.real[name].shape)

    def input(self, shape: Sequence[int]) -> str:
        """Add an input of the chain's type."""
        name = self.name("x")
        x = self.rng.uniform(-3, 3, shape).astype(np.float32)
        if self.hard:
            x = np.where(self.rng.random(shape) < 0.1, self.rng.choice(HARD[np.float32], shape), x).astype(np.float32)
        if self.kind == INT8:
            self.quantised[name] = self.parameters(x)
            x = stored(x.astype(np.float64), INT8, self.quantised[name])
        self.inputs[name], self.dtypes[name] = x, x.dtype.name
        self.real[name] = real(x, self.quantised.get(name))
        self.recent.append(name)
        return name

    def parameters(self, values: Array) -> Quantised:
        """Return parameters for these numbers, some of which may saturate."""
        if not np.isfinite(values).all():
            raise UnsuitableError("not finite")
        low, high = min(float(values.min(initial=0)), 0.0), max(float(values.max(initial=0)), 0.0)
        scale = np.float32(max((high - low) / 255 * self.pick(1.0, 1.0, 0.7), 1e-4))
        return Quantised(scale, int(np.clip(round(-128 - low / float(scale)), -128, 127)))

    def constant(self, value: Any, dtype: Any, quantised: Quantised | None = None) -> str:
        name = self.name("c")
        self.constants[name] = np.asarray(value, dtype)
        self.dtypes[name] = self.constants[name].dtype.name
        if quantised is not None:
            self.quantised[name] = quantised
        self.real[name] = real(self.constants[name], quantised)
        return name

    def ints(self, value: Any) -> str:
        return self.constant(value, np.int32)

    def weights(self, value: Array) -> str:
        """Add weights of f32: of a chain with f16, stored as that and dequantised."""
        if self.kind == F16:
            return self.add("DEQUANTIZE", [self.constant(value, np.float16)], F32)[0]
        return self.constant(value, np.float32)

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        dtype: str,
        options: str = "",
        quantised: Quantised | None = None,
        results: int = 1,
        **fields: Any,
    ) -> list[str]:
        """Add an operator and compute it; its results are of `dtype` (TOPK_V2's second of int32).

        quantised: of 8-bit results; by default parameters that suit the numbers. Raises: UnsuitableError.
        """
        names = [self.name(op.lower()) for _ in range(results)]
        attributes = {"": options, **fields} if options else {}
        node = Node(op, tuple(inputs), tuple(names), attributes)
        with np.errstate(all="ignore"):
            made = computed(node, [self.real[name] if name else None for name in inputs])
        for name, x in zip(names, made, strict=True):
            if x.size > MOST_ELEMENTS or not x.size or x.ndim > 5:
                raise UnsuitableError(f"{op}: {x.shape}")
            if x.dtype.kind == "f" and not self.hard and np.isnan(x).mean() > 0.2:
                raise UnsuitableError(f"{op}: mostly NaN")
            self.dtypes[name] = "int32" if x.dtype.kind in "iu" and dtype != INT8 else dtype
            if self.dtypes[name] == INT8:
                self.quantised[name] = quantised or self.parameters(x)
            if x.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    q = self.quantised.get(name)
                    x = real(stored(x, INT8, q), q) if q is not None else x.astype(np.float32).astype(np.float64)
            self.real[name] = x
        self.nodes.append(node)
        return names

    def move(self, op: str, x: str, *more: str, **fields: Any) -> str:
        """Add an operator that keeps type and parameters of its argument."""
        return self.add(op, [x, *more], self.dtypes[x], quantised=self.quantised.get(x), **fields)[0]

    def arithmetic(self, op: str, inputs: Sequence[str], quantised: Quantised | None = None, **fields: Any) -> str:
        """Add an operator whose result is of the chain's type."""
        return self.add(op, inputs, INT8 if self.kind == INT8 else F32, quantised=quantised, **fields)[0]


Kind = Callable[[TfliteGrowing], Any]
_FIXED: Mapping[str, Quantised] = {
    "LOGISTIC": Quantised(np.float32(1 / 256), -128),
    "TANH": Quantised(np.float32(1 / 128), 0),
    "SOFTMAX": Quantised(np.float32(1 / 256), -128),
}


def _unary(op: str, options: str = "", **fields: Any) -> Kind:
    return lambda g: g.arithmetic(op, [g.tensor()], _FIXED.get(op), options=options, **fields)


def _binary(op: str, options: str = "") -> Kind:
    def add_to(g: TfliteGrowing) -> None:
        x = g.tensor()
        y = g.tensor(lambda v: v.ndim <= g.real[x].ndim)
        other, shape = g.shape(y), g.shape(x)
        offset = len(shape) - len(other)
        unlike = [at for at, n in enumerate(other) if n not in (1, shape[offset + at])]
        if unlike:
            y = g.arithmetic(g.pick("MEAN", "SUM"), [y, g.ints(unlike)], options="ReducerOptions", keepDims=True)
        if op == "DIV":
            y = g.arithmetic(
                "ADD", [g.move("ABS", y), g.constant(0.5, np.float32)], options="AddOptions", fusedActivationFunction=0
            )
        fields = {"fusedActivationFunction": g.pick(0, 0, 1, 3)} if options else {}
        given = [x, y] if op == "DIV" or g.pick(0, 1) else [y, x]
        g.arithmetic(op, given, options=options, **fields)

    return add_to


def _extreme(g: TfliteGrowing) -> None:
    """MAXIMUM and MINIMUM of tensors with the same parameters."""
    x = g.tensor()
    y = g.tensor(lambda v: v.shape == g.shape(x))
    if g.kind == INT8 and g.quantised[x] != g.quantised[y]:
        raise UnsuitableError("parameters")
    g.add(g.pick("MAXIMUM", "MINIMUM"), [x, y], g.dtypes[x], "MaximumMinimumOptions", g.quantised.get(x))


def _reduction(g: TfliteGrowing) -> None:
    x = g.tensor()
    rank = g.real[x].ndim
    axes = [int(a) for a in g.rng.permutation(rank)[: int(g.rng.integers(1, rank + 1))]]
    axes = [a - rank if g.rng.random() < 0.3 else a for a in axes]
    op = g.pick("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
    q = g.quantised.get(x) if op.startswith("REDUCE") else None
    g.arithmetic(op, [x, g.ints(axes)], q, options="ReducerOptions", keepDims=bool(g.pick(0, 1)))


def _window(g: TfliteGrowing, shape: Sequence[int], most: int = 3) -> tuple[tuple[int, int], dict[str, Any]]:
    kernel = (min(g.pick(1, 2, 3), shape[1], most), min(g.pick(1, 2, 3), shape[2], most))
    return kernel, {"padding": g.pick(0, 0, 1), "strideH": g.pick(1, 2, 3), "strideW": g.pick(1, 2)}


def _filter(g: TfliteGrowing, w: Array, x: str, axis: int) -> tuple[str, Callable[[Array], str]]:
    """Add a filter; returns it and what adds its bias."""
    if g.kind != INT8:
        return g.weights(w), g.weights
    scales = np.asarray(np.abs(w).max(tuple(a for a in range(w.ndim) if a != axis)) / 127, np.float32)
    columns = [-1 if a == axis else 1 for a in range(w.ndim)]
    whole = np.clip(np.rint(w / scales.reshape(columns)), -127, 127)
    of_bias = np.asarray(scales * np.float32(g.quantised[x].scale), np.float32)

    def bias(b: Array) -> str:
        q = Quantised(of_bias, 0, 0)
        return g.constant(np.clip(np.rint(b / of_bias), -(2**30), 2**30), np.int32, q)

    return g.constant(whole, np.int8, Quantised(scales, 0, axis)), bias


def _conv(g: TfliteGrowing) -> None:
    x = g.of_rank(4)
    shape = g.shape(x)
    kernel, fields = _window(g, shape)
    depthwise = bool(g.pick(0, 1))
    dilated = bool(g.rng.random() < 0.2) and fields["padding"] == 0
    if dilated:
        fields |= {"strideH": 1, "strideW": 1}
    dilation = 2 if dilated else 1
    fields |= {"dilationHFactor": dilation, "dilationWFactor": dilation, "fusedActivationFunction": g.pick(0, 1, 3)}
    multiplier, out = g.pick(1, 1, 2), g.pick(1, 3, 8)
    w_shape = (1, *kernel, shape[3] * multiplier) if depthwise else (out, *kernel, shape[3])
    fan = kernel[0] * kernel[1] * (1 if depthwise else shape[3])
    w, bias = _filter(g, g.rng.uniform(-1, 1, w_shape) / math.sqrt(fan), x, 3 if depthwise else 0)
    if depthwise:
        fields |= {"depthMultiplier": multiplier, "strideW": fields["strideH"]}
    given = [x, w, bias(g.rng.uniform(-1, 1, w_shape[3] if depthwise else out))]
    op, options = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
    g.arithmetic(op, given, options=options, **fields)


def _pool(g: TfliteGrowing) -> None:
    x = g.of_rank(4)
    (height, width), fields = _window(g, g.shape(x))
    fields |= {"filterHeight": height, "filterWidth": width, "fusedActivationFunction": g.pick(0, 0, 1)}
    op = g.pick("MAX_POOL_2D", "AVERAGE_POOL_2D")
    g.arithmetic(op, [x], g.quantised.get(x), options="Pool2DOptions", **fields)


def _fully_connected(g: TfliteGrowing) -> None:
    x = g.of_rank(2)
    inner, out = g.shape(x)[1], g.pick(1, 5, 8)
    w, bias = _filter(g, g.rng.uniform(-1, 1, (out, inner)) / math.sqrt(inner), x, 0)
    if g.kind == INT8:  # with one scale, as older files have it
        scale = np.float32(0.01)
        w = g.constant(g.rng.integers(-100, 101, (out, inner)), np.int8, Quantised(scale, 0))
        of_bias = scale * np.float32(g.quantised[x].scale)
        b = g.constant(g.rng.integers(-500, 501, out), np.int32, Quantised(of_bias, 0))
    else:
        b = bias(g.rng.uniform(-1, 1, out))
    activation = g.pick(0, 0, 1, 3)
    g.arithmetic("FULLY_CONNECTED", [x, w, b], options="FullyConnectedOptions", fusedActivationFunction=activation)


def _matmul(g: TfliteGrowing) -> None:
    if g.kind == INT8:
        raise UnsuitableError("f32 only")
    x = g.of_rank(3)
    y = g.tensor(lambda v: v.ndim == 3 and v.shape[0] == g.shape(x)[0])
    fields: dict[str, Any] | None = next(
        (
            {"adjX": bool(a), "adjY": bool(b)}
            for a in (0, 1)
            for b in (0, 1)
            if g.shape(x)[1 if a else 2] == g.shape(y)[2 if b else 1]
        ),
        None,
    )
    if fields is None:
        raise UnsuitableError("lengths")
    g.arithmetic("BATCH_MATMUL", [x, y], options="BatchMatMulOptions", **fields)


def _axis_operator(g: TfliteGrowing) -> None:
    op = g.pick("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION") if g.kind != INT8 else "SOFTMAX"
    x = g.of_rank(g.pick(2, 4))
    if op == "SOFTMAX":
        g.arithmetic(op, [x], _FIXED.get(op) if g.kind == INT8 else None, options="SoftmaxOptions", beta=1.0)
    elif op == "LOG_SOFTMAX":
        g.arithmetic(op, [x])
    else:
        g.arithmetic(op, [x], options="L2NormOptions", fusedActivationFunction=0)


def _reshape(g: TfliteGrowing) -> None:
    x = g.tensor()
    g.of_rank(g.pick(1, 2, 3, 4))
    total = g.real[x].size
    first = g.pick(*(n for n in range(1, min(total, 24) + 1) if total % n == 0))
    g.move("RESHAPE", x, g.ints(g.pick([first, -1], [1, first, -1], [-1, first, 1])), options="ReshapeOptions")


def _transpose(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: v.ndim >= 2)
    g.move("TRANSPOSE", x, g.ints(g.rng.permutation(g.real[x].ndim)), options="TransposeOptions")


def _pad(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: 1 <= v.ndim <= 4)
    shape = g.shape(x)
    if g.kind != INT8 and g.rng.random() < 0.3:
        mode = g.pick(0, 1)
        pads = [[int(g.rng.integers(min(2, n - 1 + mode) + 1)) for _ in range(2)] for n in shape]
        g.move("MIRROR_PAD", x, g.ints(pads), options="MirrorPadOptions", mode=mode)
    else:
        g.move("PAD", x, g.ints(g.rng.integers(0, 3, (len(shape), 2))), options="PadOptions")


def _strided_slice(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: 1 <= v.ndim <= 4)
    begin, end, strides, masks = [], [], [], {"beginMask": 0, "endMask": 0, "shrinkAxisMask": 0}
    for axis, n in enumerate(g.shape(x)):
        step = g.pick(1, 1, 2, -1, -2)
        first, last = sorted((int(g.rng.integers(n)), int(g.rng.integers(n))))
        if g.rng.random() < 0.1 and len(g.shape(x)) > 1 and not masks["shrinkAxisMask"]:
            masks["shrinkAxisMask"] |= 1 << axis
            first, last, step = first, first + 1, 1
        elif step > 0:
            last += 1
            masks["beginMask"] |= (g.rng.random() < 0.3) << axis
            masks["endMask"] |= (g.rng.random() < 0.3) << axis
        else:
            first, last = last, first - 1
            masks["beginMask"] |= (g.rng.random() < 0.3) << axis
            if last < 0 or g.rng.random() < 0.3:
                masks["endMask"] |= 1 << axis
        begin.append(first)
        end.append(last)
        strides.append(step)
    fields = {name: int(mask) for name, mask in masks.items()}
    g.move("STRIDED_SLICE", x, *map(g.ints, (begin, end, strides)), options="StridedSliceOptions", **fields)


def _split(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: max(v.shape, default=1) > 1)
    axis = g.pick(*(a for a, n in enumerate(g.shape(x)) if n > 1))
    parts = g.pick(*(n for n in range(2, g.shape(x)[axis] + 1) if g.shape(x)[axis] % n == 0))
    if parts > 6:
        raise UnsuitableError("many parts")
    given = [g.ints(axis), x]
    g.add("SPLIT", given, g.dtypes[x], "SplitOptions", g.quantised.get(x), parts, numSplits=parts)


def _concat(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: v.ndim >= 1)
    axis = int(g.rng.integers(g.real[x].ndim))
    y = g.tensor(
        lambda v: (
            v.ndim == g.real[x].ndim
            and all(n == m for a, (n, m) in enumerate(zip(v.shape, g.shape(x), strict=True)) if a != axis)
        )
    )
    axis -= g.pick(0, g.real[x].ndim)
    if g.kind == INT8 and g.quantised[x] != g.quantised[y]:  # LiteRT's kernel has no other
        [y] = g.add("QUANTIZE", [y], INT8, quantised=g.quantised[x])
    g.arithmetic(
        "CONCATENATION",
        [x, y],
        g.quantised.get(x),
        options="ConcatenationOptions",
        axis=axis,
        fusedActivationFunction=0,
    )


def _pack(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: v.ndim <= 3)
    axis = int(g.rng.integers(g.real[x].ndim + 1))
    g.add("PACK", [x, x], g.dtypes[x], "PackOptions", g.quantised.get(x), valuesCount=2, axis=axis)


def _gather(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: 1 <= v.ndim <= 4)
    axis = int(g.rng.integers(g.real[x].ndim))
    indices = g.ints(g.rng.integers(0, g.shape(x)[axis], g.pick((2,), (3,), (2, 2))))
    g.move("GATHER", x, indices, options="GatherOptions", axis=axis)


def _small_moves(g: TfliteGrowing) -> None:
    op = g.pick("EXPAND_DIMS", "SQUEEZE", "TILE", "REVERSE_V2")
    x = g.tensor(lambda v: 1 <= v.ndim <= 4)
    rank = g.real[x].ndim
    if op == "EXPAND_DIMS":
        g.move(op, x, g.ints(g.pick(0, -1, rank)), options="ExpandDimsOptions")
    elif op == "SQUEEZE":
        x = g.tensor(lambda v: 1 in v.shape and v.ndim >= 2)
        axis = g.pick(*(a for a, n in enumerate(g.shape(x)) if n == 1))
        g.move(op, x, options="SqueezeOptions", squeezeDims=[axis])
    elif op == "TILE":
        g.move(op, x, g.ints(g.rng.integers(1, 3, rank)), options="TileOptions")
    else:
        g.move(op, x, g.ints([int(g.rng.integers(rank))]), options="ReverseV2Options")


def _blocks(g: TfliteGrowing) -> None:
    x = g.of_rank(4)
    _, height, width, channels = g.shape(x)
    if height % 2 == 0 and width % 2 == 0:
        g.move("SPACE_TO_DEPTH", x, options="SpaceToDepthOptions", blockSize=2)
    elif channels % 4 == 0:
        g.move("DEPTH_TO_SPACE", x, options="DepthToSpaceOptions", blockSize=2)
    else:
        raise UnsuitableError("lengths")


def _resize(g: TfliteGrowing) -> None:
    x = g.of_rank(4)
    size = g.ints([g.pick(1, 2, 5, 8, 11), g.pick(1, 3, 6, 9)])
    corners, half = g.pick((False, False), (True, False), (False, True))
    op, options = g.pick(
        ("RESIZE_BILINEAR", "ResizeBilinearOptions"), ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")
    )
    g.move(op, x, size, options=options, alignCorners=corners, halfPixelCenters=half)


def _choose(g: TfliteGrowing) -> None:
    if g.kind == INT8:
        raise UnsuitableError("f32 only")
    x = g.tensor()
    y = g.tensor(lambda v: v.shape == g.shape(x))
    [condition] = g.add(g.pick("LESS", "GREATER"), [x, y], "bool")
    g.arithmetic("SELECT_V2", [condition, y, x])


def _indices(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: bool(np.isfinite(v).all()) and v.ndim >= 1)
    if g.pick(0, 1):
        op, options = g.pick(("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions"))
        g.add(op, [x, g.ints(int(g.rng.integers(g.real[x].ndim)))], "int32", options, outputType=2)
    elif g.kind != INT8:
        k = g.ints(int(g.rng.integers(1, g.shape(x)[-1] + 1)))
        g.add("TOPK_V2", [x, k], F32, "TopKV2Options", results=2)


def _requantise(g: TfliteGrowing) -> None:
    """Give an 8-bit tensor other parameters, or go through f32."""
    if g.kind != INT8:
        raise UnsuitableError("8 bits only")
    x = g.tensor()
    if g.pick(0, 1):
        g.add("QUANTIZE", [x], INT8)
        return
    [y] = g.add("DEQUANTIZE", [x], F32)
    [z] = g.add(g.pick("ABS", "SQUARE", "EXP"), [y], F32)
    g.add("QUANTIZE", [z], INT8)


KINDS: Mapping[str, Kind] = {
    **{op: _unary(op) for op in ("ABS", "CEIL", "FLOOR", "EXP", "SQUARE", "ELU", "HARD_SWISH", "NEG", "ROUND")},
    **{op: _unary(op) for op in ("RELU", "RELU6", "LOGISTIC", "TANH")},
    "LEAKY_RELU": _unary("LEAKY_RELU", "LeakyReluOptions", alpha=0.1),
    "GELU": _unary("GELU", "GeluOptions", approximate=False),
    **{op: _binary(op, f"{op.title()}Options") for op in ("ADD", "SUB", "MUL", "DIV")},
    "ADD again": _binary("ADD", "AddOptions"),
    "SQUARED_DIFFERENCE": _binary("SQUARED_DIFFERENCE"),
    "extreme": _extreme,
    "reduction": _reduction,
    "convolution": _conv,
    "convolution again": _conv,
    "pool": _pool,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _matmul,
    "along an axis": _axis_operator,
    "RESHAPE": _reshape,
    "TRANSPOSE": _transpose,
    "padding": _pad,
    "STRIDED_SLICE": _strided_slice,
    "SPLIT": _split,
    "CONCATENATION": _concat,
    "PACK": _pack,
    "GATHER": _gather,
    "small moves": _small_moves,
    "blocks": _blocks,
    "resizing": _resize,
    "SELECT_V2": _choose,
    "indices": _indices,
    "QUANTIZE": _requantise,
}
# Of 8 bits LiteRT has no kernels of these.
NOT_IN_8_BITS = frozenset(
    {"ABS", "CEIL", "FLOOR", "EXP", "SQUARE", "ELU", "NEG", "ROUND", "DIV", "GELU", "SQUARED_DIFFERENCE"}
)


def random_tflite_chain(rng: np.random.Generator, prefix: str, shortest: int = 2, longest: int = 30) -> Chain:
    """Return a random chain."""
    kind = str(rng.choice([F32, INT8, F16], p=(0.4, 0.45, 0.15)))
    g = TfliteGrowing(prefix, rng, kind, hard=kind == F32 and bool(rng.random() < 0.12))
    for _ in range(g.pick(1, 1, 2)):
        shapes = ((1, 6, 7, 3), (2, 5, 4, 8), (1, 9, 9, 1), (3, 12), (2, 5, 6))
        g.input(shapes[int(rng.integers(len(shapes)))])
    length = int(rng.integers(shortest, longest + 1))
    names = [name for name in KINDS if kind != INT8 or name not in NOT_IN_8_BITS]
    names = [name for name in names if rng.random() < rng.uniform(0.5, 1.0)] or names
    for _ in range(400):
        if len(g.nodes) >= length:
            break
        _step(g, KINDS[names[int(rng.integers(len(names)))]])
    read = {name for node in g.nodes for name in node.inputs}
    results = [name for node in g.nodes for name in node.outputs]
    outputs = tuple(name for name in results if name not in read or rng.random() < 0.08)
    return pruned(Chain(TFLITE, prefix, 0, tuple(g.nodes), g.constants, g.inputs, outputs, g.dtypes, g.quantised))


def _step(g: TfliteGrowing, kind: Kind) -> None:
    """Add one kind's nodes, or nothing where no tensor suits."""
    first, constants = len(g.nodes), set(g.constants)
    try:
        kind(g)
        for name in (name for node in g.nodes[first:] for name in node.outputs):
            x = g.real[name]
            tame = x.dtype.kind != "f" or float(np.max(np.abs(x[~np.isnan(x)]), initial=0)) < TAME
            if tame and g.dtypes[name] in (F32, INT8):
                g.recent.append(name)
    except (UnsuitableError, IndexError, ValueError):
        del g.nodes[first:]
        for name in set(g.constants) - constants:
            del g.constants[name]
