"""Checks that graphs of one model, read for several lengths of a dimension, differ in this length only.

A graph has fixed shapes, and what the file computes from a shape is folded when it is read. So the graph for the
longest length stands for all others only if nothing but shapes follows from the length.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node
from mavcg.specs.count import Count, Length, product_of
from mavcg.specs.dimension import Dimension

ReadGraph = Callable[[int], Graph]


def sampled_lengths(dimension: Dimension) -> tuple[int, ...]:
    """Return the lengths whose graphs are compared with that of the longest one, the first for its kernels, too.

    Their first is at least 2, as a length of 1 is a special case in many operators; it exceeds the bounds if these are
    1 and 2.
    """
    least, most = dimension.least, dimension.most
    first = most - 1 if most > 2 else most + 1
    others = (least, least + 1, (least + most) // 2, (least + 2 * most) // 3 | 1)
    return tuple(dict.fromkeys((first, *(n for n in others if least <= n < most))))


def check_graphs(most: Graph, read: ReadGraph, dimension: Dimension) -> Graph:
    """Compare the model's graph for the longest length with those for other ones.

    read: returns the model's graph for a length. Returns: the graph for the first of sampled_lengths.
    Raises: MavcgError naming the node that depends on the length otherwise than by the lengths of its tensors.
    """
    lengths = sampled_lengths(dimension)
    first = read(lengths[0])
    for length in lengths:
        graph = first if length == lengths[0] else read(length)
        _check_graph(_without_expansions(most, dimension) if length == 1 else most, graph, dimension, length)
    return first


def _without_expansions(most: Graph, dimension: Dimension) -> Graph:
    """Return the graph for the longest length without the broadcasts that a length of 1 has no use for.

    They are not in the graph that is read for this length.
    """
    sources: dict[str, str] = {}
    nodes = []
    for node in most.nodes:
        if node.op == "broadcast_to" and node.output not in most.outputs:
            before, after = (
                [n // dimension.most if n % dimension.most == 0 else n for n in most.types[name].shape]
                for name in (node.inputs[0], node.output)
            )
            if before == after:
                sources[node.output] = sources.get(node.inputs[0], node.inputs[0])
                continue
        nodes.append(node.with_inputs(sources))
    return replace(most, nodes=tuple(nodes))


def _check_graph(most: Graph, graph: Graph, dimension: Dimension, length: int) -> None:
    for a, b in zip(most.nodes, graph.nodes, strict=False):
        if (a.op, a.inputs, a.outputs) != (b.op, b.inputs, b.outputs):
            raise _refusal(a, dimension, f"is another one at the length {length}")
        _check_shapes(a, most, graph, dimension, length)
        if a.attrs != b.attrs and not (_follows_shapes(a, b, most, graph) or _more_trips(a, b, dimension, length)):
            raise _refusal(a, dimension, f"has other attributes at the length {length}")
        for name in a.inputs:
            if name in most.constants and not (
                name in graph.constants and _is_corner(most.constants[name], graph.constants[name])
            ):
                raise _refusal(a, dimension, f"has another constant %{name} at the length {length}")
    if len(most.nodes) != len(graph.nodes) or most.outputs != graph.outputs:
        raise MavcgError(
            f"the bounded dimension {dimension}: the model has {len(most.nodes)} operators at the length "
            f"{dimension.most} and {len(graph.nodes)} at {length}; {_remedy(dimension)}"
        )


def _is_corner(long: Array, short: Array) -> bool:
    """Return True if one array is the beginning of the other along each axis on which they differ.

    Such are causal masks, which no kernel reads; with_free_rows has a stricter rule for constants of kernels.
    """
    if long.dtype != short.dtype or long.ndim != short.ndim:
        return False
    common = tuple(slice(min(n, m)) for n, m in zip(long.shape, short.shape, strict=True))
    return long[common].tobytes() == short[common].tobytes()


def _check_shapes(node: Node, most: Graph, graph: Graph, dimension: Dimension, length: int) -> None:
    """Raise MavcgError unless every tensor of a node has at most one axis that is a multiple of the dimension."""
    for name in (*node.inputs, *node.outputs):
        if not name:
            continue
        long, short = most.types[name].shape, graph.types[name].shape
        if most.types[name].dtype != graph.types[name].dtype or len(long) != len(short):
            raise _refusal(node, dimension, f"has another type of %{name} at the length {length}")
        for n, m in zip(long, short, strict=True):
            if n != m and (n % dimension.most or n // dimension.most * length != m):
                raise _refusal(node, dimension, f"has %{name} with {n} at its longest length and {m} at {length}")


def _follows_shapes(a: Node, b: Node, most: Graph, graph: Graph) -> bool:
    """Return True if two nodes differ in an attribute that repeats a shape, or stops at the end of an axis."""
    if a.op == "slice":
        lengths = zip(most.types[a.inputs[0]].shape, graph.types[b.inputs[0]].shape, strict=True)
        pairs = zip(a.attr("stops"), b.attr("stops"), lengths, strict=True)
        whole = all(x == y or (x, y) == ends for x, y, ends in pairs)
        return whole and b == a.with_attrs(stops=b.attr("stops"))
    if a.op not in ("reshape", "broadcast_to"):
        return False
    shapes = [tuple(g.types[node.output].shape) for node, g in ((a, most), (b, graph))]
    return tuple(a.attr("shape")) == shapes[0] and b == a.with_attrs(shape=shapes[1])


def _more_trips(a: Node, b: Node, dimension: Dimension, length: int) -> bool:
    """Return True if two nodes of a loop differ in its number of iterations, which is a multiple of the length."""
    if a.op not in ("loop_state", "loop_stack") or b != a.with_attrs(trips=b.attr("trips")):
        return False
    each, rest = divmod(a.attr("trips"), dimension.most)
    return not rest and each * length == b.attr("trips")


def bounded_axes(most: Graph, other: Graph, dimension: Dimension) -> Mapping[str, tuple[Count, ...]]:
    """Return the length of each axis of inputs and outputs; () for those of a tensor of fixed shape.

    other: the graph for another length. Raises: MavcgError for a tensor with the dimension behind another one, since
    the rows of a shorter length would not lie behind each other.
    """
    axes: dict[str, tuple[Count, ...]] = {}
    for name in (*most.inputs, *most.outputs):
        long, short = most.types[name].shape, other.types[name].shape
        changed = [i for i, (n, m) in enumerate(zip(long, short, strict=True)) if n != m]
        if len(changed) > 1 or any(n > 1 for i in changed for n in long[:i]):
            shape = "x".join(map(str, long))
            raise MavcgError(
                f"tensor '{name}' ({shape}): the bounded dimension {dimension} has to be its first one longer than 1; "
                f"{_remedy(dimension)}"
            )
        counts = (
            product_of(n // dimension.most, Length(dimension.name)) if i in changed else n for i, n in enumerate(long)
        )
        axes[name] = tuple(counts) if changed else ()
    return axes


def _refusal(node: Node, dimension: Dimension, reason: str) -> MavcgError:
    return MavcgError(
        f"node '{node.origin or node.outputs[0]}' ({node.op}): the bounded dimension {dimension} does more than set "
        f"lengths: it {reason}; {_remedy(dimension)}"
    )


def _remedy(dimension: Dimension) -> str:
    return (
        f"give a list of lengths in its place, such as {dimension.least},{dimension.most}, for a size of each "
        "(docs/lengths.md)"
    )
