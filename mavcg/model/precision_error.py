"""The error of a model in f16 or bf16, measured: its graph against the f32 graph in double precision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node, is_float
from mavcg.graph.ops.op import node_location
from mavcg.graph.reference.evaluate import Visit, run
from mavcg.graph.reference.half import IN_BLOCKS, SumBlocks, run_half


@dataclass(frozen=True)
class MeasuredError:
    """The error on some sets of inputs.

    relative: largest error of an output, relative to the largest number of that output; None if it cannot be measured.
    overflows: nodes that make an infinite number or NaN.
    """

    relative: float | None
    overflows: tuple[str, ...] = ()


def error_json(error: MeasuredError) -> dict[str, Any]:
    """Return the error for documents: "measured_error" is None where it cannot be measured, or is infinite."""
    known = error.relative is not None and np.isfinite(error.relative)
    return {"measured_error": error.relative if known else None, "overflows": list(error.overflows)}


@dataclass(frozen=True)
class ExactRun:
    """A set of a graph's inputs, and its outputs in f64."""

    inputs: Sequence[Array]
    outputs: tuple[Array, ...]


def exact_runs(graph: Graph, sets: Sequence[Sequence[Array]], visit: Visit | None = None) -> tuple[ExactRun, ...]:
    """Return the runs of an f32 graph in f64; none if a set makes an index that does not exist.

    sets: of inputs. visit: as of `run`.
    """
    try:
        return tuple(ExactRun(inputs, run(graph, *inputs, wide=True, visit=visit)) for inputs in sets)
    except MavcgError:
        return ()


def measure_error(half: Graph, runs: Sequence[ExactRun], sums: SumBlocks = IN_BLOCKS) -> MeasuredError:
    """Return the error of an f32 graph's f16 or bf16 form. runs: exact_runs of the f32 graph. sums: of f16 products."""
    if not runs:
        return MeasuredError(None)
    errors = [_error_of(half, one, sums) for one in runs]
    overflows = tuple(dict.fromkeys(name for error in errors for name in error.overflows))
    known = [error.relative for error in errors if error.relative is not None]
    return MeasuredError(max(known) if len(known) == len(errors) else None, overflows)


def _error_of(half: Graph, exact: ExactRun, sums: SumBlocks) -> MeasuredError:
    overflows: list[str] = []

    def note_overflow(node: Node, result: Array) -> None:
        if result.dtype.itemsize == 2 and is_float(result.dtype) and not np.isfinite(result).all():
            overflows.append(node_location(node))

    try:
        computed = run_half(half, exact.inputs, note_overflow, sums)
    except MavcgError:  # a rounded number is an index that does not exist
        return MeasuredError(None)
    pairs = zip(exact.outputs, computed, strict=True)
    errors = [relative_error(wanted, found) for wanted, found in pairs if is_float(found.dtype) and found.size]
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
