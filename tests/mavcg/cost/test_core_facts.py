"""Facts of a simulated core: what a board says of its caches stands in place of the core's own."""

from dataclasses import replace

from mavcg.cost.core_facts import simulated_core
from mavcg.profiles.load import load_board, load_core


def test_a_board_s_caches_stand_in_place_of_the_core_s() -> None:
    board, core = load_board("exynos9820"), load_core("cortex-a55")
    plain = simulated_core(core, board)
    assert [level.size for level in plain.levels] == [32768, 4 << 20]  # level 3 is behind level 1
    own = replace(board.clusters[0], caches=(("l3_latency", 77.0), ("l3_ways", 12.0), ("memory_ns", 200.0)))
    core_model = simulated_core(core, replace(board, clusters=(own, *board.clusters[1:])))
    assert (core_model.levels[-1].latency, core_model.levels[-1].ways) == (77, 12)
    assert core_model.memory_latency == round(200 * core_model.ghz) != plain.memory_latency
    assert len(core_model.assumed) == len(plain.assumed) - 3


def test_micro_operations_in_flight_are_those_that_figures_of_silicon_gave() -> None:
    given, plain = (simulated_core(load_core(name)) for name in ("cortex-a76", "cortex-a77"))
    assert (given.reorder_buffer, given.issue_queue) == (80, 16)
    assert plain.reorder_buffer == 160  # its reorder buffer: nothing is known of what fills before
