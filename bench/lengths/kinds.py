"""The kinds of operators of random graphs with a symbolic dimension, and graphs drawn from them."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from bench.lengths import kinds_images as images
from bench.lengths import kinds_layers as layers
from bench.lengths import kinds_shapes as shapes
from bench.lengths import kinds_values as values
from bench.lengths.growing import SYMBOL, LengthPart, Shape, UnsuitableError

Kind = Callable[[LengthPart], Any]
INPUT_SHAPES: tuple[Shape, ...] = (
    (1, SYMBOL, 8),
    (1, SYMBOL, 5),
    (SYMBOL, 16),
    (SYMBOL, 3),
    (1, SYMBOL),
    (SYMBOL,),
    (1, 1, SYMBOL, 6),
    (SYMBOL, 4, 6),
    (SYMBOL, 3, 6, 5),
    (SYMBOL, 8, 4, 4),
    (1, SYMBOL, 2, 4),
    (1, 3, SYMBOL, SYMBOL),
    (SYMBOL, 4, SYMBOL),
)
# In one library with dynamic quantization, attention of one length has another order of sums than that of any length.
ATTENTION = frozenset({"attention", "attention node", "multi head"})
DYNAMIC = frozenset({"dynamic"})
KINDS: Mapping[str, tuple[int, Kind]] = {  # name: (first opset, function)
    **{f"unary {i}": (17, values.unary) for i in range(3)},
    **{f"constant {i}": (17, values.with_constant) for i in range(3)},
    **{f"product {i}": (17, values.product) for i in range(3)},
    "tensor": (17, values.with_tensor),
    "broadcast": (17, values.with_broadcast),
    "select": (17, values.select),
    "clip": (17, values.clip),
    "gemm": (17, values.gemm),
    "norm": (17, values.normalised),
    "rms": (23, values.rms),
    "softmax": (17, values.softmax),
    "reduction": (17, values.reduction),
    "centred": (17, values.centred),
    "concat": (17, shapes.concatenated),
    "slice": (17, shapes.sliced),
    "first": (17, shapes.first),
    "last": (17, shapes.last),
    "shifted": (17, shapes.shifted),
    "split": (17, shapes.split),
    "transpose": (17, shapes.transposed),
    "reshape": (17, shapes.reshaped),
    "squeeze": (17, shapes.squeezed),
    "unsqueeze": (17, shapes.unsqueezed),
    "embedding": (17, shapes.embedded),
    "gather": (17, shapes.gathered),
    "largest": (17, shapes.largest),
    "convolution": (17, layers.convolution),
    "window": (17, layers.window),
    "pool": (17, layers.pooled),
    "plane": (17, layers.plane),
    "batch norm": (17, values.batch_norm),
    "attention": (17, layers.attention),
    "attention node": (23, layers.attention_node),
    "multi head": (17, layers.multi_head),
    "divided": (17, values.divided_by_length),
    "dynamic": (17, layers.dynamic_product),
    "quantised": (17, layers.quantised_product),
    "pad": (17, shapes.padded),
    "tile": (17, shapes.tiled),
    "cumsum": (17, values.summed),
    "top": (17, shapes.top),
    "recurrent": (17, layers.recurrent),
    "einsum": (17, values.einsum),
    "of heads": (17, values.of_heads),
    "gram": (17, values.gram),
    "instance norm": (17, images.instance_norm),
    "group norm": (21, images.group_norm),
    "resized": (17, images.resized),
    "upsampled": (17, images.upsampled),
    "transposed window": (17, images.transposed_window),
    "pyramid": (17, images.pyramid),
}


def random_graph(seed: int, number: int, opset: int, without: Collection[str]) -> LengthPart:
    """Return graph `number` of a seed: inputs, operators of other kinds than `without`, and what no other reads."""
    rng = np.random.default_rng([seed, number])
    part = LengthPart(f"g{number}_", opset, rng, number=number)
    part.given(part.pick(*INPUT_SHAPES))
    names = [name for name, (since, _) in KINDS.items() if since <= opset and name not in without]
    chosen = [names[i] for i in rng.permutation(len(names))[: int(rng.integers(3, 16))]]
    wanted, tries = int(rng.integers(1, 9)), 0
    while len(part.operators) < wanted and tries < 60:
        tries += 1
        before = (len(part.nodes), len(part.constants), len(part.operators), dict(part.inputs), dict(part.shapes))
        try:
            KINDS[part.pick(*chosen)][1](part)
        except UnsuitableError:
            del part.nodes[before[0] :], part.constants[before[1] :], part.operators[before[2] :]
            part.inputs, part.shapes = before[3], before[4]
    if not part.nodes:
        part.unary("Relu", part.tensor(most_symbols=3))
    read = {name for node in part.nodes for name in node.input}
    results = [name for node in part.nodes for name in node.output if name in part.shapes]
    part.outputs = [name for name in results if name not in read] or results[-1:]
    unread = [name for name in part.inputs if name not in read]
    for name in unread:
        del part.inputs[name]
    return part
