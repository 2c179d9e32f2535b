"""Definitions of matrix products."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import Array, Node
from mavcg.reference.elementwise import apply_activation


def _matmul(node: Node, inputs: Sequence[Any]) -> Array:
    a, b, bias, residual = inputs
    total = np.matmul(a, np.swapaxes(b, -1, -2) if node.attr("transpose_b") else b)
    total = total if bias is None else total + bias
    return apply_activation(node, total if residual is None else total + residual)


DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {"matmul": _matmul}
