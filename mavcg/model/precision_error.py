"""The error of a model in half precision, measured: its graph in f16 against the f32 graph in double precision."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Array, Graph, Node, TensorType
from mavcg.ops.op import node_location
from mavcg.reference.evaluate import run
from mavcg.reference.half import run_half

SEED = 0


@dataclass(frozen=True)
class MeasuredError:
    """The error on inputs of SEED.

    relative: largest error of an output, relative to the largest number of that output; None if it cannot be measured.
    overflows: nodes that make an infinite number or NaN.
    """

    relative: float | None
    overflows: tuple[str, ...] = ()


def error_json(error: MeasuredError) -> dict[str, Any]:
    """Return the error for documents: "measured_error" is None where it cannot be measured, or is infinite."""
    known = error.relative is not None and np.isfinite(error.relative)
    return {"measured_error": error.relative if known else None, "overflows": list(error.overflows)}


def exact_outputs(graph: Graph) -> tuple[Array, ...] | None:
    """Return the outputs of an f32 graph on its samples, in f64; None if these make an index that does not exist."""
    try:
        return run(graph, *samples(graph), wide=True)
    except MavcgError:
        return None


def measure_error(single: Graph, half: Graph, exact: tuple[Array, ...] | None) -> MeasuredError:
    """Return the error of a graph's f16 form on random inputs.

    single, half: with the same inputs and outputs. exact: exact_outputs(single).
    """
    if exact is None:
        return MeasuredError(None)
    overflows: list[str] = []

    def note_overflow(node: Node, result: Array) -> None:
        if result.dtype == np.float16 and not np.isfinite(result).all():
            overflows.append(node_location(node))

    try:
        computed = run_half(half, samples(single), note_overflow)
    except MavcgError:  # a rounded number is an index that does not exist
        return MeasuredError(None)
    pairs = zip(exact, computed, strict=True)
    errors = [relative_error(wanted, found) for wanted, found in pairs if found.dtype.kind == "f" and found.size]
    return MeasuredError(max(errors, default=0.0), tuple(dict.fromkeys(overflows)))


def relative_error(exact: Array, computed: Array) -> float:
    """Return the largest difference relative to the largest exact number; infinite where a number is not finite.

    exact, computed: of the same shape, not empty; where exact is not finite, nothing is compared.
    """
    compared = np.isfinite(exact)
    if not compared.any():
        return 0.0
    wanted, found = exact[compared], computed[compared].astype(np.float64)
    largest = float(np.abs(wanted).max()) or 1.0
    worst = float(np.abs(found - wanted).max() / largest)
    return worst if np.isfinite(worst) else float("inf")


def samples(graph: Graph) -> list[Array]:
    """Return the random inputs of a graph, always the same."""
    rng = np.random.default_rng(SEED)
    return [sample(graph.types[name], rng) for name in graph.inputs]


def sample(tensor: TensorType, rng: np.random.Generator) -> Array:
    """Return a random input: normal floats, 0 and 1 of other types, which are indices that exist."""
    if tensor.dtype.startswith("f"):
        return rng.standard_normal(tensor.shape).astype(DTYPES[tensor.dtype])
    return rng.integers(0, 2, tensor.shape).astype(DTYPES[tensor.dtype])
