"""A random TFLite graph's results by LiteRT, and the class of their difference from mavcg's."""

from collections.abc import Sequence

import numpy as np

from bench.differential.part import Array
from bench.differential.tflite_part import TflitePart, tflite_model


def litert(part: TflitePart) -> list[Array]:
    """Return the outputs of a graph by LiteRT's own kernels.

    Raises: LiteRT's exceptions if it does not run the graph.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=tflite_model([part]), experimental_op_resolver_type=resolver, num_threads=1)
    interpreter.allocate_tensors()
    for details, array in zip(interpreter.get_input_details(), part.inputs.values(), strict=True):
        interpreter.set_tensor(details["index"], array)
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(details["index"])) for details in interpreter.get_output_details()]


# Operators with a fused activation: LiteRT clamps their results to the finite numbers of f32 where it is NONE.
CLAMPED = frozenset(
    {
        *("ADD", "SUB", "MUL", "DIV", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D"),
        *("AVERAGE_POOL_2D", "L2_POOL_2D"),
    }
)
HARD_OPERATORS = frozenset(
    {
        *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"),
        *("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "L2_NORMALIZATION", "SOFTMAX"),
        *("LOG_SOFTMAX", "RESIZE_BILINEAR", "MAXIMUM", "MINIMUM"),
    }
)


def tflite_verdict(part: TflitePart, ours: Sequence[Array], theirs: Sequence[Array]) -> tuple[str, str]:
    """Return status and class of the difference to LiteRT.

    Allowed are one step in 8 bits, and 2e-5 of the largest result in f32.
    """
    name = part.operators[0]
    for have, want in zip(ours, theirs, strict=True):
        if have.shape != want.shape or have.dtype != want.dtype:
            return "different", f"{have.dtype}{list(have.shape)} where {want.dtype}{list(want.shape)} is expected"
        with np.errstate(all="ignore"):
            a, b = have.astype(np.float64), want.astype(np.float64)
            distance = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
            if have.dtype == np.int8:
                if part.quantised and 0 < np.max(distance, initial=0) <= 1:
                    return "explained", f"LiteRT, 8 bits: one step: {name}"
                if np.max(distance, initial=0) > 1:
                    return "different", name
                continue
            clamped = have.dtype.kind == "f" and name in CLAMPED and bool(np.isinf(a).any())
            if clamped:
                most = float(np.finfo(have.dtype).max)
                a = np.clip(a, -most, most)
                distance = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
            finite = np.isfinite(a) & np.isfinite(b)
            size = max(float(np.max(np.abs(b[finite]), initial=0.0)), 1e-3)
            near = distance <= (2e-5 * size if have.dtype.kind == "f" else 0)
        if not near.all():
            if part.hard and name in HARD_OPERATORS and bool(np.all(near | ~finite)):
                return "explained", f"LiteRT, hard numbers: {name}"
            return "different", name
        if clamped:
            return "explained", f"LiteRT clamps infinities to finite numbers: {name}"
    return "same", ""
