"""Short sequences whose cycles are counted by hand from the facts of cores/cortex-a55.toml and made-up cores."""

from dataclasses import replace

import pytest

from mavcg.cost.core_facts import SimulatedCore, simulated_core
from mavcg.hardware.timing import ClassTiming, Timing, UnitUse
from mavcg.lab.simulate.simulated_program import SimulatedProgram
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from tests.mavcg.lab.simulate.loops import TAIL, counts, cycles_per_iteration, ideal_program, loop_image, state


def test_pairs_chains_and_loads_take_what_counting_by_hand_says() -> None:
    bodies = {
        "pairs": ["add x2, x3, x4", "add x5, x6, x7"],
        "chain": ["fmla v0.4s, v1.4s, v2.4s"] * 2,
        "q loads": ["ldr q0, [x1]", "ldr q3, [x1]"],
        "d loads beside": ["fmla v0.4s, v30.4s, v31.4s", "ldr d4, [x1]", "fmla v1.4s, v30.4s, v31.4s", "ldr d5, [x1]"],
    }
    program = ideal_program(loop_image(list(bodies.values())), "cortex-a55")
    taken = {name: cycles_per_iteration(program, f"f{n}") for n, name in enumerate(bodies)}
    # Four instructions, two a cycle: the branch, a cycle behind its flags, issues beside the next first add.
    assert taken["pairs"] == pytest.approx(2, abs=0.01)
    # Two dependent multiply-adds of 4 cycles each; counter and branch fit beside them.
    assert taken["chain"] == pytest.approx(8, abs=0.01)
    # Each q load blocks 2 cycles; then the counter, and the branch a cycle later.
    assert taken["q loads"] == pytest.approx(6, abs=0.01)
    # Two pairs of a multiply-add and a load; but each chain of multiply-adds takes 4 cycles.
    assert taken["d loads beside"] == pytest.approx(4, abs=0.01)


def core_of(order: str, width: int, pools: dict[str, int], rows: dict[str, tuple[int, tuple[str, ...]]]) -> Timing:
    """A made-up core: class -> latency, units."""
    classes = {
        name: ClassTiming(name, latency, 1.0, tuple(UnitUse(tuple(unit.split("|"))) for unit in units))
        for name, (latency, units) in rows.items()
    }
    return Timing("made-up", order, width, pools, classes)


OUT = core_of(
    "out",
    2,
    {"a": 1, "b": 1, "l": 1},
    {
        "alu": (1, ("a|b",)),
        "mul_x": (3, ("b",)),
        "div_x": (10, ("b",)),
        "branch": (1, ()),
        "ldr_x": (4, ("l",)),
        "str_x": (1, ("l",)),
    },
)


def made_up(timing: Timing, bodies: list[list[str]], reorder_buffer: int = 128) -> SimulatedProgram:
    facts = replace(simulated_core(load_core("cortex-a76")).with_ideal_memory(), reorder_buffer=reorder_buffer)
    return SimulatedProgram(loop_image(bodies), timing, facts)


def test_an_out_of_order_core_is_bound_by_width_units_and_chains() -> None:
    bodies = [
        ["add x2, x3, x4"] * 4,  # 6 operations, 2 a cycle
        ["mul x2, x3, x4"] * 3,  # one unit
        ["mul x2, x2, x4"] * 3,  # a chain of 3 x 3 cycles
    ]
    program = made_up(OUT, bodies)
    assert cycles_per_iteration(program, "f0") == pytest.approx(3, abs=0.02)
    assert cycles_per_iteration(program, "f1") == pytest.approx(3, abs=0.02)
    assert cycles_per_iteration(program, "f2") == pytest.approx(9, abs=0.02)


@pytest.mark.parametrize("window, cycles", [(1, 33), (6, 15.5), (400, 1.5)])
def test_a_window_limits_how_far_iterations_overlap(window: int, cycles: float) -> None:
    """A chain of three divisions of 10 cycles in each iteration of six instructions, none between iterations.

    A window of one instruction: 3 x 10 cycles, and one for each of the others. Of six: a division begins when the same
    one of the iteration before has retired, so two chains overlap: 31 cycles for two. A large one: six instructions, 4
    a cycle.
    """
    body = ["mov x2, x3", "sdiv x2, x2, x4", "sdiv x2, x2, x4", "sdiv x2, x2, x4"]
    timing = core_of("out", 4, {"a": 4, "b": 4}, {"alu": (1, ("a",)), "div_x": (10, ("b",)), "branch": (1, ())})
    program = made_up(timing, [body], reorder_buffer=window)
    assert cycles_per_iteration(program, "f0") == pytest.approx(cycles, abs=0.1)


def test_operations_that_wait_fill_the_issue_queues() -> None:
    """Multiplications wait for a division; behind them other divisions could run, if they came to their unit."""
    body = ["sdiv x2, x3, x4", *["mul x5, x2, x6"] * 3, "add x7, x8, x9"]
    timing = core_of(
        "out",
        4,
        {"a": 1, "b": 1, "c": 1},
        {"alu": (1, ("a",)), "mul_x": (3, ("b",)), "div_x": (30, ("c",)), "branch": (1, ())},
    )
    facts = simulated_core(load_core("cortex-a76")).with_ideal_memory()
    image = loop_image([body])
    taken = [
        cycles_per_iteration(SimulatedProgram(image, timing, replace(facts, issue_queue=room)), "f0")
        for room in (2, 8, 0)
    ]
    assert taken[0] > 25 and taken[0] > 2 * taken[1] > 2 * taken[2]


def test_a_load_waits_for_the_store_to_the_same_word() -> None:
    body = ["ldr x2, [x1]", "add x2, x2, #1", "str x2, [x1]"]
    apart = ["ldr x2, [x1]", "add x2, x2, #1", "str x2, [x1, #64]"]
    program = made_up(OUT, [body, apart])
    assert cycles_per_iteration(program, "f0") >= 8  # store to load, load to add, add to store
    assert cycles_per_iteration(program, "f1") <= 3


def test_a_mispredicted_loop_exit_costs_the_penalty() -> None:
    image = loop_image([["add x2, x2, x3"]])
    cheap, dear = (
        SimulatedProgram(image, OUT, replace(simulated_core(load_core("cortex-a76")).with_ideal_memory(), mispredict=n))
        for n in (5, 25)
    )
    first, second = counts(cheap, "f0", "i:40"), counts(dear, "f0", "i:40")
    assert first.mispredicts == second.mispredicts == 1
    assert second.cycles - first.cycles == 20


def test_the_store_buffer_of_an_in_order_core_fills_up() -> None:
    """Stores that miss leave one after another; with a larger buffer more of them are under way."""
    core = load_core("cortex-a55")
    image = loop_image([["str x2, [x1], #64"]])
    cycles = []
    for room in (1, 16):
        facts = replace(simulated_core(core), store_queue=room, prefetch_lines=0)
        found = SimulatedProgram(image, load_timing(core), facts).call(image.symbols["f0"], state("i:64 buf:65536"))
        cycles.append(found.cycles)
        assert found.stalls["store buffer"] > 0
    assert cycles[0] > 1.5 * cycles[1]


def test_counts_of_a_call_are_its_own() -> None:
    program = ideal_program(loop_image([["add x2, x2, x3"]]), "cortex-a55")
    counted = counts(program, "f0", "i:10")
    assert counted.instructions == 10 * (1 + len(TAIL)) + 1 and counted.branches == 11
    assert sum(counted.stalls.values()) < counted.cycles


@pytest.mark.parametrize("aligned", [True, False])
def test_an_access_across_a_line_is_counted(aligned: bool) -> None:
    program = ideal_program(loop_image([["ldr q0, [x1]"]]), "cortex-a55")
    counted = counts(program, "f0", f"i:10 buf:256+{48 if aligned else 56}")
    assert counted.unaligned == (0 if aligned else 10)


def test_facts_are_those_of_the_core() -> None:
    facts = simulated_core(load_core("cortex-a55"))
    assert isinstance(facts, SimulatedCore) and facts.levels and all("assumed" in text for text in facts.assumed)
