"""Sampled runs: their estimates lie where the standard errors say, beside runs of which every instruction is timed."""

import math
import random
import statistics

import pytest

from mavcg.cost.core_facts import simulated_core
from mavcg.lab.simulate.harness import ffi, library
from mavcg.lab.simulate.sampling import RunCounts, SamplePlan, estimated_counts, sampling_error
from mavcg.lab.simulate.simulated_program import SimulatedProgram
from mavcg.profiles.load import load_board, load_core
from mavcg.profiles.timing import load_timing
from tests.mavcg.lab.simulate.loops import loop_image, state

# 16 KiB again and again; a megabyte by lines, where every load misses; both in turn is what a layer's stages do.
NEAR = ("ldr q1, [x1]", "fmla v2.4s, v1.4s, v1.4s", "fmla v3.4s, v1.4s, v1.4s")
FAR = ("ldr q1, [x1], #64", "fmla v2.4s, v1.4s, v1.4s", "str q2, [x2], #16")
FAR_LOOPS = 16_000


def sampled(core: str, function: str, words: str, plan: SamplePlan, period: int) -> tuple[RunCounts, int]:
    """Return the estimate of a sampled call, and the cycles of the same call timed whole."""
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    kind = load_core(core)
    facts = simulated_core(kind, load_board("exynos9820"))
    image = loop_image([NEAR, FAR])
    programs = [SimulatedProgram(image, load_timing(kind), facts) for _ in range(2)]
    address = image.symbols[function]
    for program in programs:
        program.call(address, state(words))
    whole = programs[0].call(address, state(words)).cycles
    simulation = programs[1].simulation
    library().sim_sampling(simulation, period, plan.unit, plan.warm, plan.functional, 1 << 62, plan.seed)
    programs[1].call(address, state(words))
    sample = ffi().new("sim_sample *")
    library().sim_take_sample(simulation, sample)
    return estimated_counts(sample), whole


@pytest.mark.parametrize("core", ["cortex-a55", "cortex-a75"])
def test_a_sample_estimates_what_the_whole_call_takes(core: str) -> None:
    for function, words in (("f0", "i:60000 buf:4096"), ("f1", f"i:{FAR_LOOPS} buf:1100000 buf:300000")):
        found, whole = sampled(core, function, words, SamplePlan(unit=1000, warm=400, functional=4000), 10_000)
        assert found.measured < 0.2 * found.instructions and found.units >= 8
        assert abs(found.cycles - whole) <= 3 * found.error + 0.02 * whole
        assert found.error < 0.1 * whole


def test_an_unsampled_part_is_timed_whole() -> None:
    found, whole = sampled("cortex-a55", "f1", f"i:{FAR_LOOPS} buf:1100000 buf:300000", SamplePlan(unit=1000), 1000)
    assert found.measured == found.instructions and found.error == 0.0
    assert abs(found.cycles - whole) <= 0.001 * whole + 20


def test_caches_are_counted_in_what_they_saw_and_scaled_up() -> None:
    words = f"i:{FAR_LOOPS} buf:1100000 buf:300000"
    found, _ = sampled("cortex-a55", "f1", words, SamplePlan(unit=1000, warm=400, functional=4000), 10_000)
    hits, misses = found.caches["l1"]
    assert hits + misses == pytest.approx(2 * FAR_LOOPS, rel=0.02)


def test_a_part_behind_skipped_instructions_does_not_wait_for_their_lines() -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    kind = load_core("cortex-a55")
    image = loop_image([NEAR, FAR])
    program = SimulatedProgram(image, load_timing(kind), simulated_core(kind, load_board("exynos9820")))
    sample = ffi().new("sim_sample *")
    library().sim_sampling(program.simulation, 1 << 40, 0, 0, 1, 1 << 62, 1)
    program.call(image.symbols["f1"], state(f"i:{FAR_LOOPS} buf:1100000 buf:300000"))
    library().sim_take_sample(program.simulation, sample)
    library().sim_sampling(program.simulation, 100, 100, 0, 0, 1 << 62, 1)
    program.call(image.symbols["f0"], state("i:10 buf:4096"))
    library().sim_take_sample(program.simulation, sample)
    assert estimated_counts(sample).cycles < 2000


def test_a_plan_times_short_parts_whole_and_long_ones_in_as_many_units() -> None:
    plan = SamplePlan(units=10, unit=100, warm=20, functional=380)
    assert plan.period(0) == plan.period(5000) == plan.unit
    assert plan.period(50_000) == 5000


def test_the_standard_error_is_what_estimates_vary_by() -> None:
    """Draws one unit of each stratum, again and again, of costs that rise and jump."""
    pick = random.Random(1)
    strata, places, unit = 40, 10, 100
    costs = [[1 + stratum / 40 + (place % 3 == 0) for place in range(places)] for stratum in range(strata)]
    truth = unit * sum(map(sum, costs))
    estimates, errors = [], []
    for _ in range(400):
        units = [pick.choice(row) for row in costs]
        estimates.append(statistics.fmean(units) * strata * places * unit)
        differences = sum((b - a) ** 2 for a, b in zip(units, units[1:], strict=False))
        errors.append(sampling_error(strata * places * unit, strata * unit, strata, differences))
    assert statistics.fmean(estimates) == pytest.approx(truth, rel=0.01)
    assert statistics.fmean(errors) == pytest.approx(statistics.stdev(estimates), rel=0.2)


def test_errors_of_all_and_of_one_unit() -> None:
    assert sampling_error(1000, 1000, 1, 0.0) == 0.0
    assert math.isinf(sampling_error(1000, 100, 1, 0.0))
