"""Handlers of element-wise operators: activations, arithmetic, comparisons."""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES
from mavcg.graph.ops.op import FLOATS, UNSIGNED
from mavcg.importers.call import known_at_build
from mavcg.importers.limits import NeedsConstant
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.value import Value, constant

# ONNX's operator -> the graph's equal operator.
_UNARY = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Erf": "erf",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Neg": "neg",
    "Reciprocal": "reciprocal",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round",
    "Not": "not",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Mish": "mish",
    "HardSwish": "hard_swish",
}
# ONNX's operator -> the graph's operator, and the attributes with their defaults.
_PARAMETRIC: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "Elu": ("elu", {"alpha": 1.0}),
    "Celu": ("celu", {"alpha": 1.0}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": 1.0}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "Selu": ("selu", {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
}
_BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
}
# Operators of bools -> the graph's operator.
_LOGICAL = {"And": "and", "Or": "or", "Xor": "xor"}
_EXACT_IN_F32 = 1 << 24  # integer bounds up to this size are exact as float attributes


def unary(call: OnnxCall) -> Results:
    """Import a unary operator that the graph has too."""
    return call.add(_UNARY[call.op], call.input(0))


def parametric(call: OnnxCall) -> Results:
    """Import an activation with parameters."""
    op, defaults = _PARAMETRIC[call.op]
    return call.add(op, call.input(0), **{name: call.attr_float(name, default) for name, default in defaults.items()})


def absolute(call: OnnxCall) -> Results:
    """Import Abs."""
    x = call.input(0)
    return x if x.dtype in UNSIGNED else call.add("abs", x)


def sign(call: OnnxCall) -> Results:
    """Import Sign."""
    x = call.input(0)
    return call.add("min", x, call.scalar(1, x)) if x.dtype in UNSIGNED else call.add("sign", x)


def gelu(call: OnnxCall) -> Results:
    """Import Gelu."""
    mode = call.attr_str("approximate", "none")
    if mode not in ("none", "tanh"):
        raise call.fail(f"approximate is {mode!r}; there are none and tanh")
    return call.add("gelu", call.input(0), tanh=mode == "tanh")


def swish(call: OnnxCall) -> Results:
    """Import Swish: x * sigmoid(alpha x)."""
    x, alpha = call.input(0), call.attr_float("alpha", 1.0)
    if alpha == 1.0:
        return call.add("silu", x)
    return call.add("mul", x, call.add("sigmoid", call.add("mul", x, call.scalar(alpha, x))))


def shrink(call: OnnxCall) -> Results:
    """Import Shrink: x moved towards zero by bias outside of -lambd .. lambd, zero inside."""
    x, lambd, bias = call.input(0), call.attr_float("lambd", 0.5), call.attr_float("bias", 0.0)
    zero, shift = call.scalar(0, x), call.scalar(bias, x)
    low = call.add("where", call.add("less", x, call.scalar(-lambd, x)), call.add("add", x, shift), zero)
    return call.add("where", call.add("greater", x, call.scalar(lambd, x)), call.add("sub", x, shift), low)


def is_nan(call: OnnxCall) -> Results:
    """Import IsNaN, as x != x."""
    x = call.input(0)
    return call.add("not", call.add("equal", x, x))


def is_inf(call: OnnxCall) -> Results:
    """Import IsInf."""
    x = call.input(0)
    upper, lower = call.attr_bool("detect_positive", True), call.attr_bool("detect_negative", True)
    if upper and lower:
        return call.add("equal", call.add("abs", x), call.scalar(np.inf, x))
    if not upper and not lower:
        return call.add("broadcast_to", constant(np.array(False)), shape=x.shape)
    return call.add("equal", x, call.scalar(np.inf if upper else -np.inf, x))


def clip(call: OnnxCall) -> Results:
    """Import Clip, whose bounds are attributes up to opset 10, inputs since opset 11."""
    x = call.input(0)
    if call.version < 11:
        # The defaults are the largest finite numbers, by the operator's specification.
        least, most = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)
        lo, hi = call.attr_float("min", least), call.attr_float("max", most)
        return call.add("clip", x, lo=-np.inf if lo == least else lo, hi=np.inf if hi == most else hi)
    bounds = [call.maybe(1), call.maybe(2)]
    for i, bound in enumerate(bounds):
        if bound is not None and bound.type.elements != 1:
            raise call.fail(f"its input {('min', 'max')[i]} is {bound.type}; a scalar is needed")
    if all(b is None or _fits_attribute(b) for b in bounds):
        known = [float(b.array.reshape(())) if b is not None and b.array is not None else None for b in bounds]
        return call.add(
            "clip", x, lo=-np.inf if known[0] is None else known[0], hi=np.inf if known[1] is None else known[1]
        )
    for op, bound in zip(("max", "min"), bounds, strict=True):
        if bound is not None:
            x = call.add(op, x, call.reshape(bound, ()))
    return x


def _fits_attribute(bound: Value) -> bool:
    if bound.array is None or bool(np.isnan(bound.array).any()):
        return False
    return bound.dtype in FLOATS or abs(int(bound.array.reshape(()))) <= _EXACT_IN_F32


def prelu(call: OnnxCall) -> Results:
    """Import PRelu."""
    return call.add("prelu", call.input(0), call.input(1))


def binary(call: OnnxCall) -> Results:
    """Import a binary operator that the graph has too."""
    return call.add(_BINARY[call.op], call.input(0), call.input(1))


def logical(call: OnnxCall) -> Results:
    """Import And, Or or Xor."""
    a, b = call.input(0), call.input(1)
    if a.dtype != "bool" or b.dtype != "bool":
        raise call.fail(f"{a.type} and {b.type}; bools are needed")
    return call.add(_LOGICAL[call.op], a, b)


def power(call: OnnxCall) -> Results:
    """Import Pow; the exponent may have another type than the base and the result."""
    x, y = call.input(0), call.input(1)
    if x.dtype == y.dtype:
        return call.add("pow", x, y)
    if x.dtype in FLOATS or y.dtype not in FLOATS:
        return call.add("pow", x, call.cast(y, x.dtype))
    return call.cast(call.add("pow", call.cast(x, y.dtype), y), x.dtype)


def modulo(call: OnnxCall) -> Results:
    """Import Mod."""
    return call.add("mod", call.input(0), call.input(1), fmod=call.attr_bool("fmod"))


def variadic(call: OnnxCall) -> Results:
    """Import Sum, Max, Min or Mean of any number of tensors, combined from the first to the last."""
    values = call.all_inputs()
    op = {"Sum": "add", "Mean": "add", "Max": "max", "Min": "min"}[call.op]
    result = values[0]
    for value in values[1:]:
        result = call.add(op, result, value)
    return result if call.op != "Mean" else call.add("div", result, call.scalar(len(values), result))


def where(call: OnnxCall) -> Results:
    """Import Where."""
    return call.add("where", call.input(0), call.input(1), call.input(2))


def identity(call: OnnxCall) -> Results:
    """Import Identity, and operators that are the identity in inference."""
    return call.input(0)


@known_at_build("ratio", "training_mode")
def dropout(call: OnnxCall) -> Results:
    """Import Dropout, the identity in inference, and in training by a ratio of 0. Raises: NeedsConstant if
    training_mode is computed."""
    x, ratio, training = call.input(0), call.maybe(1), call.maybe(2)
    if training is not None and training.array is None:
        raise NeedsConstant(
            f"{call.location}: its input training_mode is known only when the model runs; "
            "export the model for inference",
            call.names[2],
        )
    if training is not None and training.array is not None and training.array.any():
        if ratio is not None and ratio.array is None:
            raise call.not_known(1, "ratio")
        if ratio is None or ratio.array is None or ratio.array.any():
            raise call.unsupported("training_mode is true", "inference; export the model for inference")
    mask = None
    if len(call.required) > 1 and call.required[1]:
        kept = constant(np.ones((), DTYPES["bool" if call.version >= 10 else x.dtype]))
        mask = call.add("broadcast_to", kept, shape=x.shape)
    return x, mask


HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(_UNARY, unary),
    **dict.fromkeys(_PARAMETRIC, parametric),
    **dict.fromkeys(_BINARY, binary),
    **dict.fromkeys(_LOGICAL, logical),
    **dict.fromkeys(("Sum", "Max", "Min", "Mean"), variadic),
    "Abs": absolute,
    "Sign": sign,
    "Gelu": gelu,
    "Swish": swish,
    "Shrink": shrink,
    "IsNaN": is_nan,
    "IsInf": is_inf,
    "Clip": clip,
    "PRelu": prelu,
    "Pow": power,
    "Mod": modulo,
    "Where": where,
    "Identity": identity,
    "Dropout": dropout,
}
