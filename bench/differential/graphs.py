"""Random ONNX graphs for bench.differential.

An operator of each kind, others behind it, odd shapes, extreme numbers.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.differential.arithmetic import (
    binary,
    cast,
    cast_like,
    clip,
    comparison,
    gemm,
    logic,
    matmul,
    modulo,
    reduction,
    sum_of_whole,
    unary,
    where,
)
from bench.differential.eight_bit import MICROSOFTS, eight_bit, microsoft
from bench.differential.images import (
    add_conv,
    add_conv_transpose,
    add_resize,
    block_movement,
    normalization,
    pool,
    random_image,
)
from bench.differential.movement import add_one_hot, along_axis, constant_of_shape, movement
from bench.differential.part import FLOAT_TYPES, MICROSOFT, Part

UNARY = (
    *("Abs", "Ceil", "Floor", "Round", "Neg", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Tanh", "Sigmoid"),
    *("Erf", "Relu", "Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Softplus"),
    *("Softsign", "Sign", "Reciprocal", "Identity", "Shrink"),
)
# The opset that has an operator first, or first has it in the form that is written here.
SINCE = {
    "Expand": 8,
    "Max": 8,
    "Min": 8,
    "Mean": 8,
    "Sum": 8,
    "Erf": 9,
    "Sign": 9,
    "Shrink": 9,
    "Where": 9,
    "Less": 9,
    "Greater": 9,
    "IsNaN": 9,
    "OneHot": 11,
    "EyeLike": 9,
    "ConstantOfShape": 9,
    "Upsample": 9,
    "QuantizeLinear": 10,
    "DequantizeLinear": 10,
    "MatMulInteger": 10,
    "ConvInteger": 10,
    "QLinearConv": 10,
    "QLinearMatMul": 10,
    "Mod": 10,
    "IsInf": 10,
    "ThresholdedRelu": 10,
    "Slice": 10,
    "TopK": 10,
    "AveragePool": 7,
    "Equal": 11,
    "Round": 11,
    "Pad": 11,
    "CumSum": 11,
    "GatherElements": 11,
    "DepthToSpace": 11,
    "DynamicQuantizeLinear": 11,
    "Clip": 11,
    "Resize": 11,
    "GatherND": 12,
    "ScatterND": 11,
    "Celu": 12,
    "LessOrEqual": 12,
    "GreaterOrEqual": 12,
    "HardSwish": 14,
    "Trilu": 14,
    "CastLike": 15,
    "LayerNormalization": 17,
    "Mish": 18,
    "Gelu": 20,
    "GroupNormalization": 21,
    "RMSNormalization": 23,
    "Swish": 24,
    "MaxPool": 10,
    "Tile": 7,
    "Squeeze": 7,
    "Unsqueeze": 7,
}
UNTIL = {"Upsample": 9}
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Mean", "Sum")
COMPARISONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
)


def kinds_of(opset: int) -> list[str]:
    """Return the kinds of graphs that an opset has."""
    return [kind for kind in KINDS if SINCE.get(kind, 0) <= opset <= UNTIL.get(kind, 99)]


def random_part(seed: int, number: int, opset: int) -> Part:
    """Return graph number `number`; number, seed and opset determine it."""
    rng = np.random.default_rng([seed, number])
    dtype = FLOAT_TYPES[int(rng.choice(3, p=(0.7, 0.12, 0.18)))]
    part = Part(f"g{number}_", opset, rng, hard=bool(rng.random() < 0.3), dtype=dtype)
    kinds = kinds_of(opset)
    results = KINDS[kinds[int(rng.integers(len(kinds)))]](part)
    names = list(results) if isinstance(results, list) else [results]
    for _ in range(int(rng.integers(0, 3))):
        if len(names) == 1 and part.operators[-1] in _FLOATING:
            names[0] = part.add(part.pick(*(op for op in UNARY if SINCE.get(op, 0) <= opset)), names[0])
    part.outputs = names
    return part


KINDS: Mapping[str, Callable[[Part], Any]] = {
    **{op: unary(op) for op in (*UNARY, "HardSwish", "Mish", "Gelu", "Swish")},
    **{op: unary(op) for op in ("IsNaN", "IsInf")},
    **{op: binary(op) for op in BINARY},
    **{op: comparison(op) for op in COMPARISONS},
    **{op: logic(op) for op in ("And", "Or", "Xor", "Not")},
    **{op: reduction(op) for op in REDUCTIONS},
    **{op: pool(op) for op in ("MaxPool", "AveragePool", "LpPool")},
    **{
        op: normalization(op)
        for op in (
            *("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "LRN"),
            "RMSNormalization",
        )
    },
    **{
        op: along_axis(op)
        for op in ("Softmax", "LogSoftmax", "Hardmax", "CumSum", "TopK", "Concat", "ArgMax", "ArgMin")
    },
    **{
        op: movement(op)
        for op in (
            *("Transpose", "Slice", "Pad", "Gather", "GatherElements", "Tile", "Expand", "Split", "Flatten"),
            *("Trilu", "GatherND", "ScatterND", "Squeeze", "Unsqueeze", "Reshape"),
        )
    },
    **{op: block_movement(op) for op in ("DepthToSpace", "SpaceToDepth")},
    **{
        op: eight_bit(op)
        for op in (
            *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv"),
            *("QLinearMatMul", "ConvInteger"),
        )
    },
    **{f"{MICROSOFT}.{op}": microsoft(op) for op in MICROSOFTS},
    **{op: constant_of_shape(op) for op in ("EyeLike", "ConstantOfShape")},
    **{f"{op} of whole numbers": sum_of_whole(op) for op in ("Abs", "Neg")},
    "GlobalAveragePool": lambda p: p.add("GlobalAveragePool", random_image(p)[0]),
    "GlobalMaxPool": lambda p: p.add("GlobalMaxPool", random_image(p)[0]),
    "GlobalLpPool": lambda p: p.add("GlobalLpPool", random_image(p)[0], p=p.pick(1, 2)),
    "LpNormalization": lambda p: p.add("LpNormalization", p.input(*p.shape(2)), axis=p.pick(0, 1), p=p.pick(1, 2)),
    "Conv": add_conv,
    "ConvTranspose": add_conv_transpose,
    "MatMul": matmul,
    "Gemm": gemm,
    "Resize": add_resize,
    "Upsample": lambda p: p.add(
        "Upsample",
        random_image(p)[0],
        p.constant([1, 1, p.pick(1, 2), p.pick(2, 3)], np.float32),
        mode=p.pick("nearest", "linear"),
    ),
    "Where": where,
    "Clip": clip,
    "Cast": cast,
    "CastLike": cast_like,
    "Mod": modulo,
    "OneHot": add_one_hot,
}
# Operators whose result is of the graph's float type: others may follow.
_FLOATING = frozenset(
    {
        *UNARY,
        *("ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "Conv", "ConvTranspose", "MatMul"),
        *("Gemm", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize"),
        *("BatchNormalization", "InstanceNormalization", "LRN", "Where", "Softmax", "FusedConv", "FusedMatMul"),
        *("BiasGelu", "QuickGelu"),
    }
)
