"""Element-wise operators."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mavcg.graph import DTYPES, TensorType
from mavcg.graph.ops.op import ANY, FLOATS, NUMBERS, SIGNED, UNSIGNED, Attr, Operator, TypedNode

_FLOAT_UNARY = (
    "sigmoid",
    "tanh",
    "erf",
    "exp",
    "log",
    "sqrt",
    "reciprocal",
    "floor",
    "ceil",
    "round",
    "softplus",
    "softsign",
    "sin",
    "cos",
    "tan",
    "silu",
    "mish",
    "hard_swish",
    "hard_swish_quotient",
    "sigmoid_quotient",
    "tanh_quotient",
)
_PARAMETRIC: Mapping[str, Mapping[str, Attr]] = {
    "leaky_relu": {"alpha": Attr("float", 0.01)},
    "elu": {"alpha": Attr("float", 1.0)},
    "hard_sigmoid": {"alpha": Attr("float", 0.2), "beta": Attr("float", 0.5)},
    "gelu": {"tanh": Attr("bool", False)},
    # The defaults of ONNX's Selu, which are the paper's constants rounded to f32.
    "selu": {"alpha": Attr("float", 1.67326319217681884765625), "gamma": Attr("float", 1.05070102214813232421875)},
    "celu": {"alpha": Attr("float", 1.0)},
    "thresholded_relu": {"alpha": Attr("float", 1.0)},
}
ARITHMETIC = ("add", "sub", "mul", "div", "pow", "max", "min", "mod")
COMPARISONS = ("equal", "less", "less_equal", "greater", "greater_equal")
LOGICAL = ("and", "or", "xor")
PRODUCT_PAIRS = ("add_products", "sub_products")  # a * b + c * d, a * b - c * d


def _unary(name: str, dtypes: Sequence[str], attrs: Mapping[str, Attr] = MappingProxyType({})) -> Operator:
    return Operator(name, ("x",), lambda case: (case.type("x", dtypes),), attrs)


UNARY = (
    *(_unary(name, FLOATS) for name in _FLOAT_UNARY),
    *(_unary(name, (*FLOATS, *SIGNED)) for name in ("neg", "abs", "sign")),
    *(_unary(name, FLOATS, attrs) for name, attrs in _PARAMETRIC.items()),
    _unary("relu", NUMBERS),
    _unary("not", ("bool",)),
    _unary("clip", NUMBERS, {"lo": Attr("float", float("-inf")), "hi": Attr("float", float("inf"))}),
)

# Activations that may be fused into other operators: names of their parameters in the order of act_args, where a bool
# parameter is 0.0 or 1.0.
ACTIVATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {op.name: tuple(op.attrs) for op in UNARY if op.name != "not"}
)


def check_activation(case: TypedNode) -> None:
    """Check the attributes act and act_args. Raises: MavcgError for an unknown activation or other parameters than
    its."""
    act, args = case.attr("act"), case.attr("act_args")
    if act and act not in ACTIVATIONS:
        raise case.fail(f"act {act!r} is not an activation; supported: {', '.join(sorted(ACTIVATIONS))}")
    required = ACTIVATIONS[act] if act else ()
    if len(args) != len(required):
        raise case.fail(f"act_args has {len(args)} values where {act or 'no activation'} takes {len(required)}")


def _prelu(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", FLOATS)
    case.same_dtype("x", "slope")
    case.broadcasts_to("slope", x.shape)
    return (x,)


def _binary(name: str) -> Operator:
    dtypes = ("bool", *SIGNED, *UNSIGNED) if name in LOGICAL else ANY if name == "equal" else NUMBERS
    result = "bool" if name in COMPARISONS else ""

    def infer(case: TypedNode) -> tuple[TensorType, ...]:
        a, b = case.type("a", dtypes), case.type("b", dtypes)
        case.same_dtype("a", "b")
        return (TensorType(result or a.dtype, case.broadcast(a.shape, b.shape)),)

    return Operator(name, ("a", "b"), infer, {"fmod": Attr("bool", False)} if name == "mod" else {})


def _product_pair(case: TypedNode) -> tuple[TensorType, ...]:
    factors = [case.type(name, FLOATS) for name in "abcd"]
    case.same_dtype(*"abcd")
    return (TensorType(factors[0].dtype, case.broadcast(*(factor.shape for factor in factors))),)


def _where(case: TypedNode) -> tuple[TensorType, ...]:
    condition, a, b = case.type("condition", ("bool",)), case.type("a"), case.type("b")
    case.same_dtype("a", "b")
    return (TensorType(a.dtype, case.broadcast(condition.shape, a.shape, b.shape)),)


# Types whose bits may be read as another type's. f16 is not among them: graphs of f16 may be computed in f32.
BIT_TYPES = {name: dtype.itemsize for name, dtype in DTYPES.items() if name not in ("f16", "bool")}


def _cast(case: TypedNode) -> tuple[TensorType, ...]:
    return (TensorType(case.attr("to"), case.type("x").shape),)


def _bitcast(case: TypedNode) -> tuple[TensorType, ...]:
    x, to = case.type("x", tuple(BIT_TYPES)), case.attr("to")
    if BIT_TYPES[to] != BIT_TYPES[x.dtype]:
        raise case.fail(f"the bits of {x} as {to}, which has another number of them")
    return (TensorType(to, x.shape),)


OPS = (
    *UNARY,
    *(_binary(name) for name in (*ARITHMETIC, *COMPARISONS, *LOGICAL)),
    Operator("prelu", ("x", "slope"), _prelu, {}),
    *(Operator(name, tuple("abcd"), _product_pair, {}) for name in PRODUCT_PAIRS),
    Operator("where", ("condition", "a", "b"), _where, {}),
    Operator("cast", ("x",), _cast, {"to": Attr("str", choices=tuple(DTYPES))}),
    Operator("bitcast", ("x",), _bitcast, {"to": Attr("str", choices=tuple(BIT_TYPES))}),
)
