"""Chooses the subgraphs of an ONNX model that are built, and says why the other nodes stay with the runtime."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from mavcg.errors import MavcgError, ToolError
from mavcg.importers.onnx_proto import load_model, one_line, onnx_module
from mavcg.importers.onnx_support import ModelSupport, model_support, reason
from mavcg.partial.convex import convex_sets
from mavcg.partial.onnx_macs import node_macs
from mavcg.partial.onnx_subgraphs import Subgraph, make_subgraph, subgraph_model

if TYPE_CHECKING:
    import onnx

T = TypeVar("T")
Attempt = Callable[["onnx.ModelProto", str], T]
KNOWN = "its result is known when the model is read; nodes that stay read it"


@dataclass(frozen=True)
class BuiltSubgraph(Generic[T]):
    """A subgraph that can be built. name: of its operator; made: what the attempt to build it gave; macs: its
    multiply-accumulates."""

    name: str
    subgraph: Subgraph
    model: onnx.ModelProto
    made: T
    macs: int


@dataclass(frozen=True)
class LeftNodes:
    """Nodes of one operator that stay with the runtime for one reason."""

    op: str
    count: int
    why: str


@dataclass(frozen=True)
class PartialPlan(Generic[T]):
    """subgraphs: by multiply-accumulates, the most first. macs: of the model, as far as shapes are known; unknown_macs:
    number of nodes that have some, but whose shapes only a run tells."""

    support: ModelSupport
    subgraphs: tuple[BuiltSubgraph[T], ...]
    left: tuple[LeftNodes, ...]
    macs: int
    unknown_macs: int

    def share(self, macs: int) -> float:
        """Return these multiply-accumulates as a share of the model's; 0 where it has none."""
        return macs / self.macs if self.macs else 0.0


def read_support(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> ModelSupport:
    """Read an ONNX file, with the functions that it defines expanded, and try every node.

    Raises: MavcgError for a damaged file, and for shapes that do not fit its inputs.
    """
    model = load_model(path)
    try:
        if model.functions:
            model = onnx_module().inliner.inline_local_functions(model)
        return model_support(model, path, shapes)
    except MavcgError as error:
        text = "".join(c if c.isprintable() else " " for c in str(error))
        raise type(error)(text if str(path) in text else f"{path}: {text}") from error
    except (RuntimeError, ValueError) as error:  # of onnx's C++, for models that are not well-formed
        raise MavcgError(f"{path}: the functions that it defines cannot be expanded ({one_line(error)})") from error


def plan_subgraphs(support: ModelSupport, stem: str, min_share: float, attempt: Attempt[T]) -> PartialPlan[T]:
    """Choose convex subgraphs, as large as possible, of nodes that can be built.

    Args:
        stem: first part of the operators' names; the position of the subgraph's first node is the second.
        min_share: of the model's multiply-accumulates, 0 to 1, that a subgraph has at least.
        attempt: imports a subgraph's model, with its name, as far as it takes to know that it can be built; it raises
            MavcgError where it cannot. The node that the error names is then left out, and the rest divided anew.
    """
    macs = [0 if node.known else node_macs(node.node, support.types) for node in support.nodes]
    total = sum(count for count in macs if count)
    whys = {i: node.why for i, node in enumerate(support.nodes) if node.why}
    sources, weights = _sources(support), [count or 0 for count in macs]
    made: dict[tuple[int, ...], BuiltSubgraph[T]] = {}
    while True:
        able = [not node.known and i not in whys for i, node in enumerate(support.nodes)]
        sets = [nodes for nodes in convex_sets(sources, able, weights)]
        kept = [nodes for nodes in sets if _share(nodes, weights, total) >= min_share]
        refused: dict[int, str] = {}
        for nodes in kept:
            if nodes not in made:
                try:
                    made[nodes] = _built(support, nodes, stem, attempt, weights)
                except ToolError:
                    raise
                except MavcgError as error:
                    refused |= _blamed(support, nodes, error, stem, attempt, weights)
        if not refused:
            break
        whys |= refused
    small = [nodes for nodes in sets if nodes not in kept]
    for nodes in small:
        share = _share(nodes, weights, total)
        why = f"in a subgraph with {share:.2%} of the MACs, below --min-share {min_share:.2%}"
        whys |= dict.fromkeys(nodes, why)
    return PartialPlan(
        support, tuple(made[nodes] for nodes in kept), _left(support, whys), total, sum(count is None for count in macs)
    )


def _sources(support: ModelSupport) -> list[list[int]]:
    """Return for each node the nodes that it reads of; what is known when the model is read is no dependence."""
    maker = {name: i for i, node in enumerate(support.nodes) for name in node.outputs}
    return [
        [] if node.known else [maker[n] for n in node.inputs if n in maker and n not in support.values]
        for node in support.nodes
    ]


def _share(nodes: Sequence[int], weights: Sequence[int], total: int) -> float:
    return sum(weights[i] for i in nodes) / total if total else 0.0


def _built(
    support: ModelSupport, nodes: Sequence[int], stem: str, attempt: Attempt[T], weights: Sequence[int]
) -> BuiltSubgraph[T]:
    subgraph = make_subgraph(support, nodes)
    name = f"{stem}_{nodes[0]}"
    model = subgraph_model(support, subgraph, name)
    return BuiltSubgraph(name, subgraph, model, attempt(model, name), sum(weights[i] for i in nodes))


_NODE_NAME = re.compile(r"node '(.*?)' \(")


def _blamed(
    support: ModelSupport,
    nodes: Sequence[int],
    error: MavcgError,
    stem: str,
    attempt: Attempt[T],
    weights: Sequence[int],
) -> dict[int, str]:
    """Return the nodes to leave out, each with its reason: the one that the error names, else those that cannot be
    built alone, else all."""
    match = _NODE_NAME.search(str(error))
    named = {i: reason(error) for i in nodes if match is not None and _label(support, i) == match[1]}
    if named:
        return named
    alone = {}
    for i in nodes if len(nodes) > 1 else ():
        try:
            _built(support, (i,), stem, attempt, weights)
        except ToolError:
            raise
        except MavcgError as own:
            alone[i] = reason(own)
    return alone or dict.fromkeys(nodes, reason(error))


def _label(support: ModelSupport, i: int) -> str:
    """Return what errors call a node."""
    node = support.nodes[i].node
    return node.name or next((name for name in node.output if name), node.op_type)


def _left(support: ModelSupport, whys: Mapping[int, str]) -> tuple[LeftNodes, ...]:
    """Count the nodes that stay by operator and reason, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    needed = {name for i in whys for name in support.nodes[i].inputs} | set(support.outputs)
    for i, node in reversed(list(enumerate(support.nodes))):
        domain = "" if node.node.domain in ("", "ai.onnx") else f"{node.node.domain}."
        if i in whys:
            counts[domain + node.node.op_type, whys[i]] += 1
        elif node.replicable and any(name in needed for name in node.outputs):
            needed.update(node.inputs)
            counts[domain + node.node.op_type, KNOWN] += 1
    ordered = sorted(counts.items(), key=lambda item: (item[0][1] == KNOWN, -item[1], item[0]))
    return tuple(LeftNodes(op, count, why) for (op, why), count in ordered)
