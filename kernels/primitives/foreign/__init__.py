"""Convolutions whose matrix product a shared library of this machine computes."""
