"""Limits of the importers on sizes and on the contents of files."""

import re

from mavcg.errors import MavcgError

LARGEST_BYTES = 1 << 29  # of one tensor that the import itself makes
MOST_BYTES = 1 << 31  # of all of them together
LARGEST_TENSOR_BYTES = 1 << 31  # of a tensor that exists at run time
NO_TYPE = "an input's shape is known only when the model runs, or its type is not supported"
MOST_REASON = 160  # characters
_NODE = re.compile(r"^(\S+: )?node '.*?' \([^)]*\): ")
MOST_INTS = 64  # entries of a tensor that gives axes, shapes, pads: more than any rank needs


class Unsupported(MavcgError):
    """Something that a format has and that there is nothing for: an operator, a form of it, an element type."""


class UnsupportedOp(Unsupported):
    """An operator, or a form of it, that there is nothing for."""


def reason(error: MavcgError) -> str:
    """Return the reason of a refusal without the node's name, so that equal reasons are counted together."""
    text = _NODE.sub("", " ".join(str(error).split()))
    text = re.sub(r" \(%[^)]*\)| %\S+", "", text).partition("; supported: ")[0]
    return text if len(text) <= MOST_REASON else text[: MOST_REASON - 3] + "..."
