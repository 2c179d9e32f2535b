"""Random TFLite chains, and the table of their operators."""

from collections.abc import Mapping

import numpy as np

from bench.chains import tflite_kinds_shapes as shapes
from bench.chains import tflite_kinds_values as values
from bench.chains.chain import TFLITE, Chain, pruned
from bench.chains.growing import UnsuitableError
from bench.chains.tflite_growing import F16, F32, INT8, Kind, TfliteGrowing

TAME = 1e5
KINDS: Mapping[str, Kind] = {
    **{op: values.unary(op) for op in ("ABS", "CEIL", "FLOOR", "EXP", "SQUARE", "ELU", "HARD_SWISH", "NEG", "ROUND")},
    **{op: values.unary(op) for op in ("RELU", "RELU6", "LOGISTIC", "TANH")},
    "LEAKY_RELU": values.unary("LEAKY_RELU", "LeakyReluOptions", alpha=0.1),
    "GELU": values.unary("GELU", "GeluOptions", approximate=False),
    **{op: values.binary(op, f"{op.title()}Options") for op in ("ADD", "SUB", "MUL", "DIV")},
    "ADD again": values.binary("ADD", "AddOptions"),
    "SQUARED_DIFFERENCE": values.binary("SQUARED_DIFFERENCE"),
    "extreme": values.extreme,
    "reduction": values.reduction,
    "convolution": values.conv,
    "convolution again": values.conv,
    "pool": values.pool,
    "FULLY_CONNECTED": values.fully_connected,
    "BATCH_MATMUL": values.matmul,
    "along an axis": values.axis_operator,
    "RESHAPE": shapes.reshape,
    "TRANSPOSE": shapes.transpose,
    "padding": shapes.pad,
    "STRIDED_SLICE": shapes.strided_slice,
    "SPLIT": shapes.split,
    "CONCATENATION": shapes.concat,
    "PACK": shapes.pack,
    "GATHER": shapes.gather,
    "small moves": shapes.small_moves,
    "blocks": shapes.blocks,
    "resizing": shapes.resize,
    "SELECT_V2": values.choose,
    "indices": values.indices,
    "QUANTIZE": values.requantise,
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
        inputs = ((1, 6, 7, 3), (2, 5, 4, 8), (1, 9, 9, 1), (3, 12), (2, 5, 6))
        g.input(inputs[int(rng.integers(len(inputs)))])
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
