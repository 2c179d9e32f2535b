"""The operators of a graph: inputs, attributes and type inference (docs/design/model-graph.md).

Where the next thing goes:

- Operator of graphs: mavcg/graph/reference/, a kernel, a row in docs/design/model-graph.md (docs/add-an-operator.md).
- Activation: elementwise.py, graph/reference/elementwise.py, kernels/builder/activation.py (docs/add-an-operator.md).
"""

from mavcg.graph.ops.nodes import OPS, infer, make_node

__all__ = ["OPS", "infer", "make_node"]
