"""Limits that a selection of algorithms keeps: bytes of the arena and of the weights."""
