"""Push transposes through the graph until they cancel.

The importer of a format with another order of dimensions puts transposes around every operator on images. This pass
walks over the graph once and represents each tensor as a transposed view of a stored one (`TransposedTensor`): a
transpose changes only the view, and an operator that works in any order of dimensions works on the stored tensor. An
order that an operator does need is computed once for all its readers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from mavcg.graph import Array, Graph, Node
from mavcg.passes.graph.flattened import Flattened, flattened_for_matmul
from mavcg.passes.graph.permutation import (
    ELEMENTWISE,
    Perm,
    PreferredOrders,
    after_groups,
    compose,
    identity,
    indifferent,
    inverse,
    moves,
    operands_in_order,
    preferred_orders,
    reorder_attributes,
    reshape_groups,
    scatter,
)
from mavcg.passes.graph.rewrite import Rewrite, use_counts


def cancel_transposes(graph: Graph) -> Graph:
    """Move transposes through operators that work in any order of dimensions, until they meet and cancel.

    Before:
        input %x: f32[1,5,6,2]
        const %c: f32[2,1,1] = {1.0, 2.0}
        %t = transpose(%x) perm=[0,3,1,2]
        %s = add(%t, %c)
        %y = transpose(%s) perm=[0,2,3,1]
        return %y
    After:
        input %x: f32[1,5,6,2]
        const %c.2: f32[1,1,1,2] = {1.0, 2.0}
        %y = add(%x, %c.2)
        return %y

    A transpose of a constant is computed at once; one that moves only dimensions of length 1 becomes a reshape. If a
    reshape flattens the transposed dimensions for a product with constant weights, the rows of the weights are permuted
    instead. The result never has more transposes of computed tensors than the input.
    """
    # Moving a transpose up can cost: it may be free after a dimension has become 1 long, but not before.
    rewritten = [_TransposeRewrite(graph, up).rewrite() for up in (True, False)]
    return min(*rewritten, graph, key=moving_transposes)


def moving_transposes(graph: Graph) -> int:
    """Count transposes of computed tensors that move elements."""
    return sum(
        node.op == "transpose"
        and node.inputs[0] not in graph.constants
        and moves(graph.shape(node.inputs[0]), node.attr("perm"))
        for node in graph.nodes
    )


@dataclass(frozen=True)
class TransposedTensor:
    """A tensor of the old graph as transpose(name, perm) of a tensor `name` of the new graph."""

    name: str
    perm: Perm


@dataclass(frozen=True, order=True)
class TransposeCost:
    """The cost of a choice, compared field by field: transposes, bytes that they move, reshapes, and a tie-breaker."""

    transposes: float
    bytes: float
    reshapes: float
    last: float


class _TransposeRewrite:
    """One walk over a graph.

    stored: tensor of the old graph -> its stored tensor and order. made: (tensor, permutation) -> its transpose, if it
    exists. plain: tensors that are needed in the order of the old graph. raw: tensors computed from the graph's inputs
    by operators that work in any order: there transposes move up to the input, everywhere else down, so that a second
    walk changes nothing. up: True if operators may take an order that only their readers prefer.
    """

    def __init__(self, graph: Graph, up: bool) -> None:
        self.graph = graph
        self.up = up
        self.new = Rewrite(graph)
        self.preferred: PreferredOrders = preferred_orders(graph)
        self.uses = use_counts(graph)
        self.stored = {n: TransposedTensor(n, identity(len(graph.shape(n)))) for n in (*graph.inputs, *graph.constants)}
        self.raw = set(graph.inputs)
        self.made: dict[tuple[str, Perm], str] = {}
        self.plain = set(graph.outputs) | {n for node in graph.nodes if not indifferent(node) for n in node.inputs}
        self.flattened: dict[str, Flattened] = flattened_for_matmul(graph)
        self.rows: dict[str, Array] = {}  # tensors whose last dimension is held in another order

    def rewrite(self) -> Graph:
        for node in self.graph.nodes:
            self.visit(node)
        for name in dict.fromkeys(self.graph.outputs):
            self.new.alias(name, self.get(name))
        return self.new.finish()

    def visit(self, node: Node) -> None:
        computed = [n for n in node.inputs if n and n not in self.graph.constants]
        if indifferent(node) and computed and self.raw.issuperset(computed):
            self.raw.add(node.output)
        if node.op == "transpose":
            source = self.stored[node.inputs[0]]
            self.stored[node.output] = TransposedTensor(source.name, compose(source.perm, node.attr("perm")))
        elif node.op == "reshape" and self.graph.types[node.output].elements:
            self.reshape(node)
        elif node.op == "matmul":
            self.matmul(node)
        elif node.op != "reshape" and indifferent(node):
            self.indifferent(node)
        else:
            self.put(node, [self.get(n) if n else "" for n in node.inputs])

    def put(self, node: Node, inputs: Iterable[str]) -> None:
        self.new.put(replace(node, inputs=tuple(inputs)))
        self.stored[node.output] = TransposedTensor(node.output, identity(len(self.graph.shape(node.output))))

    def get(self, name: str, order: Perm | None = None) -> str:
        """Return the tensor of the new graph of which `name` is transpose(.., order); by default, `name` itself."""
        stored = self.stored[name]
        rotation = stored.perm if order is None else compose(stored.perm, inverse(order))
        return self.transpose(stored.name, rotation, name if order is None else "")

    def transpose(self, source: str, perm: Perm, into: str = "") -> str:
        """Return transpose(source, perm), added to the graph on first use. into: preferred name of the new tensor."""
        if perm == identity(len(perm)):
            return source
        if (source, perm) not in self.made:
            array = self.new.array(source)
            if array is not None:
                self.made[source, perm] = self.new.constant(array.transpose(perm), source)
                return self.made[source, perm]
            shape = self.new.types[source].shape
            name = into if into and into not in self.new.made else self.new.fresh(source)
            if moves(shape, perm):
                self.made[source, perm] = self.new.into(name, "transpose", (source,), perm=perm)
            else:
                self.made[source, perm] = self.new.into(name, "reshape", (source,), shape=tuple(shape[i] for i in perm))
        return self.made[source, perm]

    def indifferent(self, node: Node) -> None:
        """Add an operator that works in any order of dimensions, in the order of least cost."""
        operands = operands_in_order(node)
        rank = len(self.graph.shape(node.output if node.op in ELEMENTWISE else operands[0]))
        orders = {identity(rank)} | {self.extend_rank(n, rank).perm for n in operands}
        if self.up and len(self.graph.shape(node.output)) == rank:
            orders |= {inverse(order) for order in self.preferred.get(node.output, ())}
        best = min(sorted(orders), key=lambda order: self.cost(node, operands, order, rank))
        if best == identity(rank):
            self.put(node, [self.get(n) for n in node.inputs])
        else:
            others = [self.get(n) for n in node.inputs[len(operands) :]]
            attrs, perm = reorder_attributes(node, best)
            aligned = [self.align(n, best, rank) for n in operands]
            output = self.new.add(node.op, (*aligned, *others), node.output, node.origin, **attrs)
            self.stored[node.output] = TransposedTensor(output, perm)
        rows = self.rows.get(node.inputs[0])
        if rows is not None:
            self.rows[node.output] = rows

    def cost(self, node: Node, operands: tuple[str, ...], order: Perm, rank: int) -> TransposeCost:
        count, size, reshapes = 0.0, 0.0, 0
        for name in dict.fromkeys(operands):
            operand = self.extend_rank(name, rank)
            shape = (1,) * (rank - len(self.stored[name].perm)) + self.new.types[self.stored[name].name].shape
            rotation = compose(operand.perm, inverse(order))
            tensor = self.graph.types[name]
            here = order == identity(rank) and name in self.plain or (operand.name, rotation) in self.made
            if here or tensor.elements == 1 or name in self.graph.constants:
                continue
            if not moves(shape, rotation):
                reshapes += rotation != identity(rank)
            else:
                count += 1 / self.uses[name]
                size += tensor.bytes / self.uses[name]
        result = self.graph.types[node.output]
        perm = reorder_attributes(node, order)[1]
        stored = scatter(result.shape, perm)
        rotations = [compose(perm, order) for order in self.preferred.get(node.output, ())]
        later = sum(moves(stored, rotation) for rotation in rotations)
        reshapes += sum(rotation != identity(len(rotation)) and not moves(stored, rotation) for rotation in rotations)
        last = later if node.output in self.raw else count
        return TransposeCost(round(count + later, 6), size + later * result.bytes, reshapes, last)

    def extend_rank(self, name: str, rank: int) -> TransposedTensor:
        """Return an operand with dimensions of length 1 put in front, up to this rank."""
        stored = self.stored[name]
        more = rank - len(stored.perm)
        return TransposedTensor(stored.name, (*range(more), *(more + i for i in stored.perm)))

    def align(self, name: str, order: Perm, rank: int) -> str:
        """Return an operand in the form in which it broadcasts to a tensor that is stored in `order`."""
        if self.graph.types[name].elements == 1:
            return self.get(name)
        extended = self.extend_rank(name, rank)
        source, more = extended.name, rank - len(self.stored[name].perm)
        if more:
            shape = (1,) * more + self.new.types[source].shape
            array = self.new.array(source)
            if array is None:
                source = self.new.add("reshape", (source,), source, shape=shape)
            else:
                source = self.new.constant(array.reshape(shape), source)
        return self.transpose(source, compose(extended.perm, inverse(order)))

    def reshape(self, node: Node) -> None:
        """Add a reshape of the stored tensor if the dimensions it merges are, or can be made, adjacent there."""
        name, after = node.inputs[0], tuple(node.attr("shape"))
        stored_in, before = self.stored[name], self.graph.shape(name)
        flat = self.flattened.get(node.output)
        if flat is not None and (rows := flat.rows(before, stored_in.perm)) is not None:
            self.new.into(node.output, "reshape", (stored_in.name,), node.origin, shape=after)
            self.stored[node.output] = TransposedTensor(node.output, identity(len(after)))
            self.rows[node.output] = rows
            return
        groups = sorted(reshape_groups(before, after), key=lambda g: min(stored_in.perm[i] for i in g.before))
        long = [stored_in.perm[i] for group in groups for i in group.before]
        together = tuple([i for i in range(len(before)) if i not in long] + long)
        stored = after_groups(groups, after)
        perm = inverse(stored)
        shape = tuple(after[i] for i in stored)
        source_shape = self.new.types[stored_in.name].shape
        orders = self.preferred.get(node.output, ())
        split = moves(source_shape, together) + sum(moves(shape, compose(perm, o)) for o in orders)
        is_made = (stored_in.name, stored_in.perm) in self.made or name in self.plain
        ready = is_made or not moves(source_shape, stored_in.perm)
        whole = (0 if ready else 1 / self.uses[name]) + sum(moves(after, o) for o in orders)
        if perm == identity(len(after)) and not moves(source_shape, together):
            self.put_reshape(node, stored_in.name, after)
        elif split <= whole:
            source = self.transpose(stored_in.name, together) if moves(source_shape, together) else stored_in.name
            if perm == identity(len(after)):
                self.put_reshape(node, source, after)
            elif self.new.types[source].shape == shape:
                self.stored[node.output] = TransposedTensor(source, perm)
            else:
                output = self.new.add("reshape", (source,), node.output, node.origin, shape=shape)
                self.stored[node.output] = TransposedTensor(output, perm)
        else:
            self.put_reshape(node, self.get(name), after)

    def put_reshape(self, node: Node, source: str, shape: tuple[int, ...]) -> None:
        if self.new.types[source].shape == shape:
            self.stored[node.output] = TransposedTensor(source, identity(len(shape)))
        else:
            self.put(node, (source,))

    def matmul(self, node: Node) -> None:
        """Add a matmul that reads a transposed second operand without a copy, or weights with permuted rows."""
        a, b = node.inputs[:2]
        more = [self.get(n) if n else "" for n in node.inputs[2:]]
        rank = len(self.graph.shape(b))
        swapped = (*range(rank - 2), rank - 1, rank - 2)
        is_transposed = self.stored[b].perm == swapped and self.new.array(self.stored[b].name) is None
        second = self.get(b, swapped) if is_transposed else self.get(b)
        transpose_b = bool(node.attr("transpose_b")) != is_transposed
        rows = self.rows.get(a)
        if rows is not None:
            second = self.with_rows(second, rows, axis=rank - 1 if transpose_b else rank - 2)
        self.put(node.with_attrs(transpose_b=transpose_b), (self.get(a), second, *more))

    def with_rows(self, name: str, rows: Array, axis: int) -> str:
        """Return weights with their elements along an axis permuted: a constant, a dequantized one, or by a gather."""
        array = self.new.array(name)
        if array is not None:
            return self.new.constant(np.take(array, rows, axis=axis), name)
        maker = self.new.made[name]
        if maker.op != "dequantize":
            indices = self.new.constant(rows, "rows")
            return self.new.add("gather", (name, indices), name, maker.origin, axis=axis)
        source = self.with_rows(maker.inputs[0], rows, axis)
        return self.new.add(maker.op, (source, *maker.inputs[1:]), name, maker.origin, **dict(maker.attrs))
