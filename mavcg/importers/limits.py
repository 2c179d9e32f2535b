"""Limits of the importers on sizes and on the contents of files."""

from mavcg.errors import MavcgError

LARGEST_BYTES = 1 << 29  # of one tensor that the import itself makes
MOST_BYTES = 1 << 31  # of all of them together
LARGEST_TENSOR_BYTES = 1 << 31  # of a tensor that exists at run time
MOST_INTS = 64  # entries of a tensor that gives axes, shapes, pads: more than any rank needs


class Unsupported(MavcgError):
    """Something that a format has and that there is nothing for: an operator, a form of it, an element type."""


class UnsupportedOp(Unsupported):
    """An operator, or a form of it, that there is nothing for."""
