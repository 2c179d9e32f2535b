"""Recognises activation functions written as several operators, and replaces each by one operator."""

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from mavcg.graph import Graph, Node
from mavcg.passes.graph.rewrite import Rewrite, scalar_of

CLOSE = 2e-6  # relative tolerance for constants, which model files round, some to six digits
STEPS = 3  # maximum of successive multiplications by constants that a match follows


def recognise_activations(graph: Graph) -> Graph:
    """Replace operators that compute silu, mish, gelu, hard_sigmoid, hard_swish, leaky_relu, relu or clip by that one.

    Before:
        input %x: f32[2,3]
        const %six: f32[] = {6.0}
        const %three: f32[] = {3.0}
        %a = add(%x, %three)
        %c = clip(%a) lo=0.0 hi=6.0
        %m = mul(%x, %c)
        %y = div(%m, %six)
        return %y
    After:
        input %x: f32[2,3]
        %y = hard_swish(%x)
        return %y

    Before:
        input %x: f32[2,3]
        const %half: f32[] = {0.5}
        const %one: f32[] = {1.0}
        const %root: f32[] = {1.4142135}
        %d = div(%x, %root)
        %e = erf(%d)
        %f = add(%e, %one)
        %g = mul(%x, %f)
        %y = mul(%g, %half)
        return %y
    After:
        input %x: f32[2,3]
        %y = gelu(%x)
        return %y

    Before:
        input %x: f32[2,3]
        const %zero: f32[] = {0.0}
        %m = max(%x, %zero)
        %c = clip(%m) lo=-1.0 hi=6.0
        %s = sigmoid(%c)
        %y = mul(%s, %c)
        return %y
    After:
        input %x: f32[2,3]
        %c = clip(%x) lo=0.0 hi=6.0
        %y = silu(%c)
        return %y

    x ** 2 becomes x * x, and a division by a power of two a multiplication. Only for f32: integers wrap around. In a
    network with dynamic quantization, a single rounding can change all outputs: there x * clip(x + 3, 0, 6) / 6 becomes
    hard_swish_quotient, which has the roundings of its operators, x ** 3 becomes (x * x) * x, and tanh and sigmoid have
    onnxruntime's bits, and so stay out of gelu, silu and mish.
    """
    new = Rewrite(graph)
    rounded = any(node.op == "dynamic_range" for node in graph.nodes)
    for node in graph.nodes:
        recognised = _recognise(new, node)
        if recognised is None and rounded:
            recognised = _with_onnxruntimes_bits(new, node)
        if recognised is None:
            new.keep(node)
        else:
            op, inputs, attrs = recognised
            if rounded and op == "hard_swish" and _is_quotient(new, node, inputs[0]):
                op = "hard_swish_quotient"
            new.into(node.output, op, inputs, node.origin, **attrs)
    return new.finish()


Found = tuple[str, tuple[str, ...], Mapping[str, float]] | None
NO_ATTRS: Mapping[str, float] = MappingProxyType({})


def _recognise(new: Rewrite, node: Node) -> Found:
    """Return the operator, inputs and attributes of the activation that ends in a node, by the first rule that fits."""
    if new.types[node.output].dtype != "f32":
        return None
    renamed = node.with_inputs({n: new.of(n) for n in node.inputs})
    return next((f for f in (rule(new, renamed) for rule in RULES.get(node.op, ())) if f is not None), None)


def _with_onnxruntimes_bits(new: Rewrite, node: Node) -> Found:
    """Match an operator whose bits differ from onnxruntime's otherwise."""
    if new.types[node.output].dtype != "f32":
        return None
    x = new.of(node.inputs[0])
    if node.op in ("tanh", "sigmoid"):
        return f"{node.op}_quotient", (x,), NO_ATTRS
    cube = node.op == "pow" and scalar_of(new.array(new.of(node.inputs[1]))) == 3.0
    if not cube or new.types[x] != new.types[node.output]:
        return None
    return "mul", (new.add("mul", (x, x), node.output, node.origin), x), NO_ATTRS


def _is_quotient(new: Rewrite, node: Node, x: str) -> bool:
    """True if a node is x * clip(x + 3, 0, 6) / 6, operator for operator."""
    product = _maker(new, new.of(node.inputs[0]), "mul")
    if node.op != "div" or product is None or scalar_of(new.array(new.of(node.inputs[1]))) != 6.0:
        return False
    return x in product.inputs and any(_relu6_of_plus_3(new, gate) == x for gate in product.inputs)


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=CLOSE)


def _maker(new: Rewrite, name: str, op: str) -> Node | None:
    node = new.made.get(name)
    return node if node is not None and node.op == op else None


def _constant_operand(new: Rewrite, node: Node) -> tuple[str, float] | None:
    """Return (computed operand, value) of a binary node whose other operand is a constant of one value, or None."""
    for x, constant in (node.inputs, node.inputs[::-1]):
        value = scalar_of(new.array(constant))
        if value is not None and new.array(x) is None and new.types[x] == new.types[node.output]:
            return x, value
    return None


def _multiples_of(new: Rewrite, name: str) -> Iterator[tuple[str, float]]:
    """Yield all (t, k) with name == t * k, beginning with (name, 1)."""
    factor = 1.0
    yield name, factor
    for _ in range(STEPS):
        node = new.made.get(name)
        if node is None or node.op not in ("mul", "div"):
            return
        operand = _constant_operand(new, node)
        if operand is None or (node.op == "div" and (operand[0] != node.inputs[0] or operand[1] == 0)):
            return
        name = operand[0]
        factor = factor * operand[1] if node.op == "mul" else factor / operand[1]
        yield name, factor


def _plus(new: Rewrite, name: str, number: float) -> str | None:
    """Return t such that name == t + number, or None."""
    node = _maker(new, name, "add")
    operand = _constant_operand(new, node) if node is not None else None
    return operand[0] if operand is not None and _close(operand[1], number) else None


def _multiple(new: Rewrite, name: str, base: str, factor: float) -> bool:
    """True if name == base * factor."""
    return any(t == base and _close(k, factor) for t, k in _multiples_of(new, name))


def _relu6_of_plus_3(new: Rewrite, name: str) -> str | None:
    """Return t such that name == clip(t + 3, 0, 6), or None."""
    node = _maker(new, name, "clip")
    if node is None or node.attr("lo") != 0.0 or node.attr("hi") != 6.0:
        return None
    return _plus(new, node.inputs[0], 3.0)


def _gate(new: Rewrite, x: str, gate: str) -> tuple[str, float, Mapping[str, float]] | None:
    """Return (activation, k, attributes) such that the activation of x is x * gate * k, or None."""
    node = new.made.get(gate)
    if node is None:
        return None
    if node.op == "sigmoid" and node.inputs[0] == x:
        return "silu", 1.0, NO_ATTRS
    if node.op == "hard_sigmoid" and node.inputs[0] == x:
        sixth = _close(node.attr("alpha"), 1 / 6) and _close(node.attr("beta"), 0.5)
        return ("hard_swish", 1.0, NO_ATTRS) if sixth else None
    if node.op == "tanh" and (inner := _maker(new, node.inputs[0], "softplus")) is not None:
        return ("mish", 1.0, NO_ATTRS) if inner.inputs[0] == x else None
    if _relu6_of_plus_3(new, gate) == x:
        return "hard_swish", 1 / 6, NO_ATTRS
    inner = new.made.get(_plus(new, gate, 1.0) or "")
    if inner is not None and inner.op == "erf" and _multiple(new, inner.inputs[0], x, math.sqrt(0.5)):
        return "gelu", 0.5, {"tanh": False}
    if inner is not None and inner.op == "tanh" and _gelu_polynomial(new, inner.inputs[0], x):
        return "gelu", 0.5, {"tanh": True}
    return None


def _gelu_polynomial(new: Rewrite, name: str, x: str) -> bool:
    """True if name == sqrt(2 / pi) * (x + 0.044715 * x ** 3)."""
    for total, factor in _multiples_of(new, name):
        node = _maker(new, total, "add")
        if node is None or x not in node.inputs or not _close(factor, math.sqrt(2 / math.pi)):
            continue
        cubic_term = node.inputs[1 - node.inputs.index(x)]
        if any(_close(k, 0.044715) and _cube(new, t, x) for t, k in _multiples_of(new, cubic_term)):
            return True
    return False


def _cube(new: Rewrite, name: str, x: str) -> bool:
    node = new.made.get(name)
    if node is None:
        return False
    if node.op == "pow":
        return node.inputs[0] == x and scalar_of(new.array(node.inputs[1])) == 3.0
    square = node.op == "mul" and x in node.inputs and new.made.get(node.inputs[1 - node.inputs.index(x)])
    return bool(square and square.op == "mul" and square.inputs == (x, x))


def _product(new: Rewrite, node: Node) -> Found:
    """Match a mul or div that is the last operator of an activation."""
    for total, outer in _multiples_of_node(new, node):
        hard = _relu6_of_plus_3(new, total)
        if hard is not None and _close(outer, 1 / 6):
            return "hard_sigmoid", (hard,), {"alpha": 1 / 6, "beta": 0.5}
        product = node if total == node.output else _maker(new, total, "mul")
        if product is None or product.op != "mul":
            continue
        for a, b in (product.inputs, product.inputs[::-1]):
            for x, k1 in _multiples_of(new, a):
                for gate, k2 in _multiples_of(new, b):
                    gated = _gate(new, x, gate)
                    same = gated is not None and new.types[x] == new.types[node.output]
                    if gated is not None and same and _close(gated[1], outer * k1 * k2):
                        return gated[0], (x,), gated[2]
    return None


def _multiples_of_node(new: Rewrite, node: Node) -> Iterator[tuple[str, float]]:
    """Yield the same as _multiples_of, for the output of a node that is not in the new graph yet."""
    yield node.output, 1.0
    operand = _constant_operand(new, node)
    if operand is not None and (node.op == "mul" or (operand[0] == node.inputs[0] and operand[1] != 0)):
        factor = operand[1] if node.op == "mul" else 1 / operand[1]
        for name, inner in _multiples_of(new, operand[0]):
            yield name, inner * factor


def _bounds(new: Rewrite, node: Node) -> tuple[str, float, float] | None:
    """Return (t, lo, hi) if a node is clip(t, lo, hi)."""
    if node.op == "relu":
        return node.inputs[0], 0.0, math.inf
    if node.op == "clip":
        return node.inputs[0], float(node.attr("lo")), float(node.attr("hi"))
    operand = _constant_operand(new, node) if node.op in ("max", "min") else None
    if operand is None or math.isnan(operand[1]):
        return None
    return (operand[0], operand[1], math.inf) if node.op == "max" else (operand[0], -math.inf, operand[1])


def _merge_clips(new: Rewrite, node: Node) -> Found:
    """Merge successive clips, relus, maxima and minima with constants into one clip or relu."""
    bounds = _bounds(new, node)
    if bounds is None:
        return None
    name, lo, hi = bounds
    while (maker := new.made.get(name)) is not None and (inner := _bounds(new, maker)) is not None:
        if inner[1] > inner[2]:
            break
        name, lo, hi = inner[0], min(max(inner[1], lo), hi), min(max(inner[2], lo), hi)
    if (lo, hi) == (0.0, math.inf):
        return ("relu", (name,), NO_ATTRS) if (node.op, node.inputs[0]) != ("relu", name) else None
    return "clip", (name,), {"lo": lo, "hi": hi}


def _leaky(new: Rewrite, node: Node) -> Found:
    """Match max(x, x * alpha) with alpha between 0 and 1."""
    for x, scaled in (node.inputs, node.inputs[::-1]):
        alpha = next((k for t, k in _multiples_of(new, scaled) if t == x and 0 < k < 1), None)
        if alpha is not None:
            return "leaky_relu", (x,), {"alpha": alpha}
    return None


def _prelu(new: Rewrite, node: Node) -> Found:
    alpha = scalar_of(new.array(node.inputs[1]))
    return None if alpha is None else ("leaky_relu", (node.inputs[0],), {"alpha": alpha})


def _pow(new: Rewrite, node: Node) -> Found:
    x, exponent = node.inputs
    square = scalar_of(new.array(exponent)) == 2.0 and new.types[x] == new.types[node.output]
    return ("mul", (x, x), NO_ATTRS) if square else None


def _div(new: Rewrite, node: Node) -> Found:
    """Rewrite a division by powers of two as a multiplication, which is exact."""
    array = new.array(node.inputs[1])
    if array is None or not array.size or not np.isfinite(array).all() or not array.all():
        return None
    reciprocal = (1.0 / array.astype(np.float64)).astype(array.dtype)
    powers = (np.abs(np.frexp(array)[0]) == 0.5) & np.isfinite(reciprocal) & (np.abs(reciprocal) > 2.0**-126)
    if not powers.all():
        return None
    return "mul", (node.inputs[0], new.constant(reciprocal, node.inputs[1])), NO_ATTRS


Rule = Callable[[Rewrite, Node], Found]
RULES: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "mul": (_product,),
        "div": (_product, _div),
        "relu": (_merge_clips,),
        "clip": (_merge_clips,),
        "min": (_merge_clips,),
        "max": (_merge_clips, _leaky),
        "prelu": (_prelu,),
        "pow": (_pow,),
    }
)
