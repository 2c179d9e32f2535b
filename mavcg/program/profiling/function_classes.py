"""Classes of functions in inference: matrix products and convolutions, depthwise convolutions, copies, and the rest.

Functions are classified by what their code computes where it is at hand (code_class.py beside this), else by
patterns of names: those of mavcg's libraries (mavcg/specs/kernel_symbol.py), and those in
the public sources of TensorFlow Lite (Eigen, gemmlowp, ruy, XNNPACK), onnxruntime (MLAS), OpenBLAS, BLIS and oneDNN.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mavcg.program.profiling.ranking import RankedFunction, rank

if TYPE_CHECKING:
    from mavcg.program.profiling.profile import Profile

GEMM, DEPTHWISE, PACK, POOL = "GEMM/conv", "depthwise", "packing, layouts", "pooling"
NORM, ELEMENTWISE, COPY, OTHER = "normalisation, softmax", "element-wise", "memory", "other"
CLASSES: tuple[str, ...] = (GEMM, DEPTHWISE, PACK, POOL, NORM, ELEMENTWISE, COPY, OTHER)

# The first class with a matching pattern counts: depthwise before convolution, packing before matrix products.
_PATTERNS: Mapping[str, tuple[str, ...]] = {
    DEPTHWISE: ("depthwise", "dwconv", "vmulcaddc"),
    PACK: (
        "im2col",
        "im2row",
        "gemm_pack",
        "pack_[lr]hs",
        "packing",
        "(?<![a-z])pack(?![a-z])",
        "gemm_[io]t?copy",
        "gemm_[in]copy",
        "mlas.*(pack|reorder)",
        "jit_uni_reorder",
        "layout",
        "transpose(?!d|2d)",
        "^padded_",
        "^ragged_blocks",
        "^winograd_(input|output)",
        "^fft_(inverse_)?rows",
    ),
    GEMM: (
        "gemm",
        "geb[pb]",
        "gemv",
        "gepp",
        "gepdot",
        "conv(?!ert)",
        "matmul",
        "mat_mul",
        "inner_?product",
        "winograd",
        "dot_?product",
        "fully_?connected",
        "ruy::.*kernel(8|float)",
        "^direct_",
        "^sum2d",
        "^kn2_",
        r"^b?csr\d*_product",
        "^im2_(product|strips)",
        "^fft_products",
        "^plain_product",
        "^product_",
    ),
    POOL: ("pool",),
    NORM: ("soft_?max", "norm", "(?<![a-z])lrn(?![a-z])"),
    COPY: ("mem(cpy|move|set)", "erms$", "^(copy|concat|slice|gather|pad)_", "clear_page", "page_fault"),
    ELEMENTWISE: (
        "relu",
        "sigmoid",
        "tanh",
        "hard_?swish",
        "elementwise",
        "[v_](add|mul|sub|div|max|min|clamp)c?(?![a-z])",
        "gelu",
        "quantize",
        "eltwise",
        "unary",
        "binary",
        "reduce",
        "mean",
    ),
}
_RULES = tuple((name, re.compile("|".join(patterns), re.IGNORECASE)) for name, patterns in _PATTERNS.items())


@dataclass(frozen=True)
class ClassedFunction:
    """A function with its class. share: fraction of the samples counted. by: "code" or "name"."""

    function: str
    object: str
    share: float
    name: str
    by: str


@dataclass(frozen=True)
class ClassShares:
    """A profile's shares by class.

    label: the network or program. shares: class -> fraction of the samples, in the order of CLASSES; they sum to 1.
    hottest, hottest_share: the function with the largest share. total: samples (or instructions) counted.
    functions: hottest first.
    """

    label: str
    shares: "MappingProxyType[str, float]"
    hottest: str
    hottest_share: float
    total: float
    functions: tuple[ClassedFunction, ...] = ()

    @property
    def by_code(self) -> float:
        """The fraction of the samples in functions that are classified by their code."""
        return sum(function.share for function in self.functions if function.by == "code")


@lru_cache(maxsize=65536)
def class_of(symbol: str, demangled: str) -> str:
    """Return the class of a function; patterns are searched in its linkage name and its demangled name."""
    for name, pattern in _RULES:
        if pattern.search(symbol) or pattern.search(demangled):
            return name
    return OTHER


def by_name_alone(function: RankedFunction) -> str:
    """Return "", for no class by code: the classifier of functions whose code is not at hand."""
    return ""


def class_shares(
    profile: "Profile", label: str, inside: str = "", class_by_code: Callable[[RankedFunction], str] = by_name_alone
) -> ClassShares:
    """Sum a profile's shares by class.

    inside: count only functions of the file of this name, such as a model's library; "" for all.
    class_by_code: the class of a function by its code, "" where none decides; then its name does.
    Raises: MavcgError where no sample is left.
    """
    from mavcg.errors import MavcgError

    ranked = [f for f in rank(profile) if not inside or Path(f.object).name == inside]
    total = sum(f.samples for f in ranked)
    if not ranked or total <= 0:
        there = ", ".join(sorted({Path(f.object).name for f in rank(profile)})[:8])
        raise MavcgError(f"{label}: no samples in {inside or 'the profile'}; there are some in {there or 'nothing'}")
    functions = tuple(_with_class(function, total, class_by_code(function)) for function in ranked)
    sums = dict.fromkeys(CLASSES, 0.0)
    for function in functions:
        sums[function.name] += function.share
    hottest = functions[0]
    return ClassShares(label, MappingProxyType(sums), hottest.function, hottest.share, total, functions)


def _with_class(function: RankedFunction, total: float, by_code: str) -> ClassedFunction:
    """Return a function with its class: by its code, or by its name where by_code is ""."""
    name = by_code or class_of(function.symbol, function.demangled)
    share = function.samples / total
    return ClassedFunction(function.demangled, function.object, share, name, "code" if by_code else "name")


def mean_share(rows: Sequence[ClassShares], name: str) -> float:
    """Return the arithmetic mean of a class's share over profiles, as in figure 2.1 of Park et al."""
    return sum(row.shares[name] for row in rows) / len(rows)
