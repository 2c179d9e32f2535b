"""Loops over the lines of a normalised tensor, with partial sums in the lanes of a vector."""

from collections.abc import Callable

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Node
from mavcg.kernels.builder.emit import (
    F32,
    I32,
    Values,
    address,
    const,
    for_range,
    load_vector,
    scale_index,
    splat,
)
from mavcg.kernels.builder.nest import (
    Nest,
    advance,
    load_lanes,
    shuffle,
)
from mavcg.specs.kernel import F32_BYTES, View

PARTS = 16  # partial sums of a line, in one vector; part of the spec, so that sums have the same order on every core


def refuse_other_types(node: Node, view: View) -> None:
    """Raise MavcgError unless a node's tensor has elements of f32."""
    if view.dtype != "f32":
        raise MavcgError(f"node '{node.origin}' ({node.op}): no kernel for {view.dtype}; cast to f32 before it")


def over_lines(
    b: ir.IRBuilder, nest: Nest, pointers: list[ir.Value], acc: Values, line: Callable[[list[ir.Value], Values], Values]
) -> Values:
    """Emit acc = line(addresses, acc) for each run along the nest's innermost dimension; return the final acc."""

    def level(dim: int, addresses: list[ir.Value], acc: Values) -> Values:
        if dim == len(nest.shape) - 1:
            return line(addresses, acc)
        steps = [strides[dim] for strides in nest.strides]

        def iteration(i: ir.Value, carried: Values) -> Values:
            return level(dim + 1, advance(b, addresses, steps, i, (F32_BYTES,) * len(steps)), carried)

        return for_range(b, const(0), const(nest.shape[dim]), 1, acc, iteration, f"i{dim}")

    return level(0, pointers, acc)


def along_vectors(
    b: ir.IRBuilder, length: int, lanes: int, acc: Values, body: Callable[[ir.Value, int, Values], Values]
) -> Values:
    """Emit acc = body(index, used lanes, acc) for each vector of a line; the last may be partial. Return the final
    acc."""
    whole = length // lanes * lanes
    acc = for_range(b, const(0), const(whole), lanes, acc, lambda i, carried: body(i, lanes, carried), "part")
    return body(const(whole), length - whole, acc) if length > whole else acc


def sum_of_lanes(b: ir.IRBuilder, parts: ir.Value) -> ir.Value:
    """Return the sum of all lanes, by halves."""
    if not isinstance(parts.type, ir.VectorType):
        return parts
    width = int(parts.type.count)
    while width > 1:
        width //= 2
        low, high = (shuffle(b, parts, parts, range(first, first + width)) for first in (0, width))
        parts = b.fadd(low, high)
    return b.extract_element(parts, const(0, I32), name="total")


def load_of_line(b: ir.IRBuilder, pointer: ir.Value, i: ir.Value, step: int, lanes: int, used: int) -> ir.Value:
    """Return a vector of a line's elements from number i on. step: 1 (contiguous) or 0 (broadcast)."""
    at = address(b, pointer, scale_index(b, i, step * F32_BYTES))
    return splat(b, load_vector(b, at, F32), lanes) if step == 0 else load_lanes(b, at, F32, lanes, used)
