"""The operators of a graph: what each reads, its attributes, and the types that follow (docs/design/model-graph.md)."""

from mavcg.ops.nodes import infer, make_node
from mavcg.ops.table import OPS

__all__ = ["OPS", "infer", "make_node"]
