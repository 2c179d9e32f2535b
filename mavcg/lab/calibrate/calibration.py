"""The facts of a core from timed loops: each group of loops is timed, and held against the model with the known facts.

A loop shows more than the fact that it is for: units that are busy, slots that are taken. The timing models know these.
So each loop is also timed on the model with the facts found so far, and what differs is what the fact changes by.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mavcg.cost.core_facts import OUT_OF_ORDER
from mavcg.hardware.core import Core
from mavcg.hardware.instr_classes import CLASSES
from mavcg.hardware.timing import MissingFact, Timing
from mavcg.lab.calibrate.altered_core import FORWARD, ends_of, values_of
from mavcg.lab.calibrate.calibrated_model import CalibratedModel
from mavcg.lab.calibrate.chains import chain_loop, choose_chains
from mavcg.lab.calibrate.latency_facts import find_latencies
from mavcg.lab.calibrate.loops import LoopTimer, OutOfTime, TimedLoop
from mavcg.lab.calibrate.memory_facts import find_memory_facts
from mavcg.lab.calibrate.memory_loops import each_memory_loop
from mavcg.lab.calibrate.rate_facts import PairCycles, find_pairs, find_rates
from mavcg.lab.calibrate.rate_loops import blocking_loop, pair_loops, rate_loop, wide_loops
from mavcg.lab.calibrate.templates import templates

GROUPS = ("rates", "latencies", "memory", "pairs")


@dataclass(frozen=True)
class CoreCalibration:
    """The facts that were found about a core.

    found, shipped: facts by key, as found, and as mavcg's files have them or assume them. pairs: cycles of two classes
    in turn. model: the core with the found facts. unfinished: groups for which there was no time. ghz: of the core's
    clock; None in simulation.
    """

    core: str
    found: Mapping[str, float]
    shipped: Mapping[str, float]
    pairs: tuple[PairCycles, ...]
    model: CalibratedModel
    unfinished: tuple[str, ...] = ()
    ghz: float | None = None


def with_own_rows(timing: Timing) -> Timing:
    """Return the timing with a row for each class, so that each has facts of its own to be found."""
    rows = {}
    for name in CLASSES:
        try:
            rows[name] = replace(timing.of(name), name=name)
        except MissingFact:
            continue
    return replace(timing, classes=rows)


def all_loops(core: Core, timing: Timing) -> tuple[TimedLoop, ...]:
    """Return the loops that a calibration of a core may run, for one program that has them before any is chosen.

    Of loops that differ in numbers alone, one is in it. timing: of all classes.
    """
    known = templates(timing, frozenset(core.extensions))
    loops = [rate_loop(name, template) for name, template in known.items()]
    loops += [*wide_loops(known), *pair_loops(known).values()]
    loops += [chain_loop(chain) for chain in choose_chains(known, timing)]
    loops += each_memory_loop(core.order == OUT_OF_ORDER)
    if core.order != OUT_OF_ORDER:
        loops += [blocking_loop(name, known) for name in known]
    return tuple(loops)


def calibrate(
    timer: LoopTimer,
    core: Core,
    timing: Timing,
    requested: frozenset[str] = frozenset(),
    absent: frozenset[str] = frozenset(),
    groups: tuple[str, ...] = GROUPS,
    only: frozenset[str] = frozenset(),
    progress: Callable[[str], None] = lambda what: None,
) -> CoreCalibration:
    """Find the facts of a core.

    timer: times loops on the core. requested: keys of facts that get a row of their own if the core's file has none.
    absent: extensions whose instructions are left out. groups: of GROUPS. only: classes of instructions; empty for all.
    """
    structure = with_own_rows(timing)
    for key in sorted(requested):
        if key.startswith(FORWARD) and (ends := ends_of(key)) not in structure.forwards:
            structure = _with_forward(structure, ends)
    shipped = values_of(core, structure)
    model = CalibratedModel(core, structure)
    known = templates(structure, frozenset(core.extensions) - absent)
    known = {name: template for name, template in known.items() if not only or name in only}
    steps: dict[str, Callable[[CalibratedModel], CalibratedModel]] = {
        "rates": lambda model: find_rates(timer, model, known),
        "latencies": lambda model: find_latencies(timer, model, known),
        "memory": lambda model: find_memory_facts(timer, model, progress),
    }
    pairs: tuple[PairCycles, ...] = ()
    done = []
    try:
        for group in groups:
            progress(group)
            if group in steps:
                model = steps[group](model)
            else:
                pairs = find_pairs(timer, model, known)
            done.append(group)
    except OutOfTime:
        pass  # what was found counts, and the result says what is missing
    return CoreCalibration(
        core.name, model.found, shipped, pairs, model, tuple(group for group in groups if group not in done)
    )


def _with_forward(timing: Timing, ends: tuple[str, str, str]) -> Timing:
    """Return the timing with a row of its own for a forwarding, with the cycles that it has now."""
    producer, consumer, role = ends
    if producer in CLASSES and consumer in CLASSES:
        return replace(timing, forwards={**timing.forwards, ends: timing.latency(producer, consumer, role)})
    return timing
