"""Handlers of operators of ai.onnx.ml that prepare numbers for a model, or are a linear one."""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES, Array
from mavcg.importers import indices
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.value import Value, constant

_VALUES = ("int64s", "floats", "tensor")


def _floats(call: OnnxCall, name: str) -> Array:
    return np.array(call.attr_floats(name), np.float32)


def scaler(call: OnnxCall) -> Results:
    """Import Scaler: (x - offset) * scale, one number or one for each feature."""
    x = call.cast(call.input(0, rank_min=1), "f32")
    offset, scale = _floats(call, "offset"), _floats(call, "scale")
    for name, numbers in (("offset", offset), ("scale", scale)):
        if numbers.size not in (1, x.shape[-1]):
            raise call.fail(f"{numbers.size} numbers in {name} for {x.type}")
    return call.add("mul", call.add("sub", x, constant(offset)), constant(scale))


def normalizer(call: OnnxCall) -> Results:
    """Import Normalizer: rows divided by their largest element, or their norm; a row of 0 stays."""
    x, norm = call.cast(call.input(0, rank_min=1), "f32"), call.attr_str("norm", "MAX")
    axes = (x.rank - 1,)
    if norm == "MAX":
        size = call.add("reduce_max", x, axes=axes, keepdims=True)
    elif norm == "L1":
        size = call.add("reduce_sum", call.add("abs", x), axes=axes, keepdims=True)
    elif norm == "L2":
        size = call.add("sqrt", call.add("reduce_sum", call.add("mul", x, x), axes=axes, keepdims=True))
    else:
        raise call.fail(f"norm {norm!r}; there are MAX, L1, L2")
    zero = call.add("equal", size, call.scalar(0, size))
    return call.add("div", x, call.add("where", zero, call.scalar(1, size), size))


def binarizer(call: OnnxCall) -> Results:
    """Import Binarizer: 1 above a threshold, else 0."""
    x = call.input(0)
    return call.cast(call.add("greater", x, call.scalar(call.attr_float("threshold", 0.0), x)), x.dtype)


def array_feature_extractor(call: OnnxCall) -> Results:
    """Import ArrayFeatureExtractor: elements of the last axis by their numbers."""
    x, numbers = call.input(0, rank_min=1), call.input(1)
    made = indices.gather_along(call, x, call.reshape(numbers, (numbers.type.elements,)), x.rank - 1, False)
    return call.reshape(made, (1, *made.shape)) if x.rank == 1 else made


def label_encoder(call: OnnxCall) -> Results:
    """Import LabelEncoder of numbers to numbers; the default for what is no key."""
    x = call.input(0)
    keys, values = _entries(call, "keys"), _entries(call, "values")
    if keys.ndim != 1 or keys.shape != values.shape or not keys.size:
        raise call.fail(f"{keys.size} keys for {values.size} values")
    if keys.dtype != DTYPES[x.dtype]:
        raise call.fail(f"keys {keys.dtype} for {x.type}")
    if values.dtype.kind == "f":
        default = np.array(call.attr_float("default_float", 0.0), values.dtype)
    else:
        default = np.array(call.attr_int("default_int64", -1), values.dtype)
    if "default_tensor" in call.attrs:
        default = np.asarray(call.attr_tensor("default_tensor"), values.dtype)
        if default.size != 1:
            raise call.fail("its attribute default_tensor has more than one element")
    column = call.reshape(x, (*x.shape, 1))
    found = call.add("equal", column, constant(keys))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        missing = call.add("not", call.add("equal", column, column))
        found = call.add("or", found, call.add("and", missing, constant(np.isnan(keys))))
    first = call.add("where", found, constant(np.arange(keys.size, dtype=np.int64)), constant(np.array(keys.size)))
    number = call.add("reduce_min", first, axes=(x.rank,), keepdims=False)
    return call.add("gather", constant(np.append(values, default.reshape(1))), number, axis=0)


def _entries(call: OnnxCall, side: str) -> Array:
    given = [name for name in (f"{side}_{kind}" for kind in (*_VALUES, "strings")) if name in call.attrs]
    if len(given) != 1 or given[0].endswith("strings"):
        raise call.unsupported(", ".join(given) or f"no {side}", " or ".join(f"{side}_{kind}" for kind in _VALUES))
    if given[0].endswith("tensor"):
        return call.attr_tensor(given[0])
    return np.array(call.attr_ints(given[0])) if "int" in given[0] else _floats(call, given[0])


def linear_regressor(call: OnnxCall) -> Results:
    """Import LinearRegressor."""
    x, targets = call.cast(call.input(0, rank=2), "f32"), call.attr_int("targets", 1)
    if call.attr_str("post_transform", "NONE") != "NONE":
        raise call.unsupported(f"post_transform {call.attr_str('post_transform')}", "NONE")
    coefficients, intercepts = _floats(call, "coefficients"), _floats(call, "intercepts")
    if targets < 1 or coefficients.size != targets * x.shape[1] or intercepts.size not in (0, targets):
        raise call.fail(f"{coefficients.size} coefficients and {intercepts.size} intercepts of {targets} targets")
    weights: Value = constant(np.ascontiguousarray(coefficients.reshape(targets, -1).T))
    return call.add("matmul", x, weights, constant(intercepts) if intercepts.size else None)


HANDLERS: Mapping[str, Handler] = {
    "Scaler": scaler,
    "Normalizer": normalizer,
    "Binarizer": binarizer,
    "ArrayFeatureExtractor": array_feature_extractor,
    "LabelEncoder": label_encoder,
    "LinearRegressor": linear_regressor,
}
