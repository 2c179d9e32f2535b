"""Selection of a primitive and a layout for each node of a network (PBQP; Anderson and Gregg, CGO 2018).

Where the next thing goes:

- Strategy of selection: strategies.py (docs/selection.md).
"""
