"""Convert operators of graphs to coarse operations of an accelerator; each module has a family of operators.

Where the next thing goes:

- Operator: a function of XGraphMaker and a node in the module of its family, and its entry in load.py; an operator
  without one is left to the CPU.
"""
