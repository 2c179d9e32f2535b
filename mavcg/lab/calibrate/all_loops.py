"""All loops of a calibration, so that one program has them before any of them is chosen."""

from mavcg.cost.core_facts import OUT_OF_ORDER
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.lab.calibrate.chains import chain_loop, choose_chains
from mavcg.lab.calibrate.loops import TimedLoop
from mavcg.lab.calibrate.memory_loops import (
    FILLINGS,
    KIB,
    MISS_LOADS,
    branch_loops,
    cold_loop,
    miss_loop,
    run_loop,
    split_loops,
    walk_loop,
    window_loop,
)
from mavcg.lab.calibrate.rate_loops import blocking_loop, pair_loops, rate_loop, wide_loops
from mavcg.lab.calibrate.templates import templates


def all_loops(core: Core, timing: Timing) -> tuple[TimedLoop, ...]:
    """Return the loops that may run on a core: one of those that differ in numbers alone. timing: of all classes."""
    known = templates(timing, frozenset(core.extensions))
    loops = [rate_loop(name, template) for name, template in known.items()]
    loops += [*wide_loops(known), *pair_loops(known).values()]
    loops += [chain_loop(chain) for chain in choose_chains(known, timing)]
    loops += [*branch_loops(), *split_loops(), walk_loop(KIB), cold_loop(), run_loop(1)]
    loops += [miss_loop(count) for count in MISS_LOADS]
    if core.order == OUT_OF_ORDER:
        return (*loops, *(window_loop(fact, 1) for fact in FILLINGS))
    return (*loops, *(blocking_loop(name, known) for name in known))
