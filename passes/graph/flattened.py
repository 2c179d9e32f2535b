"""Finds images that are flattened for a matrix product with constant weights, whose rows can be reordered."""

from dataclasses import dataclass

import numpy as np

from mavcg.graph import Array, Graph, Node
from mavcg.graph.ops.elementwise import UNARY
from mavcg.passes.graph.permutation import Group, Perm, reshape_groups
from mavcg.passes.graph.rewrite import use_counts

CARRIERS = frozenset((*(op.name for op in UNARY), "cast"))


@dataclass(frozen=True)
class Flattened:
    """A reshape that merges dimensions of its input into its last one, which only such products read.

    groups: the dimensions that the reshape merges, in order; the last group is the flattened one.
    """

    groups: tuple[Group, ...]

    def rows(self, before: tuple[int, ...], perm: Perm) -> Array | None:
        """Return the permutation of the last dimension's elements if the input is stored transposed when reshaped.

        before: shape of the reshape's input, which is transpose(stored tensor, perm).
        Returns: i64[last dimension], the index in order of each element; None if reshaping the stored tensor is not
            possible, or leaves the elements in order.
        """
        *others, last = self.groups
        stored = sorted(last.before, key=lambda i: perm[i])
        order = [perm[i] for group in others for i in group.before] + [perm[i] for i in stored]
        if order != sorted(order) or stored == list(last.before):
            return None
        lengths = [before[i] for i in last.before]
        numbers = np.arange(int(np.prod(lengths)), dtype=np.int64).reshape(lengths)
        return np.ascontiguousarray(numbers.transpose([last.before.index(i) for i in stored]).reshape(-1))


def flattened_for_matmul(graph: Graph) -> dict[str, Flattened]:
    """Return the output of each such reshape of a graph -> the reshape."""
    readers, producers, uses = graph.readers(), graph.producers(), use_counts(graph)

    def constant_weights(node: Node) -> bool:
        name = node.inputs[1]
        maker = producers.get(name)
        if maker is None or maker.op != "dequantize":
            return name in graph.constants
        scalar = not graph.shape(maker.inputs[1])
        rank = len(graph.shape(name))
        row_axis = rank - 1 if node.attr("transpose_b") else rank - 2
        return maker.inputs[0] in graph.constants and (scalar or maker.attr("axis") != row_axis)

    for_matmul: set[str] = set()  # tensors read only by such products, directly or through element-wise operators

    def takes(name: str, node: Node) -> bool:
        if node.op == "matmul":
            return node.inputs[0] == name and constant_weights(node)
        scalar = node.op in ("quantize", "dequantize") and not graph.shape(node.inputs[1])
        return (node.op in CARRIERS or scalar) and node.output in for_matmul

    for node in reversed(graph.nodes):
        name, after_it = node.output, readers.get(node.output, ())
        if after_it and uses[name] == len(after_it) and all(takes(name, reader) for reader in after_it):
            for_matmul.add(name)
    flattened = {}
    for node in graph.nodes:
        after = graph.shape(node.output)
        if node.op != "reshape" or len(after) < 2 or not graph.types[node.output].elements:
            continue
        groups = reshape_groups(graph.shape(node.inputs[0]), after)
        flat = groups and groups[-1].after == (len(after) - 1,) and len(groups[-1].before) > 1
        if flat and node.output in for_matmul:
            flattened[node.output] = Flattened(groups)
    return flattened
