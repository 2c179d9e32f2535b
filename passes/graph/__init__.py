"""Graph -> graph: each pass a function with its before and after in the docstring."""
