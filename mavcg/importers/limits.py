"""Limits of the importers on sizes, and the errors for unsupported contents of files."""

import re

from mavcg.errors import MavcgError

LARGEST_BYTES = 1 << 29  # maximum bytes of a tensor that the import evaluates
MOST_BYTES = 1 << 31  # maximum bytes of all tensors that the import evaluates
LARGEST_TENSOR_BYTES = 1 << 31  # maximum bytes of a tensor at run time
# Of a model's or its weights' file: offsets in it have 32 bits, and protobuf's sizes 31.
MOST_FILE_BYTES = 1 << 32
MOST_NODES = 200_000  # maximum nodes of a graph, once functions are expanded
MOST_UNROLLED = 1024  # maximum iterations of one loop that is unrolled; each is about as many nodes as its body has
DEEPEST = 32  # maximum nesting of functions, branches and control flow
LEAST_TRIPS = 8  # of a loop of the graph; fewer iterations are unrolled, without copies of states
MOST_ELEMENTS = 1 << 12  # maximum elements of a sequence into which a tensor is split
LARGEST_TOP = 1 << 14  # maximum elements that a run chooses from a line by their order, which it does by insertion
LISTED = "`mavcg build --operators` lists those that are"
NO_TYPE = "an input's shape is known only when the model runs, or its type is not supported"
COUNTED = "only a run decides the length of its result, which whole models support"
OF_SEQUENCE = "its result is a sequence or an optional, which whole models support"
MOST_REASON = 160  # maximum characters of a reason
_NODE = re.compile(r"^(\S+: )?node '.*?' \([^)]*\): ")
MOST_INTS = 64  # maximum entries of a tensor of axes, lengths or pads: more than any rank needs


class Unsupported(MavcgError):
    """Raised for an unsupported feature of a format: an operator, a form of it, an element type."""


class UnsupportedOp(Unsupported):
    """Raised for an unsupported operator, or an unsupported form of it."""


class NeedsConstant(MavcgError):
    """Raised when an operator needs the value of a computed tensor at import. tensor: its name in the file."""

    def __init__(self, message: str, tensor: str) -> None:
        super().__init__(message)
        self.tensor = tensor


def problem(error: MavcgError) -> str:
    """Return an error's text without the node's name."""
    return _NODE.sub("", str(error))


def reason(error: MavcgError) -> str:
    """Return an error's reason without the node's name, so that equal reasons can be counted together."""
    text = _NODE.sub("", " ".join(str(error).split()))
    text = re.sub(r" \(%[^)]*\)| %\S+", "", text).partition("; supported: ")[0].removesuffix(f"; {LISTED}")
    return text if len(text) <= MOST_REASON else text[: MOST_REASON - 3] + "..."
