"""The simulator as a model of published calls: what a benchmark's earlier calls have left behind."""

import pytest

from bench.silicon.models import Run, simulated_cycles
from mavcg.lab.simulate.simulation import CallOptions, simulate
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from tests.mavcg.lab.simulate.loops import loop_image


@pytest.mark.parametrize("core", ["cortex-x1", "cortex-a55"])
def test_a_short_call_does_not_wait_for_the_first_stores_of_earlier_ones(core: str) -> None:
    """Eight stores to eight lines take some 20 cycles; their lines come from memory in the first call."""
    image = loop_image([["stp q0, q1, [x1]", "add x1, x1, #128"]])
    kind = load_core(core)
    timing = load_timing(kind)
    words = "i:8 buf:4096"
    settled = simulate(image, "f0", words, kind, timing, options=CallOptions(1_000)).counts.cycles
    early = simulate(image, "f0", words, kind, timing, options=CallOptions(0)).counts.cycles

    assert simulated_cycles(Run(image, "f0", words, ()), timing) == settled
    assert early > settled
