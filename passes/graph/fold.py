"""Constant folding: computes values that are known at build time, and removes nodes that change nothing."""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np

from mavcg.graph import DTYPES, Array, Graph, Node, TensorType
from mavcg.graph.ops.loops import LOOP_OPS
from mavcg.graph.reference import evaluate
from mavcg.graph.reference.work import temporary_bytes, work
from mavcg.passes.graph.rewrite import Rewrite

# A result of more bytes than BLOWN_UP_BYTES and than BLOWN_UP_TIMES its inputs is computed at run time instead.
BLOWN_UP_BYTES = 64 << 20
BLOWN_UP_TIMES = 4
MOST_WORK = 1 << 32  # limit of elementary operations for all folding, some seconds
MOST_TEMPORARY_BYTES = 1 << 29  # limit of temporary memory to compute one node
GROWTH_BYTES = 1 << 30  # folding may add this and BLOWN_UP_TIMES the bytes of the graph's constants
_WEIGHTS = {  # operator -> indices of the inputs that are packed when the model is built
    "conv2d": (1, 2),
    "conv_transpose2d": (1, 2),
    "matmul": (1, 2),
    "qconv2d": (1, 2),
    "qmatmul": (1, 2),
    "iconv2d": (1,),
    "imatmul": (1,),
}


def fold_constants(graph: Graph) -> Graph:
    """Replace every node whose inputs are all constants by its value; remove nodes that change nothing.

    Before:
        input %x: f32[2]
        const %a: f32[1] = {1.0}
        %b = broadcast_to(%a) shape=[2]
        %c = add(%b, %b)
        %d = reshape(%x) shape=[2]
        %y = mul(%d, %c)
        return %y
    After:
        input %x: f32[2]
        const %c: f32[2] = {2.0, 2.0}
        %y = mul(%x, %c)
        return %y

    A node is not folded, but computed in each run, if its result is large (BLOWN_UP_BYTES) and much larger than its
    inputs (BLOWN_UP_TIMES), unless it becomes weights of a convolution or matrix product, which are packed when the
    model is built. Neither is a node whose folding would make all constants grow by more than GROWTH_BYTES plus
    BLOWN_UP_TIMES their original size, or take more than MOST_WORK or MOST_TEMPORARY_BYTES to compute. An output of the
    graph that equals a constant, an input or another output is a copy made by one node.
    Raises: MavcgError for constants that their operator does not allow, such as an index out of range.
    """
    new = Rewrite(graph)
    values: dict[str, Array] = dict(graph.constants)
    in_weights = _weights(graph)
    uses = Counter(name for node in graph.nodes for name in node.inputs if name)
    outputs = set(graph.outputs)
    copied = {*graph.inputs, *graph.constants, *outputs}  # tensors of fixed name: an output equal to one is a copy
    budget = _FoldingBudget(MOST_WORK, GROWTH_BYTES + BLOWN_UP_TIMES * sum(c.nbytes for c in graph.constants.values()))
    for node in graph.nodes:
        same = changes_nothing(node, graph.types)
        if same and node.output in outputs and node.inputs[0] in copied:
            shape = graph.shape(node.output)
            new.into(node.output, "reshape", [new.of(node.inputs[0])], node.origin, shape=shape)
            continue
        growth = _growth(node, graph.types, values)
        if growth is not None and budget.spend(node, graph.types, growth, node.output in in_weights):
            values[node.output] = _value(node, graph.types[node.output], values)
            if node.output in outputs:
                _place_constant(new, node.output, values, outputs)
        else:
            for name in node.inputs:
                _place_constant(new, name, values, outputs)
            if same:
                new.alias(node.output, new.of(node.inputs[0]))
            else:
                new.keep(node)
        for name in filter(None, node.inputs):
            uses[name] -= 1
            if not uses[name]:  # frees memory: a chain of operators on large weights has many large values
                values.pop(name, None)
    return new.finish()


@dataclass
class _FoldingBudget:
    """The cost that folding may still have: elementary operations, and growth of all constants in bytes."""

    steps: int
    growth_bytes: int

    def spend(self, node: Node, types: Mapping[str, TensorType], growth: int, packed: bool) -> bool:
        """Return False if a node is not to be folded; else take its cost off and return True.

        growth: bytes by which folding it makes the constants grow. packed: True if its result becomes packed weights.
        """
        steps = work(node, types)
        if growth > self.growth_bytes or steps > self.steps:
            return False
        if steps and temporary_bytes(node, types) > MOST_TEMPORARY_BYTES:
            return False
        if not packed and _blown_up(node, types):
            return False
        self.growth_bytes -= max(growth, 0)
        self.steps -= steps
        return True


def _place_constant(new: Rewrite, name: str, values: Mapping[str, Array], outputs: Set[str]) -> None:
    """Make a folded value that an unfolded node reads a constant of the new graph, with its old name."""
    if name in values and name not in new.constants and new.of(name) == name:
        if name in outputs:  # the engine writes outputs, so one needs a node
            new.alias(name, new.constant(values[name], name))
        else:
            new.constants[name] = values[name]


def _growth(node: Node, types: Mapping[str, TensorType], values: Mapping[str, Array]) -> int | None:
    """Return the bytes of a node's result less those of its inputs; None if not all inputs are known."""
    if len(node.outputs) != 1 or node.op in LOOP_OPS:  # another value in each iteration
        return None
    if types[node.output].elements == 0:
        return 0
    if not all(name in values for name in node.inputs if name):
        return None
    return types[node.output].bytes - _input_bytes(node, types)


def _input_bytes(node: Node, types: Mapping[str, TensorType]) -> int:
    return sum(types[name].bytes for name in {*node.inputs} if name)


def _blown_up(node: Node, types: Mapping[str, TensorType]) -> bool:
    size = types[node.output].bytes
    return size > BLOWN_UP_BYTES and size > BLOWN_UP_TIMES * _input_bytes(node, types)


def _value(node: Node, tensor: TensorType, values: Mapping[str, Array]) -> Array:
    if tensor.elements == 0:
        return np.zeros(tensor.shape, DTYPES[tensor.dtype])
    (array,) = evaluate(node, [values[name] if name else None for name in node.inputs])
    return array


def _weights(graph: Graph) -> set[str]:
    """Return the tensors computed from constants alone that become weights of a convolution or product."""
    constant = set(graph.constants)
    for node in graph.nodes:
        if all(name in constant for name in node.inputs if name):
            constant.update(node.outputs)
    in_weights: set[str] = set()
    for node in reversed(graph.nodes):
        read = [node.inputs[i] for i in _WEIGHTS.get(node.op, ())]
        if in_weights & set(node.outputs):
            read += node.inputs
        in_weights.update(name for name in read if name in constant)
    return in_weights


def changes_nothing(node: Node, types: Mapping[str, TensorType]) -> bool:
    """True if a node's only output equals its first input for every value of it."""
    if not node.inputs or not node.inputs[0] or len(node.outputs) != 1 or types[node.inputs[0]] != types[node.output]:
        return False
    shape = types[node.output].shape
    if node.op in ("cast", "reshape", "broadcast_to", "pad"):
        return True
    if node.op == "concat":
        return len(node.inputs) == 1
    if node.op == "transpose":
        # The position of dimensions of length 1 does not matter.
        moved = [axis for axis in node.attr("perm") if shape[axis] != 1]
        return moved == sorted(moved)
    if node.op == "slice":
        return all(step > 0 or length == 1 for step, length in zip(node.attr("steps"), shape, strict=True))
    if node.op == "clip":
        return bool(node.attr("lo") == -np.inf and node.attr("hi") == np.inf)
    return node.op.startswith("reduce_") and not node.attr("axes")
