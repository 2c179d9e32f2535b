"""Graph -> graph: each pass a function with its before and after in the docstring.

Where the next thing goes:

- Graph pass: listed in pipeline.py (docs/add-a-pass.md).
"""
