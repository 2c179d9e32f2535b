"""The operators of a graph: inputs, attributes and type inference (docs/design/model-graph.md)."""

from mavcg.ops.nodes import infer, make_node
from mavcg.ops.table import OPS

__all__ = ["OPS", "infer", "make_node"]
