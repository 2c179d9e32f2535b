"""Convolutions whose weights are mostly zeros: only the others are stored and multiplied."""
