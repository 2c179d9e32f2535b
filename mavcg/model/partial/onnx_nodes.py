"""The nodes of an ONNX model, as a partial build divides them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.importers.limits import DEEPEST, MOST_NODES
from mavcg.importers.onnx_functions import without_functions
from mavcg.importers.onnx_proto import load_model
from mavcg.importers.onnx_support import ModelSupport, model_support
from mavcg.model.partial.onnx_branches import Branch
from mavcg.model.partial.onnx_macs import node_macs
from mavcg.model.partial.plan import PlanNode


def read_support(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> ModelSupport:
    """Read an ONNX file, expand the functions that it defines, and try to import every node.

    Raises: MavcgError for a damaged file, and for shapes that do not fit its inputs.
    """
    model = load_model(path)
    try:
        if model.functions:
            model = without_functions(model, DEEPEST, MOST_NODES)
        return model_support(model, path, shapes)
    except MavcgError as error:
        text = "".join(c if c.isprintable() else " " for c in str(error))
        raise type(error)(text if str(path) in text else f"{path}: {text}") from error


def onnx_nodes(support: ModelSupport) -> list[PlanNode]:
    """Return all nodes that the model's outputs depend on."""
    nodes = []
    for supported in support.nodes:
        node = supported.node
        domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
        label = node.name or next((name for name in node.output if name), node.op_type)
        inputs = tuple(n for n in supported.inputs if n not in support.values or supported.replicable or supported.why)
        macs = 0 if supported.known else node_macs(node, support.types)
        nodes.append(
            PlanNode(
                domain + node.op_type,
                label,
                inputs,
                supported.outputs,
                supported.why,
                supported.known,
                supported.replicable,
                macs,
            )
        )
    return nodes


def branch_nodes(branch: Branch) -> list[PlanNode]:
    """Return the nodes of a graph inside of a node; multiply-accumulates of graphs inside of these are not counted."""
    around = {inner.node for inner in branch.inside}
    return [replace(node, macs=0) if i in around else node for i, node in enumerate(onnx_nodes(branch.support))]


def branch_macs(branch: Branch) -> int:
    """Return the multiply-accumulates of a graph inside of a node, each run once, with all graphs inside of it."""
    return sum(node.macs or 0 for node in branch_nodes(branch)) + sum(map(branch_macs, branch.inside))


def nodes_of_sizes(supports: Sequence[ModelSupport], names: Sequence[str]) -> list[PlanNode]:
    """Return the nodes of a model in several sizes; a node is supported if it is in each size. names: of the sizes.

    Multiply-accumulates are those of the first size.
    """
    merged = []
    for nodes in zip(*map(onnx_nodes, supports), strict=True):
        first = nodes[0]
        why = next((f"{name}: {node.why}" for name, node in zip(names, nodes, strict=True) if node.why), "")
        if not why and len({(node.known, node.kept) for node in nodes}) > 1:
            why = "its result is known when the model is read in some of the sizes only"
        known = not why and first.known
        merged.append(replace(first, why=why, known=known, kept=known and first.kept))
    return merged
