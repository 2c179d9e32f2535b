"""Push transposes through the graph until they cancel.

An importer of a format with another order of dimensions puts transposes around every operator over images. This pass
walks over the graph once and represents each tensor by another one and an order (`TransposedTensor`): a transpose is
then a matter of bookkeeping, and an operator that does not care about the order of dimensions works on the tensor that
exists. An order that is really needed is computed once for all its readers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from mavcg.graph import Array, Graph, Node
from mavcg.passes.graph.any_order import ELEMENTWISE, indifferent, operands_in_order, reorder_attributes
from mavcg.passes.graph.flattened import Flattened, flattened_for_matmul
from mavcg.passes.graph.permutation import (
    Perm,
    after_groups,
    compose,
    identity,
    inverse,
    moves,
    reshape_groups,
    scatter,
)
from mavcg.passes.graph.preferred_orders import PreferredOrders, preferred_orders
from mavcg.passes.graph.rewrite import Rewrite, use_counts


def cancel_transposes(graph: Graph) -> Graph:
    """Push transposes through what does not care about the order of dimensions, until they meet and cancel.

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

    A transpose of a constant is done at once; one that moves only dimensions of length 1 becomes a reshape. One before
    a reshape that flattens exactly what it moved, for a product with constant weights, goes into the rows of these.
    There are never more transposes of computed tensors than before.
    """
    # Moving one up can cost: what was free behind a dimension of length 1 may not be before it.
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
    """A tensor of the old graph is transpose(name, perm) of one of the new graph."""

    name: str
    perm: Perm


@dataclass(frozen=True, order=True)
class TransposeCost:
    """Cost of a choice: transposes, the bytes that they move, reshapes instead of transposes, and a tie-breaker."""

    transposes: float
    bytes: float
    reshapes: float
    last: float


class _TransposeRewrite:
    """State of one walk over a graph.

    raw: tensors made of the graph's inputs by operators that do not care about the order: transposes go up to the input
    there, and down everywhere else, so that a second walk changes nothing. up: True if operators may take an order that
    only their readers prefer."""

    def __init__(self, graph: Graph, up: bool) -> None:
        self.graph = graph
        self.up = up
        self.new = Rewrite(graph)
        self.preferred: PreferredOrders = preferred_orders(graph)
        self.uses = use_counts(graph)
        self.held = {n: TransposedTensor(n, identity(len(graph.shape(n)))) for n in (*graph.inputs, *graph.constants)}
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
            source = self.held[node.inputs[0]]
            self.held[node.output] = TransposedTensor(source.name, compose(source.perm, node.attr("perm")))
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
        self.held[node.output] = TransposedTensor(node.output, identity(len(self.graph.shape(node.output))))

    def get(self, name: str, order: Perm | None = None) -> str:
        """Return the tensor of which `name` is transpose(.., order); without an order: `name` itself."""
        held = self.held[name]
        rotation = held.perm if order is None else compose(held.perm, inverse(order))
        return self.transpose(held.name, rotation, name if order is None else "")

    def transpose(self, source: str, perm: Perm, into: str = "") -> str:
        """Return transpose(source, perm), made once. into: the name it takes if it is made now and the name is free."""
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
        """Give an operator that works in any order of dimensions the one that costs least."""
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
            made = self.new.add(node.op, (*aligned, *others), node.output, node.origin, **attrs)
            self.held[node.output] = TransposedTensor(made, perm)
        rows = self.rows.get(node.inputs[0])
        if rows is not None:
            self.rows[node.output] = rows

    def cost(self, node: Node, operands: tuple[str, ...], order: Perm, rank: int) -> TransposeCost:
        count, size, reshapes = 0.0, 0.0, 0
        for name in dict.fromkeys(operands):
            operand = self.extend_rank(name, rank)
            shape = (1,) * (rank - len(self.held[name].perm)) + self.new.types[self.held[name].name].shape
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
        """Return an operand of lower rank, seen with dimensions of length 1 before its own."""
        held = self.held[name]
        more = rank - len(held.perm)
        return TransposedTensor(held.name, (*range(more), *(more + i for i in held.perm)))

    def align(self, name: str, order: Perm, rank: int) -> str:
        """Return an operand as it broadcasts to a tensor held in `order`."""
        if self.graph.types[name].elements == 1:
            return self.get(name)
        held = self.extend_rank(name, rank)
        source, more = held.name, rank - len(self.held[name].perm)
        if more:
            shape = (1,) * more + self.new.types[source].shape
            array = self.new.array(source)
            if array is None:
                source = self.new.add("reshape", (source,), source, shape=shape)
            else:
                source = self.new.constant(array.reshape(shape), source)
        return self.transpose(source, compose(held.perm, inverse(order)))

    def reshape(self, node: Node) -> None:
        """Reshape the stored tensor if merged dimensions are neighbours in it, or can be brought together."""
        name, after = node.inputs[0], tuple(node.attr("shape"))
        stored_in, before = self.held[name], self.graph.shape(name)
        flat = self.flattened.get(node.output)
        if flat is not None and (rows := flat.rows(before, stored_in.perm)) is not None:
            self.new.into(node.output, "reshape", (stored_in.name,), node.origin, shape=after)
            self.held[node.output] = TransposedTensor(node.output, identity(len(after)))
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
                self.held[node.output] = TransposedTensor(source, perm)
            else:
                made = self.new.add("reshape", (source,), node.output, node.origin, shape=shape)
                self.held[node.output] = TransposedTensor(made, perm)
        else:
            self.put_reshape(node, self.get(name), after)

    def put_reshape(self, node: Node, source: str, shape: tuple[int, ...]) -> None:
        if self.new.types[source].shape == shape:
            self.held[node.output] = TransposedTensor(source, identity(len(shape)))
        else:
            self.put(node, (source,))

    def matmul(self, node: Node) -> None:
        """Use a transposed second operand without a copy; reorder constant weights' rows for the first operand."""
        a, b = node.inputs[:2]
        rest = [self.get(n) if n else "" for n in node.inputs[2:]]
        rank = len(self.graph.shape(b))
        swapped = (*range(rank - 2), rank - 1, rank - 2)
        turned = self.held[b].perm == swapped and self.new.array(self.held[b].name) is None
        second = self.get(b, swapped) if turned else self.get(b)
        transpose_b = bool(node.attr("transpose_b")) != turned
        rows = self.rows.get(a)
        if rows is not None:
            second = self.with_rows(second, rows, axis=rank - 1 if transpose_b else rank - 2)
        self.put(node.with_attrs(transpose_b=transpose_b), (self.get(a), second, *rest))

    def with_rows(self, name: str, rows: Array, axis: int) -> str:
        """Return a constant, or a dequantized one, with the elements along an axis in another order."""
        array = self.new.array(name)
        if array is not None:
            return self.new.constant(np.take(array, rows, axis=axis), name)
        maker = self.new.made[name]
        if maker.op != "dequantize":
            indices = self.new.constant(rows, "rows")
            return self.new.add("gather", (name, indices), name, maker.origin, axis=axis)
        source = self.with_rows(maker.inputs[0], rows, axis)
        return self.new.add(maker.op, (source, *maker.inputs[1:]), name, maker.origin, **dict(maker.attrs))
