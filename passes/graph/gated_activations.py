"""Matches activations that are a value times a gate of it, such as x * sigmoid(x), by any order of the factors."""

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from mavcg.graph import Node
from mavcg.passes.graph.rewrite import Rewrite, scalar_of

CLOSE = 2e-6  # relative tolerance for constants, which model files round, some to six digits
STEPS = 3  # maximum of successive multiplications by constants that a match follows

Found = tuple[str, tuple[str, ...], Mapping[str, float]] | None
NO_ATTRS: Mapping[str, float] = MappingProxyType({})


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=CLOSE)


def _maker(new: Rewrite, name: str, op: str) -> Node | None:
    node = new.made.get(name)
    return node if node is not None and node.op == op else None


def constant_operand(new: Rewrite, node: Node) -> tuple[str, float] | None:
    """Return (computed operand, value) of a binary node whose other operand is a constant of one value, or None."""
    for x, constant in (node.inputs, node.inputs[::-1]):
        value = scalar_of(new.array(constant))
        if value is not None and new.array(x) is None and new.types[x] == new.types[node.output]:
            return x, value
    return None


def multiples_of(new: Rewrite, name: str) -> Iterator[tuple[str, float]]:
    """Yield all (t, k) with name == t * k, beginning with (name, 1)."""
    factor = 1.0
    yield name, factor
    for _ in range(STEPS):
        node = new.made.get(name)
        if node is None or node.op not in ("mul", "div"):
            return
        operand = constant_operand(new, node)
        if operand is None or (node.op == "div" and (operand[0] != node.inputs[0] or operand[1] == 0)):
            return
        name = operand[0]
        factor = factor * operand[1] if node.op == "mul" else factor / operand[1]
        yield name, factor


def _plus(new: Rewrite, name: str, number: float) -> str | None:
    """Return t such that name == t + number, or None."""
    node = _maker(new, name, "add")
    operand = constant_operand(new, node) if node is not None else None
    return operand[0] if operand is not None and _close(operand[1], number) else None


def _multiple(new: Rewrite, name: str, base: str, factor: float) -> bool:
    """True if name == base * factor."""
    return any(t == base and _close(k, factor) for t, k in multiples_of(new, name))


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
    for total, factor in multiples_of(new, name):
        node = _maker(new, total, "add")
        if node is None or x not in node.inputs or not _close(factor, math.sqrt(2 / math.pi)):
            continue
        cubic_term = node.inputs[1 - node.inputs.index(x)]
        if any(_close(k, 0.044715) and _cube(new, t, x) for t, k in multiples_of(new, cubic_term)):
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


def gated_product(new: Rewrite, node: Node) -> Found:
    """Match a mul or div that is the last operator of an activation."""
    for total, outer in _multiples_of_node(new, node):
        hard = _relu6_of_plus_3(new, total)
        if hard is not None and _close(outer, 1 / 6):
            return "hard_sigmoid", (hard,), {"alpha": 1 / 6, "beta": 0.5}
        product = node if total == node.output else _maker(new, total, "mul")
        if product is None or product.op != "mul":
            continue
        for a, b in (product.inputs, product.inputs[::-1]):
            for x, k1 in multiples_of(new, a):
                for gate, k2 in multiples_of(new, b):
                    gated = _gate(new, x, gate)
                    same = gated is not None and new.types[x] == new.types[node.output]
                    if gated is not None and same and _close(gated[1], outer * k1 * k2):
                        return gated[0], (x,), gated[2]
    return None


def _multiples_of_node(new: Rewrite, node: Node) -> Iterator[tuple[str, float]]:
    """Yield the same as multiples_of, for the output of a node that is not in the new graph yet."""
    yield node.output, 1.0
    operand = constant_operand(new, node)
    if operand is not None and (node.op == "mul" or (operand[0] == node.inputs[0] and operand[1] != 0)):
        factor = operand[1] if node.op == "mul" else 1 / operand[1]
        for name, inner in multiples_of(new, operand[0]):
            yield name, inner * factor


def is_hard_swish_quotient(new: Rewrite, node: Node, x: str) -> bool:
    """True if a node is x * clip(x + 3, 0, 6) / 6, operator for operator."""
    product = _maker(new, new.of(node.inputs[0]), "mul")
    if node.op != "div" or product is None or scalar_of(new.array(new.of(node.inputs[1]))) != 6.0:
        return False
    return x in product.inputs and any(_relu6_of_plus_3(new, gate) == x for gate in product.inputs)
