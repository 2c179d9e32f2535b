"""The layers whose predicted time is unsure, since the simulator may well give another one; and their simulated times.

The rule is derived from the record that the fractions of memory time are fitted to (exposure.py, `python -m
bench.simulated_exposure`); `python -m bench.simulated_layers` counts on other networks how often it is right. A layer
is sure if all of these hold:

- its kernel's cycles come from the pipeline model of the core, and its cache lines from its loops;
- the record has eight different kernels of its pattern of memory accesses, and at least LEAST_KNOWN of them are within
  10 % of the simulated time; layers that share a kernel count once;
- arithmetic is most of the predicted time: memory and overhead are at most MOST_SHARE of it, so that an error in the
  fractions matters little;
- the time changes by at most MOST_CHANGE if operands lie half as far, or twice as far, back as predicted: no working
  set is so close to a cache's size that its level is a guess.

Cores of kinds whose fractions were not fitted are not judged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.choose.predict.exposure import memory_pattern
from mavcg.choose.predict.kernel_cycles import PIPELINE
from mavcg.choose.predict.latency import StepModel
from mavcg.choose.predict.memory import Distances
from mavcg.choose.predict.work import StepWork
from mavcg.hardware.board import Board
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.cost_fit import ExposedFit
from mavcg.specs.kernel import KernelSpec

LEAST_KNOWN = 2 / 3
MOST_SHARE = 0.2
MOST_CHANGE = 0.1
_TIMES = (0.5, 2.0)  # of the reuse distances

# Simulates steps of a program: (all steps, the numbers of some, a core) -> ms by number, or why not.
StepSimulator = Callable[[Sequence[StepWork], Sequence[int], CoreModel], Mapping[int, float | str]]


@dataclass(frozen=True)
class BuiltKernels:
    """A library with the kernels of a program's steps, and their specs by the names used in the steps."""

    library: Path
    specs: Mapping[str, KernelSpec]


# Simulates steps of a library on a board: (all steps, the numbers of some, their kernels, a core, the board, worker
# processes, progress). lab.simulate.simulated_layers has it.
LibrarySimulator = Callable[
    [Sequence[StepWork], Sequence[int], BuiltKernels, CoreModel, Board, int, Callable[[str], None]],
    Mapping[int, float | str],
]


def unsure_because(step: StepModel, worker: CoreModel) -> str:
    """Return the reason why a step's predicted time on one core is unsure; "" if it is sure."""
    fit = worker.fit.exposed
    cost = step.alone(worker)
    if fit is None or cost.ms <= 0:
        return ""
    if step.kernels[worker.number].how != PIPELINE:
        return f"cycles by {step.kernels[worker.number].how}"
    if step.lines(worker) is None:
        return "the addresses of its loops are not known"
    pattern = memory_pattern(step.work.kernel)
    known = known_fraction(pattern, fit)
    if known < LEAST_KNOWN:
        return (
            f"{pattern}: {known:.0%} of the kernels that were fitted are within 10 %"
            if known
            else f"{pattern}: few kernels were fitted"
        )
    share = 1 - cost.compute_ms / cost.ms
    if share > MOST_SHARE:
        return f"memory and overhead are {share:.0%} of the time"
    changed = max((abs(_with_distances(step, times).alone(worker).ms / cost.ms - 1) for times in _TIMES), default=0.0)
    if changed > MOST_CHANGE:
        return f"near a cache's size: {changed:.0%} more or less if operands lie in another level"
    return ""


def known_fraction(pattern: str, fit: ExposedFit) -> float:
    """Return the fraction of a pattern's fitted kernels within 10 %; 0 if there are too few."""
    return float(getattr(fit, f"{pattern}_known"))


def _with_distances(step: StepModel, times: float) -> StepModel:
    distances = Distances(tuple(round(times * far) for far in step.distances.bytes))
    return replace(step, distances=distances, _moved={}, _lines={})


def with_simulated(
    steps: Sequence[StepModel],
    unsure: Sequence[Mapping[int, str]],
    refused: Sequence[dict[int, str]],
    single: Sequence[CoreModel],
    simulate: StepSimulator,
) -> list[StepModel]:
    """Return the steps with simulated times where the model is unsure.

    refused: gets the reason for each step that cannot be simulated. Each cluster is simulated by itself: two with the
    same core may differ in clock and caches, and in the steps that are unsure.
    """
    works = [step.work for step in steps]
    times: list[list[tuple[CoreModel, float]]] = [[] for _ in steps]
    for worker in single:
        numbers = [number for number, why in enumerate(unsure) if worker.number in why]
        if worker.core is None or not numbers:
            continue
        for number, result in simulate(works, numbers, worker).items():
            if isinstance(result, str):
                refused[number][worker.number] = result
            else:
                times[number].append((worker, result))
    return [step.with_simulated(simulated_ms) for step, simulated_ms in zip(steps, times, strict=True)]
