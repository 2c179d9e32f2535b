"""The real numbers that 8-bit tensors represent, and functions of them as lookup tables."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from mavcg.graph import DTYPES, Array, Node
from mavcg.graph.ops import make_node
from mavcg.graph.ops.eight_bit import limits
from mavcg.graph.reference import evaluate


@dataclass(frozen=True)
class Format:
    """A quantization: an 8-bit number q represents (q - zero) * scale. Results are clamped to lo <= q <= hi."""

    dtype: str
    scale: float
    zero: int
    lo: int
    hi: int

    def within(self, lo: float, hi: float) -> "Format":
        """Return this format with q clamped so that the real number lies in [lo, hi]; quantize is monotonic."""
        least, most = bound_of(lo, self)[0], bound_of(hi, self)[0]
        clamped = [min(max(q, self.lo), self.hi) for q in (least, most)]
        return replace(self, lo=clamped[0], hi=clamped[1])

    def attrs(self) -> dict[str, int | str | float | bool | tuple[int, ...] | tuple[float, ...]]:
        """Return the attributes that the 8-bit operators take for this format."""
        return {"out_zero": self.zero, "lo": self.lo, "hi": self.hi, "to": self.dtype}


@dataclass(frozen=True)
class EightBitTensor:
    """The 8-bit tensor `name` that represents an f32 tensor of the graph."""

    name: str
    format: Format


@dataclass(frozen=True)
class QuantizedWeights:
    """Constant weights: an i8 tensor with zero point 0, and its f32 scales [output channels]."""

    name: str
    array: Array
    scales: Array


def constant_format(scale: Array | None, zero: Array | None, dtype: str) -> Format | None:
    """Return the format given by a constant scale and zero point; None if they are per channel or not 8-bit."""
    if scale is None or zero is None or scale.size != 1 or dtype not in ("i8", "u8"):
        return None
    value = float(scale.reshape(-1)[0])
    if not math.isfinite(value) or value <= 0:
        return None
    return Format(dtype, value, int(zero.reshape(-1)[0]), *limits(dtype))


def bound_of(value: float, format: Format) -> tuple[int, float]:
    """Return q = quantize(value), and the real number that q represents."""
    least, most = limits(format.dtype)
    if math.isinf(value):
        q = least if value < 0 else most
    else:
        quotient = float(np.float32(np.float32(value).astype(np.float64) / format.scale))
        q = int(min(max(np.rint(quotient) + format.zero, least), most))
    return q, (q - format.zero) * format.scale


def table_of(
    source: Format,
    to: Format,
    steps: Sequence[Node],
    first: str,
    last: str,
    constants: Mapping[str, Array] = MappingProxyType({}),
) -> Array | None:
    """Return quantize(f(dequantize(q))) for all 256 numbers q of a format, from the lowest.

    steps: the element-wise nodes of f in order, from tensor `first` to `last`; empty for the identity. constants: the
    scalars that they read. Returns: [256] of to's type; None if f is NaN for some q.
    """
    least, most = limits(source.dtype)
    x = (np.arange(least, most + 1).astype(np.float64) - source.zero) * source.scale
    values = dict(constants) | {first: x.astype(np.float32)}
    for node in steps:
        (values[node.output],) = evaluate(node, [values[name] if name else None for name in node.inputs])
    result = values[last or first]
    if np.isnan(result).any():
        return None
    quantize = make_node("quantize", ("x", "scale", "zero"), ("q",), to=to.dtype)
    zero = np.asarray(to.zero, DTYPES[to.dtype])
    (table,) = evaluate(quantize, [np.broadcast_to(result, (256,)), np.asarray(to.scale, np.float32), zero])
    return np.clip(table, to.lo, to.hi)
