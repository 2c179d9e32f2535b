"""Activations and the functions under them against NumPy in double precision, over the range of f32 and its edges."""

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.graph.ops.elementwise import ACTIVATIONS
from mavcg.graph.reference.elementwise import activate as reference
from mavcg.kernels.builder.activation import activate
from mavcg.kernels.builder.emit import F32, I64, PTR, element, repeat
from mavcg.kernels.builder.float_math import expm1, log1p
from mavcg.kernels.builder.lanes import load_vector, store_vector
from tests.kernels.host_engine import host_engine

Array = NDArray[Any]
LANES = 8
PARAMETERS = {
    "clip": (-0.5, 1.5),
    "leaky_relu": (0.1,),
    "elu": (1.3,),
    "hard_sigmoid": (0.2, 0.5),
    "selu": (1.67, 1.05),
    "celu": (0.7,),
    "thresholded_relu": (0.8,),
}
# Relative to the result, or to this size where results cross 0 by cancellation.
BOUNDS = {"gelu": 1.2e-6, "mish": 4e-7, "sin": 4e-7, "cos": 4e-7, "erf": 4e-7, "log": 2e-7}


def computed(x: Array, make: Any) -> Array:
    """make(builder, vector) over an array of a multiple of LANES elements, compiled for this machine."""
    module = ir.Module("test")
    module.triple = llvm.get_default_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, PTR, I64]), "f")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    source, target, count = function.args

    def turn(index: ir.Value) -> None:
        value = load_vector(b, element(b, source, index, F32), ir.VectorType(F32, LANES))
        store_vector(b, make(b, value), element(b, target, index, F32))

    repeat(b, ir.Constant(I64, 0), count, turn, step=LANES)
    b.ret_void()
    engine = host_engine(module)
    out = np.empty_like(x)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    kind(engine.get_function_address("f"))(x.ctypes.data, out.ctypes.data, x.size)
    return out


def inputs(low: float, high: float) -> Array:
    rng = np.random.default_rng(1)
    small = np.concatenate([s * 10.0 ** rng.uniform(-9, 0, 800) for s in (-1, 1)])
    x = np.concatenate([rng.uniform(low, high, 20_000), small, [0.0, -0.0, 1.0, -1.0, 0.5, 0.4, 0.25, low, high]])
    x = x[(x >= low) & (x <= high)].astype(np.float32)
    return np.resize(x, -(-x.size // LANES) * LANES)


RANGES = {
    "exp": (-87, 88.7),
    "log": (1e-38, 1e30),
    "sqrt": (0, 1e30),
    "reciprocal": (1e-3, 1e3),
    "sin": (-1e4, 1e4),
    "cos": (-1e4, 1e4),
}


@pytest.mark.parametrize("act", [*sorted(set(ACTIVATIONS) - {"gelu"}), "gelu", "gelu tanh"])
def test_agrees_with_double_precision(act: str) -> None:
    name, _, tanh = act.partition(" ")
    args = (float(bool(tanh)),) if name == "gelu" else PARAMETERS.get(name, ())
    x = inputs(*RANGES.get(name, (-30, 30)))
    if name == "log":
        x = np.abs(x) + np.float32(1e-38)
        x[: x.size // 2] = np.exp(np.random.default_rng(2).uniform(-80, 80, x.size // 2))
    found = computed(x, lambda b, value: activate(b, name, args, value)).astype(np.float64)
    expected = reference(x.astype(np.float64), name, args)
    size = np.maximum(np.abs(expected), 1e-37)
    if name in ("gelu", "mish", "silu"):  # differences of nearly equal numbers far below 0
        size = np.maximum(size, np.abs(x.astype(np.float64)) * 0.1)
    if name in ("sin", "cos", "hard_sigmoid", "hard_swish"):
        size = np.maximum(size, 0.1)
    if name == "sigmoid_quotient":  # its error is an absolute one, as onnxruntime's
        size = np.maximum(size, 1.0)
    error = np.max(np.abs(found - expected) / size)
    assert error < BOUNDS.get(name, 6e-7), (error, x[np.argmax(np.abs(found - expected) / size)])


def test_infinities_and_nan() -> None:
    edges = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 200.0, -200.0, -1.0], np.float32)

    def of(act: str, *args: float) -> list[float]:
        return [float(v) for v in computed(edges, lambda b, value: activate(b, act, args, value))]

    with np.errstate(all="ignore"):
        for act in ("exp", "log", "tanh", "sigmoid", "erf", "relu", "silu", "hard_swish", "softplus", "sqrt", "sign"):
            # f32 arithmetic itself decides about inf * 0, as in the reference.
            np.testing.assert_array_equal(np.isnan(of(act)), np.isnan(reference(edges, act, ())), act)
    assert of("exp")[:2] == [np.inf, 0.0] and of("exp")[5:7] == [np.inf, 0.0]
    assert of("log")[0] == np.inf and of("log")[3:5] == [-np.inf, -np.inf]
    assert of("tanh")[:2] == [1.0, -1.0] and of("sigmoid")[:2] == [1.0, 0.0]
    assert np.isnan(of("clip", -1.0, 1.0)[2]) and of("clip", -1.0, 1.0)[:2] == [1.0, -1.0]


@pytest.mark.parametrize("act", ["elu", "selu", "celu", "tanh", "erf"])
def test_odd_at_zero(act: str) -> None:
    """The result of -0 is -0: a reciprocal behind it is -infinity, as in the reference."""
    x = np.array([0.0, -0.0] * LANES, np.float32)
    have = computed(x, lambda b, value: activate(b, act, PARAMETERS.get(act, ()), value))
    assert np.array_equal(np.signbit(have), np.signbit(x)) and not np.any(have)


def test_the_sign_of_either_zero_is_zero() -> None:
    """As in the reference, and in onnxruntime: a reciprocal behind it is infinity."""
    x = np.array([0.0, -0.0] * LANES, np.float32)
    have = computed(x, lambda b, value: activate(b, "sign", (), value))
    assert not np.any(np.signbit(have)) and not np.any(have)


def test_denormal_results_of_exp() -> None:
    x = np.linspace(-103, -87.5, 64, dtype=np.float32)
    found = computed(x, lambda b, value: activate(b, "exp", (), value)).astype(np.float64)
    assert np.max(np.abs(found - np.exp(x.astype(np.float64)))) <= 2.0**-149


def test_near_zero() -> None:
    x = np.resize(np.concatenate([s * 10.0 ** np.linspace(-30, -0.1, 400) for s in (1, -1)]), 800).astype(np.float32)
    wide = x.astype(np.float64)
    for make, expected in ((expm1, np.expm1(wide)), (log1p, np.log1p(wide))):
        found = computed(x, make).astype(np.float64)
        assert np.max(np.abs(found - expected) / np.abs(expected)) < 4e-7
