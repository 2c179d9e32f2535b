"""Analyses of assembly: basic blocks, loops, liveness, aliasing, dependences."""
