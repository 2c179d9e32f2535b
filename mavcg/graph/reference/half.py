"""Evaluation of a graph of f16 or bf16 with the roundings of its kernels: sums of f16 in blocks and groups of blocks.

Sums may be in f16 throughout instead, as other runtimes add.

The kernels' sums of a block may be in another order, or in several chains: this gives the size of errors, not the bits.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.graph import Array, Graph, Node
from mavcg.graph.reference.elementwise import apply_activation
from mavcg.graph.reference.evaluate import evaluate
from mavcg.graph.reference.spatial import taps

BLOCK, GROUP = 64, 1024  # terms that are added in f16 one by one; of the blocks that are added in f16
MOST_MACS = 1 << 29  # of a graph whose sums are rounded term by term, some seconds; sums of a larger one are exact
_CHUNK = 1 << 18  # elements of sums at a time, which stay in a cache
_SPLITTER = np.float32(8193)  # 2^13 + 1 leaves 11 bits of a product; Dekker, "A Floating-Point Technique" (1971)


@dataclass(frozen=True)
class SumBlocks:
    """The parts of a sum of f16 products; groups are added in f32.

    block: terms that are added in f16 one by one. group: terms of the blocks that are added in f16, at least block.
    """

    block: int = BLOCK
    group: int = GROUP


IN_BLOCKS, THROUGHOUT = SumBlocks(), SumBlocks(sys.maxsize, sys.maxsize)


def round_to_half(x: Array) -> Array:
    """Return f32 numbers rounded to the 11 bits of f16, in f32: its range is left out, which a conversion applies."""
    scaled = x * _SPLITTER
    return np.asarray(scaled - (scaled - x))


def sums_in_blocks(rows: Array, columns: Array, sums: SumBlocks = IN_BLOCKS) -> Array:
    """Return rows @ columns with the sums of each block of terms in f16, of blocks in f16 within a group, then in f32.

    rows: [m, k] f16. columns: [k, n] f16. Returns: [m, n] f32.
    """
    x, w = rows.astype(np.float32), columns.astype(np.float32)
    total = np.zeros((x.shape[0], w.shape[1]), np.float32)
    step = max(1, _CHUNK // max(1, w.shape[1]))
    for first in range(0, x.shape[0], step):
        some = x[first : first + step]
        for group in range(0, w.shape[0], sums.group):
            blocks = np.zeros((some.shape[0], w.shape[1]), np.float32)
            for block in range(group, min(group + sums.group, w.shape[0]), sums.block):
                acc = np.zeros(blocks.shape, np.float32)
                for k in range(block, min(block + sums.block, w.shape[0])):
                    acc = round_to_half(acc + some[:, k, None] * w[k])
                blocks = round_to_half(blocks + acc)
            total[first : first + step] += blocks
    return total


def evaluate_half(node: Node, inputs: Sequence[Array | None], sums: SumBlocks | None) -> Array:
    """Return the output of a node, of f16 or of other types; sums of bf16 are exact until their rounding.

    sums: how f16 products are added; None: exactly. Raises: MavcgError as evaluate.
    """
    product = _PRODUCTS.get(node.op) if np.asarray(inputs[0]).dtype == np.float16 else None
    if product is None or sums is None:
        return evaluate(node, inputs)[0]
    with np.errstate(all="ignore"):
        return _finish(node, product(node, inputs, sums), inputs)


def rounds_terms(graph: Graph) -> bool:
    """Return True if a graph has few enough products that their sums are rounded term by term."""
    return _macs(graph) <= MOST_MACS


def run_half(
    graph: Graph, arrays: Sequence[Array], seen: Callable[[Node, Array], None], sums: SumBlocks = IN_BLOCKS
) -> tuple[Array, ...]:
    """Return the outputs of a graph of f16, bf16 and other types.

    arrays: its inputs, in order. seen: called with each node and its result. sums: how products are added where their
    sums are rounded term by term (rounds_terms). Raises: MavcgError as evaluate.
    """
    values: dict[str, Array] = {**graph.constants, **dict(zip(graph.inputs, arrays, strict=True))}
    rounded = sums if rounds_terms(graph) else None
    last = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
    for i, node in enumerate(graph.nodes):
        result = evaluate_half(node, [values[name] if name else None for name in node.inputs], rounded)
        values[node.output] = result
        seen(node, result)
        for name in {*node.inputs, node.output}:
            if last.get(name, i) == i and name not in graph.outputs:
                values.pop(name, None)
    return tuple(values[name] for name in graph.outputs)


def _conv2d(node: Node, inputs: Sequence[Array | None], sums: SumBlocks) -> Array:
    """Return the sums of a convolution, the terms in the order rows, columns, channels of the window."""
    x, w = np.asarray(inputs[0]), np.asarray(inputs[1])
    groups, kernel = node.attr("groups"), (w.shape[1], w.shape[2])
    seen = [pixels for _, _, pixels in taps(node, x, kernel, 0)]  # of each position of the window: [N, OH, OW, C]
    shape = seen[0].shape[:3]
    if w.shape[3] == 1 and groups == x.shape[3] == w.shape[0]:  # depthwise: a sum of each channel's taps
        total = np.zeros(seen[0].shape, np.float32)
        for pixels, weights in zip(seen, w[..., 0].reshape(groups, -1).T.astype(np.float32), strict=True):
            total = round_to_half(total + pixels.astype(np.float32) * weights)
        return total
    channels, outputs = x.shape[3] // groups, w.shape[0] // groups
    parts = []
    for group in range(groups):
        rows = [pixels[..., group * channels : (group + 1) * channels].reshape(-1, channels) for pixels in seen]
        columns = w[group * outputs : (group + 1) * outputs].reshape(outputs, -1).T
        parts.append(sums_in_blocks(np.concatenate(rows, axis=1), columns, sums))
    return np.concatenate(parts, axis=1).reshape(*shape, w.shape[0])


def _matmul(node: Node, inputs: Sequence[Array | None], sums: SumBlocks) -> Array:
    a, b = np.asarray(inputs[0]), np.asarray(inputs[1])
    b = np.swapaxes(b, -1, -2) if node.attr("transpose_b") else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
    right = np.broadcast_to(b, (*batch, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
    products = [sums_in_blocks(rows, columns, sums) for rows, columns in zip(left, right, strict=True)]
    return (
        np.stack(products).reshape(*batch, a.shape[-2], b.shape[-1])
        if products
        else np.zeros((*batch, 0, 0), np.float32)
    )


_PRODUCTS: Mapping[str, Callable[[Node, Sequence[Array | None], SumBlocks], Array]] = {
    "conv2d": _conv2d,
    "matmul": _matmul,
}


def _finish(node: Node, sums: Array, inputs: Sequence[Array | None]) -> Array:
    """Return sums with bias, residual and activation, which are f32, rounded to f16 once."""
    for added in inputs[2:]:
        sums = sums if added is None else sums + added.astype(np.float32)
    return apply_activation(node, sums).astype(np.float16)


def _macs(graph: Graph) -> int:
    """Return the multiply-accumulates of the products that are rounded term by term."""
    macs = 0
    for node in graph.nodes:
        if node.op in _PRODUCTS:
            shape = graph.shape(node.inputs[1])
            terms = graph.shape(node.inputs[0])[-1] if node.op == "matmul" else int(np.prod(shape[1:]))
            macs += graph.types[node.output].elements * terms
    return macs
