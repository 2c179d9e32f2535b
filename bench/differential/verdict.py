"""Classes of differences between mavcg's and another runtime's results, judged by bench.differential.truth."""

from collections.abc import Sequence

import numpy as np

from bench.differential.part import Array, Part
from bench.differential.truth import STASHED, Bounded

TIGHT = 168.0  # units in the last place of the largest result: 2e-5 in f32. Beyond it a difference is given its class

# Operators of which NaN, infinities and overflow give other results than in the other runtime, by docs/operators.md.
HARD_CLASSES = (
    "MaxPool",
    "GlobalMaxPool",
    "ReduceMax",
    "ReduceMin",
    "DynamicQuantizeLinear",
    "QuantizeLinear",
    "Conv",
    "ConvTranspose",
    "MatMul",
    "Gemm",
    "Softmax",
    "LogSoftmax",
    "Hardmax",
    "ArgMax",
    "ArgMin",
    "ReduceLogSumExp",
    "FusedConv",
    "ReduceProd",
    "ReduceL2",
    "LpNormalization",
    "BatchNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "GroupNormalization",
    "LRN",
    "Resize",
    "Upsample",
    "AveragePool",
    "GlobalAveragePool",
    "LpPool",
    "GlobalLpPool",
)

SQUARES = frozenset({"LpNormalization", "ReduceL2", "LpPool", "GlobalLpPool"})  # of tiny numbers they underflow
LITTLE = 1e-150
# Finite results that NaN or infinities among the arguments leave undefined: an index among NaN, a scale of infinity,
# the 0 that Shrink makes of NaN.
CHOICES = frozenset({"ArgMax", "ArgMin", "Hardmax", "QuantizeLinear", "DynamicQuantizeLinear", "Shrink"})


def verdict(
    part: Part, ours: Sequence[Array], theirs: Sequence[Array], truth: Sequence[Bounded] | None, runtime: str
) -> tuple[str, str]:
    """Return status (same, explained or different) and class of the difference of two runs of a graph.

    truth: of each output; None if the reference does not compute the graph. runtime: the other runtime's name.
    """
    worst = ("same", "")
    for i, (have, want) in enumerate(zip(ours, theirs, strict=True)):
        if have.shape != want.shape or have.dtype != want.dtype:
            return "different", f"{have.dtype}{list(have.shape)} where {want.dtype}{list(want.shape)} is expected"
        difference = _difference(part, have, want, truth[i] if truth else None, runtime)
        if difference is not None:
            worst = max(worst, difference, key=lambda pair: ("same", "explained", "different").index(pair[0]))
    return worst


def _near(a: Array, b: Array, bound: Array) -> Array:
    return (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= bound) | np.isposinf(bound)


def _difference(part: Part, have: Array, want: Array, truth: Bounded | None, runtime: str) -> tuple[str, str] | None:
    with np.errstate(all="ignore"):
        a, b = have.astype(np.float64), want.astype(np.float64)
        is_float = have.dtype.kind == "f"
        finite = np.isfinite(a) & np.isfinite(b)
        size = max(float(np.max(np.abs(b[finite]), initial=0.0)), 1e-3) if is_float else 0.0
        tight = np.full(a.shape, TIGHT * float(np.finfo(have.dtype).eps) * size if is_float else 0.0)
        agree = _near(a, b, tight)
        if truth is None or truth.value.shape != a.shape:
            if agree.all():
                return None
            name = next((op for op in part.operators if op in HARD_CLASSES), "")
            if part.hard and name and bool(np.all(agree | ~finite)):
                return "explained", f"hard numbers: {name}"
            return "different", _named(part)
        ours_right, theirs_right = (_near(x, truth.value, truth.bound) for x in (a, b))
        alike = _near(a, b, truth.bound)
    # Where both agree with each other and neither with the reference, that has other semantics.
    wrong = ~ours_right & ~alike & ~(agree & ~theirs_right)
    if wrong.any():
        if part.hard and part.operators[0] in SQUARES and bool(np.all(np.abs(a[wrong]) < LITTLE)):
            return "explained", f"hard numbers: {part.operators[0]}"
        # A finite result that is wrong has no excuse but where NaN and infinities leave it undefined.
        undefined = ~finite | ~np.isfinite(truth.value) | bool(CHOICES & set(part.operators))
        if not truth.large or bool(np.any(wrong & ~undefined)):
            return "different", _named(part)
        name = next((op for op in part.operators if op in HARD_CLASSES), "")
        return ("explained", f"hard numbers: {name}") if name else ("different", _named(part))
    if (~theirs_right & ~alike & ours_right).any():
        kind = "" if finite.all() else "NaN or infinity: "
        return "explained", f"{kind}{runtime} is farther from the float64 result: {_named(part)}"
    if not agree.all() and part.dtype == np.float64 and STASHED & set(part.operators):
        return "explained", f"computed in f32 by stash_type: {_named(part)}"
    if not agree.all():
        return "explained", "ill-conditioned: rounding errors move the float64 result as far"
    return None


def _named(part: Part) -> str:
    return "+".join(part.operators)
