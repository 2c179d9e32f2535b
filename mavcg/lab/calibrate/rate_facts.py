"""Rates, the width of issue, blocked slots and pairs, from the cycles of loops of independent instructions."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from mavcg.errors import MavcgError
from mavcg.lab.calibrate.altered_core import WIDTH, row_key, with_rate
from mavcg.lab.calibrate.calibrated_model import CalibratedModel
from mavcg.lab.calibrate.loops import LoopTimer
from mavcg.lab.calibrate.rate_loops import blocking_loop, pair_loops, rate_loop, wide_loops
from mavcg.lab.calibrate.templates import Template

_SAME = 0.015  # relative difference of rates that counts as none
_NEAR = 0.03  # relative difference of a rate from the fraction that it is taken for
_TOLD = 0.03  # relative difference of the model's rate from the row's, above which a loop does not show the rate
_MOST_UNITS = 6  # of a class's pools, when a rate is taken for a fraction
_MOST_BLOCKED = 24
_PAIR_CYCLES = 0.3  # difference of a pair's cycles that counts


@dataclass(frozen=True)
class PairCycles:
    """Two classes in turn. measured, modelled: cycles of one of each, with the found facts."""

    one: str
    two: str
    measured: float
    modelled: float

    @property
    def differs(self) -> bool:
        """True if the model with the found facts is wrong about the pair."""
        return abs(self.measured - self.modelled) > _PAIR_CYCLES


def find_rates(timer: LoopTimer, model: CalibratedModel, known: Mapping[str, Template]) -> CalibratedModel:
    """Return the model with the width, the cycles that classes block, and their rates, as loops show them."""
    rates = {name: rate_loop(name, template) for name, template in known.items()}
    wide = wide_loops(known)
    blocking = {name: blocking_loop(name, known) for name in known if model.timing.order == "in" and "alu" in known}
    loops = [*rates.values(), *wide, *blocking.values()]
    measured = timer.cycles(loops)
    if wide:
        model = _with_width(model, 1 / min(measured[loop.name] for loop in wide))
    modelled = model.timer().cycles(loops)
    facts: dict[str, float] = {}
    for name, loop in blocking.items():
        facts[row_key(name, "blocks")] = _blocks(model, name, known, measured[loop.name], modelled[loop.name])
    before, model = model.timing, model.with_facts(facts)
    if model.timing != before:
        modelled = model.timer().cycles(loops)
    rate_facts = {}
    for name, loop in rates.items():
        row = model.timing.of(name)
        told = abs(1 / modelled[loop.name] / row.per_cycle - 1) < _TOLD
        if told:
            value = _rate(row.per_cycle, measured[loop.name], modelled[loop.name])
            try:
                with_rate(row, value, model.timing)
            except MavcgError:
                continue  # a rate that the model has no form for: the pair table shows what it does
            rate_facts[row_key(name, "per_cycle")] = value
    return model.with_facts(rate_facts)


def _with_width(model: CalibratedModel, per_cycle: float) -> CalibratedModel:
    return model.with_facts({WIDTH: float(round(per_cycle + 0.05))})


def _rate(per_cycle: float, measured: float, modelled: float) -> float:
    """Return the rate that a loop shows: the row's own if the model takes as long, else the nearest simple fraction."""
    if abs(measured / modelled - 1) < _SAME:
        return per_cycle
    shown = per_cycle * modelled / measured
    near = min(
        (Fraction(units, max(1, round(units / shown))) for units in range(1, _MOST_UNITS + 1)),
        key=lambda fraction: (abs(float(fraction) / shown - 1) > _NEAR, fraction.denominator),
    )
    return round(float(near), 4) if abs(float(near) / shown - 1) <= _NEAR else round(shown, 4)


def _blocks(
    model: CalibratedModel, name: str, known: Mapping[str, Template], measured: float, modelled: float
) -> float:
    """Return the cycles for which an instruction blocks the issue."""
    now = model.timing.of(name).blocks
    if abs(measured - modelled) < _PAIR_CYCLES:
        return float(now)
    best, least = now, abs(measured - modelled)
    for blocks in range(_MOST_BLOCKED + 1):
        loop = blocking_loop(name, known)
        cycles = model.with_facts({row_key(name, "blocks"): blocks}).timer().cycles([loop])[loop.name]
        if abs(cycles - measured) < least:
            best, least = blocks, abs(cycles - measured)
    return float(best)


def find_pairs(timer: LoopTimer, model: CalibratedModel, known: Mapping[str, Template]) -> tuple[PairCycles, ...]:
    """Return the cycles of each pair of classes, on the core and by the model with the found facts."""
    loops = pair_loops(known)
    measured, modelled = timer.cycles(list(loops.values())), model.timer().cycles(list(loops.values()))
    return tuple(
        PairCycles(one, two, round(measured[loop.name], 3), round(modelled[loop.name], 3))
        for (one, two), loop in loops.items()
    )
