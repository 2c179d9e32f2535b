"""Choices of a build, in the order in which model/stages.py makes them, each a room with its question.

    algorithms   which algorithm, primitive and layout computes each node (pbqp: the solver)
    limits       within which bytes of buffers and of weights
    lowering     to which kernels and steps, at which addresses
    lengths      to which kernels, if a run decides the lengths
    bands        which layers by bands of rows
    tiles        which macro-tile each kernel has on each core
    predict      what these are predicted to take

What is chosen is one value, the Plan (plan.py). A new way to choose goes beside the question that it answers.
"""
