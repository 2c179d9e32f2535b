"""Operators of graphs as coarse operations of an accelerator, a family each module."""
