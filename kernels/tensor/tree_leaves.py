"""Kernel of tree_leaves: the leaf of each decision tree that a sample reaches, TREES trees at once.

Trees go down side by side, since each load of a tree waits for the one before it, and without branches, which nobody
could predict. A leaf's children are the leaf, and a group goes down until all of its trees stay where they are; so
groups are of trees of like depth. NaN costs nothing in a sample without one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Array, Graph, Node
from mavcg.graph.ops.op import node_location
from mavcg.graph.ops.trees import COMPARISONS, LEAF, MOST_LEVELS, NAN_HOLDS, levels_of
from mavcg.kernels.builder.emit import (
    I1,
    I32,
    I64,
    TYPES,
    Values,
    address,
    const,
    element,
    finish_rows,
    for_range,
    kernel_function,
    operands,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.nest import Nest
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format

TREES = 16  # that go down side by side, on every core
_NODE_BYTES = 16  # i32: feature, child where the comparison does not hold, child where it does, rule
_SIGNS = {"less_equal": "<=", "less": "<", "greater_equal": ">=", "greater": ">", "equal": "==", "not_equal": "!="}


@spec_format("tree_leaves")
@dataclass(frozen=True)
class TreeLeaves(KernelSpec):
    """The number of the leaf that each sample reaches in each tree, i32.

    samples: loop over samples with the strides of x and out. feature_step, tree_step: from a feature, or a tree's
    result, to the next, in elements. features: of a sample. groups: of TREES trees. levels: of all groups together, at
    most. comparisons: numbers of the COMPARISONS that branches make, ascending. nan_holds: True if a NaN goes to
    if_true at a branch. A row of work is a sample. Operands: x, nodes (i32 [nodes, 4]: feature, if_false, if_true,
    rule), thresholds, the trees of groups (i32 [groups * TREES, 2]: root and place of the result), out.
    """

    dtype: str
    samples: Nest
    features: int
    feature_step: int
    tree_step: int
    groups: int
    levels: int
    comparisons: tuple[int, ...]
    nan_holds: bool

    @property
    def family(self) -> str:
        return f"tree_leaves_{self.dtype}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.samples.shape, self.groups * TREES), f"k{self.levels}")

    @property
    def rows(self) -> int:
        return self.samples.elements

    @property
    def work(self) -> int:
        return TREES * self.levels * self.rows


def _lower_tree_leaves(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    x, out = views[node.inputs[0]], views[node.output]
    nodes, thresholds, roots = (graph.constants[name] for name in node.inputs[1:])
    levels = levels_of(nodes, roots)
    if levels.max(initial=0) > MOST_LEVELS:
        raise MavcgError(f"{node_location(node)}: a tree has more than {MOST_LEVELS} levels, or none that ends")
    if not out.elements:
        return ()
    order = np.argsort(levels, kind="stable")
    order = np.pad(order, (0, -len(order) % TREES), "edge")  # the last tree again: it stores the same
    trees = np.stack((roots[order], order), 1).astype(np.int32)
    rules = nodes[nodes[:, 3] != LEAF, 3]
    spec = TreeLeaves(
        x.dtype,
        Nest(x.shape[:1], (x.strides[:1], out.strides[:1])),
        x.shape[1],
        x.strides[1],
        out.strides[1],
        len(order) // TREES,
        int(levels[order].reshape(-1, TREES).max(1).sum()),
        tuple(np.unique(rules & ~NAN_HOLDS).tolist()),
        bool((rules & NAN_HOLDS).any()),
    )
    constants = (_packed_nodes(nodes), thresholds, trees)
    given = (Operand(node.inputs[0]), *(Operand(constant=each) for each in constants))
    return (Step(spec, (*given, Operand(node.output, written=True)), node.origin),)


def _packed_nodes(nodes: Array) -> Array:
    """Return the nodes with leaves as branches to themselves, by any feature and by a rule that is any branch's."""
    packed = nodes[:, [0, 2, 1, 3]].copy()
    leaves = np.flatnonzero(nodes[:, 3] == LEAF)
    packed[leaves, 0], packed[leaves, 1:3], packed[leaves, 3] = 0, leaves[:, None], 0
    return packed


def emit_tree_leaves(module: ir.Module, spec: TreeLeaves, machine: Machine) -> ir.Function:
    """Emit, for each sample and group of trees, a loop over levels, two at a time."""
    _, b = kernel_function(module, spec, machine)
    x, nodes, thresholds, trees, out = operands(b, "x", "nodes", "thresholds", "trees", "out")
    typ, size = TYPES[spec.dtype], DTYPES[spec.dtype].itemsize
    ((x_step,), (out_step,)) = spec.samples.strides

    def number(pointer: ir.Value, at: int, name: str) -> ir.Value:
        return b.sext(b.load(address(b, pointer, at), align=4, typ=I32), I64, name=name)

    def feature_of(sample: ir.Value, index: ir.Value) -> ir.Value:
        return b.load(address(b, sample, scale_index(b, index, spec.feature_step * size)), align=size, typ=typ)

    def below(sample: ir.Value, at: ir.Value, nan_holds: bool) -> ir.Value:
        """Return the child of node number `at` that the sample goes to."""
        node = address(b, nodes, scale_index(b, at, _NODE_BYTES), "node")
        value = feature_of(sample, number(node, 0, "feature"))
        threshold = b.load(element(b, thresholds, at, typ), align=size, typ=typ, name="threshold")
        one = len(spec.comparisons) == 1 and not nan_holds
        rule = None if one else b.load(address(b, node, 12), align=4, typ=I32, name="rule")
        holds = _holds(b, spec.comparisons, rule, value, threshold)
        if nan_holds:
            flag = b.icmp_unsigned("!=", b.and_(rule, const(NAN_HOLDS, I32)), const(0, I32))
            holds = b.or_(holds, b.and_(b.fcmp_unordered("uno", value, value), flag))
        return number(address(b, node, scale_index(b, b.zext(holds, I64), 4)), 4, "child")

    def go_down(sample: ir.Value, result: ir.Value, nan_holds: bool) -> None:
        def group(index: ir.Value) -> None:
            own = address(b, trees, scale_index(b, index, 8 * TREES))
            roots = [number(own, 8 * i, "root") for i in range(TREES)]
            before, levels = b.block, b.append_basic_block("levels")
            b.branch(levels)
            b.position_at_end(levels)
            at = [b.phi(I64, name="at") for _ in roots]
            first = [below(sample, each, nan_holds) for each in at]
            second = [below(sample, each, nan_holds) for each in first]
            moved = reduce(b.or_, (b.xor(one, other) for one, other in zip(first, second, strict=True)))
            for phi, root, leaf in zip(at, roots, second, strict=True):
                phi.add_incoming(root, before)
                phi.add_incoming(leaf, levels)
            after = b.append_basic_block("leaves")
            b.cbranch(b.icmp_unsigned("!=", moved, const(0)), levels, after)
            b.position_at_end(after)
            for i, leaf in enumerate(second):
                place = scale_index(b, number(own, 8 * i + 4, "place"), 4 * spec.tree_step)
                b.store(b.trunc(leaf, I32), address(b, result, place), align=4)

        repeat(b, 0, spec.groups, group, "group")

    def row(index: ir.Value) -> None:
        sample, result = (
            address(b, pointer, scale_index(b, index, step * item))
            for pointer, step, item in ((x, x_step, size), (out, out_step, 4))
        )
        if not spec.nan_holds:
            go_down(sample, result, False)
            return

        def is_nan(feature: ir.Value, before: Values) -> Values:
            value = feature_of(sample, feature)
            return (b.or_(before[0], b.fcmp_unordered("uno", value, value)),)

        (any_nan,) = for_range(b, const(0), const(spec.features), 1, (const(0, I1),), is_nan, "feature")
        with b.if_else(any_nan, likely=False) as (with_nan, without):
            with with_nan:
                go_down(sample, result, True)
            with without:
                go_down(sample, result, False)

    return finish_rows(b, row)


def _holds(
    b: ir.IRBuilder, comparisons: Sequence[int], rule: ir.Value | None, value: ir.Value, threshold: ir.Value
) -> ir.Value:
    """Emit whether a branch's comparison holds. rule: of the branch; None if there is one comparison."""
    results = []
    for comparison in comparisons:
        sign = _SIGNS[COMPARISONS[comparison]]
        holds = (b.fcmp_unordered if sign == "!=" else b.fcmp_ordered)(sign, value, threshold)
        if len(comparisons) > 1:
            own = b.icmp_unsigned("==", b.and_(rule, const(~NAN_HOLDS, I32)), const(comparison, I32))
            holds = b.and_(holds, own)
        results.append(holds)
    return reduce(b.or_, results) if results else const(0, I1)


LOWER = {"tree_leaves": _lower_tree_leaves}
EMIT = {TreeLeaves: emit_tree_leaves}
