"""Operators over whole axes: reductions, softmax and normalisations."""

from mavcg.graph import TensorType
from mavcg.graph.ops.op import FLOATS, NUMBERS, Attr, Operator, TypedNode


def _without(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if i in axes else length for i, length in enumerate(shape))
    return tuple(length for i, length in enumerate(shape) if i not in axes)


def _reduce(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", NUMBERS)
    axes = case.attr("axes")
    if sorted(set(axes)) != list(axes) or any(not 0 <= axis < len(x.shape) for axis in axes):
        raise case.fail(f"axes {axes} where dimensions are 0 to {len(x.shape) - 1}, each once, rising")
    if case.node.op not in ("reduce_sum", "reduce_prod") and any(x.shape[axis] == 0 for axis in axes):
        raise case.fail("no elements to choose from")
    return (TensorType(x.dtype, _without(x.shape, axes, case.attr("keepdims"))),)


def _arg(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", NUMBERS)
    axis = case.axis(len(x.shape))
    if x.shape[axis] == 0:
        raise case.fail("no elements to choose from")
    return (TensorType("i64", _without(x.shape, (axis,), case.attr("keepdims"))),)


def _arg_top(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", NUMBERS)
    axis = case.axis(len(x.shape))
    if not 0 <= case.attr("count") <= x.shape[axis]:
        raise case.fail(f"count {case.attr('count')} of {x.shape[axis]} elements")
    return (TensorType("i64", (*x.shape[:axis], case.attr("count"), *x.shape[axis + 1 :])),)


def _softmax(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", FLOATS)
    case.axis(len(x.shape))
    return (x,)


def _cumulative(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", NUMBERS)
    case.axis(len(x.shape))
    return (x,)


def _layer_norm(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", FLOATS)
    axis = case.axis(len(x.shape))
    case.same_or_wider_dtype("x", "scale", "bias")
    case.broadcasts_to("scale", x.shape[axis:])
    case.broadcasts_to("bias", x.shape[axis:])
    return (x,)


def _lrn(case: TypedNode) -> tuple[TensorType, ...]:
    case.at_least(1, "size")
    return (case.type("x", FLOATS, rank_min=1),)


REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")
_AXIS = Attr("int")
OPS = (
    *(Operator(name, ("x",), _reduce, {"axes": Attr("ints"), "keepdims": Attr("bool", True)}) for name in REDUCTIONS),
    *(
        Operator(name, ("x",), _arg, {"axis": _AXIS, "keepdims": Attr("bool", True), "last": Attr("bool", False)})
        for name in ("arg_max", "arg_min")
    ),
    Operator("arg_top", ("x",), _arg_top, {"axis": _AXIS, "count": Attr("int"), "smallest": Attr("bool", False)}),
    *(
        Operator(
            name,
            ("x",),
            _cumulative,
            {"axis": _AXIS, "exclusive": Attr("bool", False), "reverse": Attr("bool", False)},
        )
        for name in ("cumulative_sum", "cumulative_prod")
    ),
    Operator("softmax", ("x",), _softmax, {"axis": _AXIS}),
    Operator("log_softmax", ("x",), _softmax, {"axis": _AXIS}),
    Operator(
        "layer_norm",
        ("x", "scale", "bias?"),
        _layer_norm,
        {"axis": _AXIS, "epsilon": Attr("float", 1e-5), "centred": Attr("bool", True)},
    ),
    Operator(
        "lrn",
        ("x",),
        _lrn,
        {
            "size": Attr("int"),
            "alpha": Attr("float", 1e-4),
            "beta": Attr("float", 0.75),
            "bias": Attr("float", 1.0),
        },
    ),
)
