"""The operators of a graph: what each reads, its attributes, and the types that follow (docs/design/model-graph.md)."""

from mavcg.ops.nodes import check_form, infer, make_node, operator
from mavcg.ops.table import OPS

__all__ = ["OPS", "check_form", "infer", "make_node", "operator"]
