"""Recognises activation functions written as several operators, and replaces each by one operator."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from mavcg.graph import Graph, Node
from mavcg.passes.graph.gated_activations import (
    NO_ATTRS,
    Found,
    constant_operand,
    gated_product,
    is_hard_swish_quotient,
    multiples_of,
)
from mavcg.passes.graph.rewrite import Rewrite, scalar_of


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
            if rounded and op == "hard_swish" and is_hard_swish_quotient(new, node, inputs[0]):
                op = "hard_swish_quotient"
            new.into(node.output, op, inputs, node.origin, **attrs)
    return new.finish()


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


def _bounds(new: Rewrite, node: Node) -> tuple[str, float, float] | None:
    """Return (t, lo, hi) if a node is clip(t, lo, hi)."""
    if node.op == "relu":
        return node.inputs[0], 0.0, math.inf
    if node.op == "clip":
        return node.inputs[0], float(node.attr("lo")), float(node.attr("hi"))
    operand = constant_operand(new, node) if node.op in ("max", "min") else None
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
        alpha = next((k for t, k in multiples_of(new, scaled) if t == x and 0 < k < 1), None)
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
        "mul": (gated_product,),
        "div": (gated_product, _div),
        "relu": (_merge_clips,),
        "clip": (_merge_clips,),
        "min": (_merge_clips,),
        "max": (_merge_clips, _leaky),
        "prelu": (_prelu,),
        "pow": (_pow,),
    }
)
