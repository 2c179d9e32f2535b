"""Removes needless data movement and common subexpressions."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from mavcg.graph import Array, Graph, Node, TensorType
from mavcg.passes.graph.rewrite import Rewrite, scalar_of, until_stable

SAMPLE = 64  # elements of a constant that serve as its hash key


def prune(graph: Graph) -> Graph:
    """Apply all passes of this module until nothing changes."""
    return until_stable(lambda g: merge_moves(merge_equal(g)), graph)


def merge_equal(graph: Graph) -> Graph:
    """Merge nodes with equal operator, attributes and inputs, and constants with equal elements.

    Before:
        input %x: f32[2]
        const %c: f32[1] = {3.0}
        const %d: f32[1] = {3.0}
        %a = mul(%x, %c)
        %b = mul(%x, %d)
        %y = add(%a, %b)
        return %y
    After:
        input %x: f32[2]
        const %c: f32[1] = {3.0}
        %a = mul(%x, %c)
        %y = add(%a, %a)
        return %y
    """
    new = Rewrite(graph)
    for twin, first in _equal_constants(graph.constants).items():
        new.alias(twin, first)
    seen: dict[object, tuple[str, ...]] = {}
    for node in graph.nodes:
        key = (node.op, tuple(new.of(name) for name in node.inputs), repr(node.attrs), tuple(map(bool, node.outputs)))
        if key not in seen:
            seen[key] = node.outputs
            new.keep(node)
            continue
        for output, first in zip(node.outputs, seen[key], strict=True):
            new.alias(output, first)
    return new.finish()


def _equal_constants(constants: Mapping[str, Array]) -> dict[str, str]:
    """Return constant -> an equal constant whose name sorts before it."""
    groups: dict[object, list[str]] = {}
    twins = {}
    for name in sorted(constants):
        array = constants[name]
        sample = array.reshape(-1)[:: max(1, array.size // SAMPLE)]
        group = groups.setdefault((array.dtype.str, array.shape, sample.tobytes()), [])
        twin = next((first for first in group if _same_bits(constants[first], array)), None)
        if twin is None:
            group.append(name)
        else:
            twins[name] = twin
    return twins


def _same_bits(a: Array, b: Array) -> bool:
    """True if two arrays of one type and shape have the same bits: 0.0 and -0.0 differ, a NaN equals itself."""
    plain = np.dtype(f"u{a.dtype.itemsize}")
    return a is b or bool(np.array_equal(a.view(plain), b.view(plain)))


def merge_moves(graph: Graph) -> Graph:
    """Merge consecutive nodes that only move data, and remove nodes that do nothing.

    Before:
        input %x: f32[2,3]
        input %z: f32[1,4]
        %r = reshape(%x) shape=[6]
        %s = reshape(%r) shape=[1,6]
        %c = concat(%s, %z) axis=1
        %d = concat(%c, %z) axis=1
        %t = slice(%d) starts=[0,6] stops=[1,10] steps=[1,1]
        return %d, %t
    After:
        input %x: f32[2,3]
        input %z: f32[1,4]
        %s = reshape(%x) shape=[1,6]
        %d = concat(%s, %z, %z) axis=1
        %t = reshape(%z) shape=[1,4]
        return %d, %t

    Also merged: transposes of transposes, slices of slices, casts of exact casts. Also removed: a concat of one tensor,
    a clip without bounds, a pad by nothing, x * 1 and x + 0. An inner concat with other readers stays.
    """
    new = Rewrite(graph)
    for node in graph.nodes:
        rule = RULES.get(node.op)
        same = rule(new, node) if rule else None
        if same is None:
            new.keep(node)
        elif same != node.output:
            new.alias(node.output, same)
    return new.finish()


def _reshape(new: Rewrite, node: Node) -> str | None:
    source, shape = new.of(node.inputs[0]), node.attr("shape")
    prior = new.made.get(source)
    if prior is not None and prior.op == "reshape":
        source = prior.inputs[0]
        if new.types[source].shape != shape:
            return new.into(node.output, "reshape", (source,), node.origin, shape=shape)
    return source if new.types[source].shape == shape else None


def _transpose(new: Rewrite, node: Node) -> str | None:
    source, perm = new.of(node.inputs[0]), node.attr("perm")
    prior = new.made.get(source)
    if prior is not None and prior.op == "transpose":
        source, perm = prior.inputs[0], tuple(prior.attr("perm")[p] for p in perm)
        if perm != tuple(range(len(perm))):
            return new.into(node.output, "transpose", (source,), node.origin, perm=perm)
    return source if perm == tuple(range(len(perm))) else None


def _concat(new: Rewrite, node: Node) -> str | None:
    axis = node.attr("axis")
    parts: list[str] = []
    for name in node.inputs:
        prior = new.made.get(new.of(name))
        inner = prior is not None and prior.op == "concat" and prior.attr("axis") == axis and new.only_reader(name)
        parts += prior.inputs if inner and prior is not None else (new.of(name),)
    parts = [p for p in parts if new.types[p].shape[axis] > 0] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return new.into(node.output, "concat", parts, node.origin, axis=axis) if len(parts) != len(node.inputs) else None


def _slice(new: Rewrite, node: Node) -> str | None:
    source = new.of(node.inputs[0])
    starts, stops, steps = (tuple(node.attr(name)) for name in ("starts", "stops", "steps"))
    if any(step != 1 for step in steps) or node.output in new.old.kept:
        return None
    prior = new.made.get(source)
    if (
        prior is not None
        and prior.op == "slice"
        and prior.output not in new.old.kept
        and all(step == 1 for step in prior.attr("steps"))
    ):
        source, outer = prior.inputs[0], prior.attr("starts")
        starts = tuple(a + b for a, b in zip(outer, starts, strict=True))
    elif prior is not None and prior.op == "concat" and (part := sliced_input(new.types, prior, starts, stops)):
        source, before = part
        starts = tuple(s - before * (d == prior.attr("axis")) for d, s in enumerate(starts))
    shape = new.types[node.output].shape
    if new.types[source].shape == shape:
        return source
    if source == new.of(node.inputs[0]):
        return None
    stops = tuple(a + b for a, b in zip(starts, shape, strict=True))
    return new.into(node.output, "slice", (source,), node.origin, starts=starts, stops=stops, steps=steps)


def sliced_input(
    types: Mapping[str, TensorType], concat: Node, starts: tuple[int, ...], stops: tuple[int, ...]
) -> tuple[str, int] | None:
    """Return the input of a concat that a slice takes whole, and the total length of the inputs before it, or None.

    A part of an input at these lengths may be one of several inputs at others (docs/lengths.md).
    """
    axis, before = concat.attr("axis"), 0
    for name in concat.inputs:
        length = types[name].shape[axis]
        if before == starts[axis] and stops[axis] == before + length:
            return name, before
        before += length
    return None


_EXACT_IN: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "bool": frozenset(("u8", "i8", "u16", "i16", "i32", "u32", "i64", "u64", "f16", "f32", "f64")),
        "u8": frozenset(("u16", "i16", "i32", "u32", "i64", "u64", "f16", "f32", "f64")),
        "i8": frozenset(("i16", "i32", "i64", "f16", "f32", "f64")),
        "u16": frozenset(("i32", "u32", "i64", "u64", "f32", "f64")),
        "i16": frozenset(("i32", "i64", "f32", "f64")),
        "i32": frozenset(("i64", "f64")),
        "u32": frozenset(("i64", "u64", "f64")),
        "f16": frozenset(("f32", "f64")),
        "bf16": frozenset(("f32", "f64")),
        "f32": frozenset(("f64",)),
    }
)


def _cast(new: Rewrite, node: Node) -> str | None:
    source, to = new.of(node.inputs[0]), node.attr("to")
    prior = new.made.get(source)
    if prior is not None and prior.op == "cast":
        first, middle = new.types[prior.inputs[0]].dtype, new.types[source].dtype
        if middle in _EXACT_IN.get(first, ()):
            source = prior.inputs[0]
            if first != to:
                return new.into(node.output, "cast", (source,), node.origin, to=to)
    return source if new.types[source].dtype == to else None


def _same_shape(new: Rewrite, node: Node) -> str | None:
    source = new.of(node.inputs[0])
    return source if new.types[source] == new.types[node.output] else None


def _pad(new: Rewrite, node: Node) -> str | None:
    return None if any(node.attr("before")) or any(node.attr("after")) else new.of(node.inputs[0])


def _clip(new: Rewrite, node: Node) -> str | None:
    free = node.attr("lo") == -math.inf and node.attr("hi") == math.inf
    return new.of(node.inputs[0]) if free else None


def _reduce(new: Rewrite, node: Node) -> str | None:
    return None if node.attr("axes") else new.of(node.inputs[0])


def _neutral(value: float, either: bool) -> "Rule":
    """Return the rule for a binary operator whose neutral element is `value`; either: on both sides, else the right."""

    def rule(new: Rewrite, node: Node) -> str | None:
        a, b = (new.of(name) for name in node.inputs)
        for operand, constant in ((a, b), (b, a))[: 2 if either else 1]:
            if new.types[operand] == new.types[node.output] and scalar_of(new.array(constant)) == value:
                return operand
        return None

    return rule


Rule = Callable[[Rewrite, Node], str | None]
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "reshape": _reshape,
        "transpose": _transpose,
        "concat": _concat,
        "slice": _slice,
        "cast": _cast,
        "pad": _pad,
        "broadcast_to": _same_shape,
        "clip": _clip,
        "reduce_sum": _reduce,
        "reduce_mean": _reduce,
        "reduce_max": _reduce,
        "reduce_min": _reduce,
        "reduce_prod": _reduce,
        "add": _neutral(0, True),
        "sub": _neutral(0, False),
        "mul": _neutral(1, True),
        "div": _neutral(1, False),
        "pow": _neutral(1, False),
    }
)
