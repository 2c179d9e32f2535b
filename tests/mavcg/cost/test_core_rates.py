"""The facts that every cost model of a core starts from, and the formulas that they share."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.cost.board_model import core_model
from mavcg.cost.core_rates import CoreRates, core_rates
from mavcg.cost.memory import level_for, read_ns, transfer_ns
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.fits import fit_of
from mavcg.hardware.instruction_mix import InstructionMix
from mavcg.hardware.timing import MissingFact, Timing
from mavcg.kernels.gemm.register_tile import step_cycles, tile_rates
from mavcg.kernels.machines import machines_for
from mavcg.profiles.load import load_board
from mavcg.toolchain.target import parse_target

LEVELS = (MemoryLevel("L1", 40.0, shared_bytes=1 << 15), MemoryLevel("L2", 10.0, shared_bytes=1 << 19))


def rates_on(board_name: str, number: int) -> CoreRates:
    """Facts of a core of a board's cluster."""
    board = load_board(board_name)
    cluster = core_model(board, number)
    assert cluster.core is not None
    machine = machines_for([cluster.core], parse_target(board.target))[cluster.core.name]
    return core_rates(cluster.core.name, machine, cluster)


def test_an_arm_core_has_its_timing_and_its_board_s_caches() -> None:
    rates = rates_on("exynos9820", 0)

    assert rates.timing is not None and rates.issue.fma_per_cycle == rates.timing.of("fmla_q").per_cycle
    assert rates.levels == core_model(load_board("exynos9820"), 0).levels
    assert rates.cycle_ns == pytest.approx(1 / rates.ghz) and rates.lanes == 4


def test_a_core_without_all_timings_keeps_the_multiply_adds_that_its_file_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core may lack the timing of divisions alone: 4 multiply-adds a cycle on an M1, where a typical core has 1."""

    def lacking(core: str) -> Timing:
        raise MissingFact(f"{core}: no timing of div")

    monkeypatch.setattr("mavcg.cost.core_rates.load_timing", lacking)
    board = load_board("apple-m1")
    number = [cluster.core for cluster in board.clusters].index("apple-firestorm")
    rates = rates_on("apple-m1", number)

    assert rates.timing is None and rates.assumed
    assert rates.issue.fma_per_cycle == 4.0 > fit_of(rates.machine).typical_rates.fma_per_cycle
    assert rates.issue.vector_per_cycle >= rates.issue.fma_per_cycle


@given(pixels=st.integers(1, 12), vectors=st.integers(1, 4))
def test_a_step_of_a_register_tile_is_an_instruction_mix(pixels: int, vectors: int) -> None:
    machine = rates_on("exynos9820", 0).machine
    mix = InstructionMix(fma=pixels * vectors, loads=vectors + pixels, chain=1)

    assert step_cycles(machine, pixels, vectors, 1) == mix.cycles(tile_rates(machine))


def test_bytes_come_from_the_nearest_level_that_holds_their_footprint() -> None:
    assert [level_for(size, LEVELS) for size in (1 << 15, 1 << 16, 1 << 20)] == [0, 1, 2]
    assert read_ns(1000, 1 << 15, LEVELS) == 0
    assert read_ns(1000, 1 << 16, LEVELS) == 1000 / 40 and read_ns(1000, 1 << 20, LEVELS) == 1000 / 10
    slow_near = (replace(LEVELS[0], bandwidth_gb_per_s=5.0), LEVELS[1])
    assert transfer_ns([1000, 1000], slow_near) == 1000 / 5  # the slowest level counts
