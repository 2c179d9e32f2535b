"""Predicted time of a range of steps computed by bands of rows.

A band is some rows of the range's last step, with the rows of the earlier steps that these need. The steady state is
modelled: every band computes the same number of rows of each step. Tensors inside the range are as far away as the
bytes that a band touches between two uses (memory.py); tensors that enter or leave the range are where the
layer-by-layer order finds them.

Several threads divide a layer's rows at the same places in all layers, so each finds its rows in its own caches. They
do not so by bands: a band moves on by a few rows, and which thread computes a row, and had the memory that it is
written to, differs from band to band. All but a thread's share of a band's rows come from the other cores' caches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from mavcg.choose.bands.banded_range import BandTimes
from mavcg.choose.lowering.row_phases import ProgramRows
from mavcg.choose.predict.kernel_cycles import KernelModel
from mavcg.choose.predict.latency import StepModel
from mavcg.choose.predict.memory import Distances, reuse_distances
from mavcg.choose.predict.work import INPUT, OUTPUT, WEIGHT, StepWork, Touch
from mavcg.hardware.core_model import CoreModel
from mavcg.memory.row_demand import ByteAccess
from mavcg.memory.row_segments import StepRange

_MIDDLE = 1 << 40  # addresses of the band that is modelled; others lie before and after it


@dataclass(frozen=True)
class BandedStep:
    """A step in the steady state: `count` calls of the engine with this work each.

    outside: for each touch, true if its bytes belong to another range of steps.
    """

    work: StepWork
    count: int
    outside: tuple[bool, ...]


def banded_steps(rows: ProgramRows, works: Sequence[StepWork], steps: StepRange) -> list[BandedStep] | None:
    """Return the steps of a range by bands; None if a step is not computed by rows that follow from the last step's.

    rows, works: of the whole program.
    """
    numbers = range(steps.begin, steps.end)
    units = _units_of_a_band(rows, steps)
    if units is None:
        return None
    bands = -(-rows.steps[steps.end - 1].units // steps.band_units)
    written = {a.buffer: n for n in numbers for a in rows.steps[n].accesses if a.written}
    readers = {a.buffer for n, step in enumerate(rows.steps) if n >= steps.end for a in step.accesses}
    known: set[str] = set()  # buffers from outside that a step of the band has read
    made = []
    for number in numbers:
        count, per_call = bands, max(1, round(units[number]))
        if units[number] < 1:  # some bands do without it
            count = max(1, round(bands * units[number]))
        step, work = rows.steps[number], works[number]
        touches, outside = [], []
        for access in step.accesses:
            most = -(-work.bytes_of(OUTPUT) * per_call // step.units) if access.written else None
            touches.append(_touch(access, per_call, rows.sizes, most))
            leaves = access.buffer in readers or access.buffer not in rows.sizes
            enters = written.get(access.buffer, steps.end) >= number and access.buffer not in known
            outside.append(leaves if access.written else enters and not _in_place(step.accesses, access))
            if not access.written:
                known.add(access.buffer)
        constants = [touch for touch in work.touches if touch.role == WEIGHT]
        share = per_call / step.units
        per_unit = rows.works[number].rows_per_unit
        made.append(
            BandedStep(
                replace(
                    work,
                    rows=min(work.rows, per_call * per_unit),
                    macs=round(work.macs * share),
                    call_rows=min(work.call_rows, per_call * per_unit),
                    operations=max(1, round(work.operations * share)),
                    touches=(*touches, *constants),
                ),
                count,
                (*outside, *[False] * len(constants)),
            )
        )
    return made


def _in_place(accesses: Sequence[ByteAccess], read: ByteAccess) -> bool:
    return any(access.written and access.buffer == read.buffer for access in accesses)


def _units_of_a_band(rows: ProgramRows, steps: StepRange) -> dict[int, Fraction] | None:
    """Return the units of each step that a band computes, from the last step back."""
    moves: dict[str, Fraction] = {}  # bytes that a band goes on in a buffer
    units: dict[int, Fraction] = {}
    for number in reversed(range(steps.begin, steps.end)):
        step = rows.steps[number]
        if step.units < 2 or any(access.step <= 0 for access in step.accesses):
            return None
        own = [moves[a.buffer] / a.step for a in step.accesses if a.written and a.buffer in moves]
        if number == steps.end - 1:
            own = [Fraction(min(steps.band_units, step.units))]
        if not own:
            return None
        units[number] = max(own)
        for access in step.accesses:
            moves[access.buffer] = max(moves.get(access.buffer, Fraction(0)), units[number] * access.step)
    return units


def _touch(access: ByteAccess, units: int, sizes: Mapping[str, int], most: int | None) -> Touch:
    """Return the touch of `units` units, with the same end for all steps that use the buffer.

    most: limit of its bytes, for a step that touches only some bytes of its rows, such as a border.
    """
    span = (units - 1) * access.step + access.extent
    span = min(span, sizes.get(access.buffer, span))
    moved = min(span, units * access.extent) if most is None else min(span, most)
    return Touch(OUTPUT if access.written else INPUT, access.buffer, _MIDDLE - span, moved, span)


@dataclass(frozen=True)
class BandedModel:
    """The model of a step's call in a band.

    count: of calls. inside_bytes: of the range's own tensors that a call reads and writes.
    """

    step: StepModel
    count: int
    inside_bytes: int

    def exchanged_ms(self, alone: CoreModel, workers: Sequence[CoreModel]) -> float:
        """Return the time in which all calls' rows pass from one core's own caches to another's, in ms.

        A line that the other core wrote passes twice: out of its caches and into this core's. On a Xeon such lines came
        at 14 GB/s where level 3 gave 30.

        alone: one of the workers as it works alone, with the whole of each cache.
        """
        own = own_levels(alone, workers[0])
        if len(workers) == 1 or not own:
            return 0.0
        threads = 1 if self.step.work.chunk_rows >= self.step.work.rows else len(workers)
        others = 2 * self.inside_bytes * (len(workers) - 1) / len(workers)
        return self.count * others / threads / workers[0].levels[own - 1].bandwidth_gb_per_s / 1e6


def own_levels(alone: CoreModel, together: CoreModel) -> int:
    """Return the number of cache levels of a core that it shares with no other core of its cluster.

    alone, together: the core, as it works alone and while all cores of its cluster work.
    """
    sizes = zip(alone.levels, together.levels, strict=True)
    return next((n for n, (a, b) in enumerate(sizes) if b.shared_bytes < a.shared_bytes), len(alone.levels))


def of_team(step: StepModel, cores: int) -> StepModel:
    """Return the model of a step that several cores compute in every run: each has its part of the rows in its caches.

    What all of them read, weights and the input of a step that is divided by channels, lies as far away as before.
    """
    shared = (WEIGHT, INPUT) if step.work.by_channels else (WEIGHT,)
    pairs = zip(step.work.touches, step.distances.bytes, strict=True)
    bytes_of_core = tuple(size if touch.role in shared else size // cores for touch, size in pairs)
    return StepModel(step.work, Distances(bytes_of_core), step.kernels, step.factors)


def band_models(
    banded: Sequence[BandedStep],
    works: Sequence[StepWork],
    distances: Sequence[Distances],
    kernels: Sequence[Mapping[int, KernelModel]],
) -> list[BandedModel]:
    """Return the model of each step's call.

    works, distances: of the same steps layer by layer. kernels: of each step, by cluster.
    """
    modelled = []
    inside = reuse_distances([step.work for step in banded])
    for step, work, far, near, models in zip(banded, works, distances, inside, kernels, strict=True):
        # Operands outside of the range have the reuse distance of the layer by layer run: that of the furthest operand
        # of the role.
        whole = {
            role: max((d for t, d in zip(work.touches, far.bytes, strict=True) if t.role == role), default=0)
            for role in (INPUT, OUTPUT)
        }
        own = tuple(
            whole[touch.role] if out else distance
            for touch, out, distance in zip(step.work.touches, step.outside, near.bytes, strict=True)
        )
        inside_bytes = sum(
            touch.bytes
            for touch, out in zip(step.work.touches, step.outside, strict=True)
            if not out and touch.role != WEIGHT
        )
        modelled.append(BandedModel(StepModel(step.work, Distances(own), models), step.count, inside_bytes))
    return modelled


def compare_times(
    before: Sequence[float], models: Sequence[BandedModel], alone: CoreModel, workers: Sequence[CoreModel]
) -> BandTimes:
    """Compare the times of steps layer by layer, in ms, with the times of the models' calls.

    alone: one of the workers as it works alone.
    """
    after = [
        model.count * of_team(model.step, len(workers)).together(workers) + model.exchanged_ms(alone, workers)
        for model in models
    ]
    saved = [a - b for a, b in zip(before, after, strict=True)]
    return BandTimes(sum(before), sum(after), sum(max(0.0, s) for s in saved), sum(max(0.0, -s) for s in saved))
