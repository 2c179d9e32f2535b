"""Choices of a build: algorithms and layouts by PBQP, tiles, limits of memory, and the steps lowered from them.

A new way to choose goes beside the question that it answers: algorithms, pbqp, limits, tiles, predict or lowering.
"""
