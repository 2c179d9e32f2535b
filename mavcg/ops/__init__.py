"""The operators of a graph: inputs, attributes, types of their outputs (docs/design/model-graph.md)."""
