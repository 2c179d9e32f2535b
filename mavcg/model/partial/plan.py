"""Choose the subgraphs of a model that are built, and state why other nodes stay with the other runtime."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from mavcg.errors import MavcgError, ToolError
from mavcg.importers.limits import reason

T = TypeVar("T")
Nodes = tuple[int, ...]
Divide = Callable[[Sequence[Sequence[int]], Sequence[bool], Sequence[int]], list[Nodes]]
KNOWN = "its result is known when the model is read; nodes that stay read it"


@dataclass(frozen=True)
class PlanNode:
    """A node of the user's model, in an order of computation.

    op: its operator. label: its name in errors. inputs, outputs: tensors that are known only in a run, and constants of
    nodes. why: reason why it cannot be built; "" if it can. known: True if its results are known when the model is
    read; it then belongs to every subgraph that reads them. kept: True for such a node that nodes of the other runtime
    read too. macs: its multiply-accumulates; None if only a run tells.
    """

    op: str
    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    why: str = ""
    known: bool = False
    kept: bool = False
    macs: int | None = 0


@dataclass(frozen=True)
class BuiltSubgraph(Generic[T]):
    """A subgraph that can be built.

    nodes: their indices. made: result of the attempt to build it. macs: its multiply-accumulates.
    """

    nodes: Nodes
    made: T
    macs: int


@dataclass(frozen=True)
class LeftNodes:
    """Nodes of one operator that stay with the other runtime for the same reason."""

    op: str
    count: int
    why: str


@dataclass(frozen=True)
class PartialPlan(Generic[T]):
    """The division of a model.

    subgraphs: with most multiply-accumulates first. left: nodes that stay with the other runtime. macs: of the model,
    as far as shapes are known. unknown_macs: number of nodes whose multiply-accumulates only a run tells.
    """

    nodes: tuple[PlanNode, ...]
    subgraphs: tuple[BuiltSubgraph[T], ...]
    left: tuple[LeftNodes, ...]
    macs: int
    unknown_macs: int

    def share(self, macs: int) -> float:
        """Return a number of multiply-accumulates as a fraction of the model's; 0 if it has none."""
        return macs / self.macs if self.macs else 0.0


def join_plans(plans: Sequence[PartialPlan[T]]) -> PartialPlan[T]:
    """Return the plan of a model from those of its graphs, whose nodes follow one another in its numbers."""
    if len(plans) == 1:
        return plans[0]
    first, subgraphs, counts = 0, [], Counter[tuple[str, str]]()
    for plan in plans:
        for subgraph in plan.subgraphs:
            subgraphs.append(replace(subgraph, nodes=tuple(first + i for i in subgraph.nodes)))
        counts.update({(left.op, left.why): left.count for left in plan.left})
        first += len(plan.nodes)
    return PartialPlan(
        tuple(node for plan in plans for node in plan.nodes),
        tuple(sorted(subgraphs, key=lambda subgraph: -subgraph.macs)),
        _order_counts(counts),
        sum(plan.macs for plan in plans),
        sum(plan.unknown_macs for plan in plans),
    )


def plan_subgraphs(
    nodes: Sequence[PlanNode],
    outputs: Iterable[str],
    min_share: float,
    attempt: Callable[[Nodes], T],
    divide: Divide,
    macs: int | None = None,
) -> PartialPlan[T]:
    """Choose subgraphs of nodes that can be built.

    Args:
        macs: multiply-accumulates of the whole model, which shares are of; None: those of the nodes.
        outputs: outputs of the model.
        min_share: smallest fraction of the model's multiply-accumulates in a subgraph, 0 to 1.
        attempt: imports the subgraph of some nodes, far enough to know that it can be built; raises MavcgError if not.
            The node that the error names is then left out, and the other nodes are divided again.
        divide: divides the supported nodes into sets that the other runtime can call as one node each
            (node_sets.py).
    """
    weights = [node.macs or 0 for node in nodes]
    total = sum(weights) if macs is None else macs
    whys = {i: node.why for i, node in enumerate(nodes) if node.why}
    sources = _sources(nodes)
    made: dict[Nodes, T] = {}
    while True:
        sets = divide(sources, [not node.known and i not in whys for i, node in enumerate(nodes)], weights)
        refused: dict[int, str] = {}
        for chosen in sets:
            share = sum(weights[i] for i in chosen) / total if total else 0.0
            if share < min_share:
                why = f"in a subgraph with {share:.2%} of the MACs, below --min-share {min_share:.2%}"
                refused |= dict.fromkeys(chosen, why)
            elif chosen not in made:
                try:
                    made[chosen] = attempt(chosen)
                except ToolError:
                    raise
                except MavcgError as error:
                    refused |= _nodes_to_blame(nodes, chosen, error, attempt)
        if not refused:
            break
        whys |= refused
    built = tuple(BuiltSubgraph(chosen, made[chosen], sum(weights[i] for i in chosen)) for chosen in sets)
    unknown = sum(node.macs is None for node in nodes)
    return PartialPlan(tuple(nodes), built, _count_left(nodes, outputs, whys), sum(weights), unknown)


def _sources(nodes: Sequence[PlanNode]) -> list[list[int]]:
    """Return, for each node, the nodes whose results it reads, except those that are known when the model is read."""
    maker = {name: i for i, node in enumerate(nodes) if not node.known for name in node.outputs}
    return [[] if node.known else [maker[name] for name in node.inputs if name in maker] for node in nodes]


_NODE_NAME = re.compile(r"node '(.*?)' \(")


def _nodes_to_blame(
    nodes: Sequence[PlanNode], chosen: Nodes, error: MavcgError, attempt: Callable[[Nodes], T]
) -> dict[int, str]:
    """Return the nodes to leave out, each with its reason.

    They are the node that the error names, else those that cannot be built alone, else all.
    """
    match = _NODE_NAME.search(str(error))
    named = {i: reason(error) for i in chosen if match is not None and nodes[i].label == match[1]}
    if named:
        return named
    alone = {}
    for i in chosen if len(chosen) > 1 else ():
        try:
            attempt((i,))
        except ToolError:
            raise
        except MavcgError as own:
            alone[i] = reason(own)
    return alone or dict.fromkeys(chosen, reason(error))


def _count_left(nodes: Sequence[PlanNode], outputs: Iterable[str], whys: dict[int, str]) -> tuple[LeftNodes, ...]:
    """Count the nodes that stay by operator and reason, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    needed = {name for i in whys for name in nodes[i].inputs} | set(outputs)
    for i, node in reversed(list(enumerate(nodes))):
        if i in whys:
            counts[node.op, whys[i]] += 1
        elif node.kept and any(name in needed for name in node.outputs):
            needed.update(node.inputs)
            counts[node.op, KNOWN] += 1
    return _order_counts(counts)


def _order_counts(counts: Counter[tuple[str, str]]) -> tuple[LeftNodes, ...]:
    ordered = sorted(counts.items(), key=lambda item: (item[0][1] == KNOWN, -item[1], item[0]))
    return tuple(LeftNodes(op, count, why) for (op, why), count in ordered)
