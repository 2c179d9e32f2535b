"""Classes of functions in inference: matrix products and convolutions, depthwise convolutions, copies, and the rest.

Functions are classified by patterns of names: those of mavcg's libraries (mavcg/specs/kernel_symbol.py), and those in
the public sources of TensorFlow Lite (Eigen, gemmlowp, ruy, XNNPACK), onnxruntime (MLAS), OpenBLAS, BLIS and oneDNN.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mavcg.profiling.ranking import RankedFunction, rank

if TYPE_CHECKING:
    from mavcg.profiling.profile import Profile

GEMM, DEPTHWISE, PACK, POOL = "GEMM/conv", "depthwise", "packing, layouts", "pooling"
NORM, ELEMENTWISE, COPY, OTHER = "normalisation, softmax", "element-wise", "memory", "other"
CLASSES: tuple[str, ...] = (GEMM, DEPTHWISE, PACK, POOL, NORM, ELEMENTWISE, COPY, OTHER)

# The first class with a matching pattern counts: depthwise before convolution, packing before matrix products.
_PATTERNS: Mapping[str, tuple[str, ...]] = {
    DEPTHWISE: ("depthwise", "dwconv", "vmulcaddc"),
    PACK: (
        "im2col", "im2row", "gemm_pack", "pack_[lr]hs", "packing", "(?<![a-z])pack(?![a-z])", "gemm_[io]t?copy",
        "gemm_[in]copy", "mlas.*(pack|reorder)", "jit_uni_reorder", "layout", "transpose(?!d|2d)", "^padded_",
        "^ragged_blocks", "^winograd_(input|output)", "^fft_(inverse_)?rows",
    ),
    GEMM: (
        "gemm", "geb[pb]", "gemv", "gepp", "gepdot", "conv(?!ert)", "matmul", "mat_mul", "inner_?product", "winograd",
        "dot_?product", "fully_?connected", "ruy::.*kernel(8|float)", "^direct_", "^sum2d", "^kn2_",
        r"^b?csr\d*_product", "^im2_(product|strips)", "^fft_products", "^plain_product", "^product_",
    ),
    POOL: ("pool",),
    NORM: ("soft_?max", "norm", "(?<![a-z])lrn(?![a-z])"),
    COPY: ("mem(cpy|move|set)", "erms$", "^(copy|concat|slice|gather|pad)_", "clear_page", "page_fault"),
    ELEMENTWISE: (
        "relu", "sigmoid", "tanh", "hard_?swish", "elementwise", "[v_](add|mul|sub|div|max|min|clamp)c?(?![a-z])",
        "gelu", "quantize", "eltwise", "unary", "binary", "reduce", "mean",
    ),
}  # fmt: skip
_RULES = tuple((name, re.compile("|".join(patterns), re.IGNORECASE)) for name, patterns in _PATTERNS.items())


@dataclass(frozen=True)
class ClassShares:
    """A profile's shares by class.

    label: the network or program. shares: class -> fraction of the samples, in the order of CLASSES; they sum to 1.
    hottest, hottest_share: the function with the largest share. total: samples (or instructions) counted.
    """

    label: str
    shares: "MappingProxyType[str, float]"
    hottest: str
    hottest_share: float
    total: float


@lru_cache(maxsize=65536)
def class_of(symbol: str, demangled: str) -> str:
    """Return the class of a function; patterns are searched in its linkage name and its demangled name."""
    for name, pattern in _RULES:
        if pattern.search(symbol) or pattern.search(demangled):
            return name
    return OTHER


def class_shares(profile: "Profile", label: str, inside: str = "") -> ClassShares:
    """Sum a profile's shares by class.

    inside: count only functions of the file of this name, such as a model's library; "" for all.
    Raises: MavcgError where no sample is left.
    """
    from mavcg.errors import MavcgError

    ranked = [f for f in rank(profile) if not inside or Path(f.object).name == inside]
    total = sum(f.samples for f in ranked)
    if not ranked or total <= 0:
        there = ", ".join(sorted({Path(f.object).name for f in rank(profile)})[:8])
        raise MavcgError(f"{label}: no samples in {inside or 'the profile'}; there are some in {there or 'nothing'}")
    return ClassShares(label, _sums(ranked, total), ranked[0].demangled, ranked[0].samples / total, total)


def _sums(ranked: Sequence[RankedFunction], total: float) -> "MappingProxyType[str, float]":
    sums = dict.fromkeys(CLASSES, 0.0)
    for function in ranked:
        sums[class_of(function.symbol, function.demangled)] += function.samples / total
    return MappingProxyType(sums)


def mean_share(rows: Sequence[ClassShares], name: str) -> float:
    """Return the arithmetic mean of a class's share over profiles, as in figure 2.1 of Park et al."""
    return sum(row.shares[name] for row in rows) / len(rows)
