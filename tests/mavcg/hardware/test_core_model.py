"""The facts that every cost model of a core starts from, and the formulas that they share."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.cost.board_model import core_model
from mavcg.cost.memory import level_for, read_ns, transfer_ns
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.issue_rates import InstructionMix, IssueRates
from mavcg.hardware.timing import MissingFact, Timing
from mavcg.kernels.gemm.register_tile import step_cycles, tile_rates
from mavcg.profiles.cost_fits import fit_of
from mavcg.profiles.load import load_board

LEVELS = (MemoryLevel("L1", 40.0, shared_bytes=1 << 15), MemoryLevel("L2", 10.0, shared_bytes=1 << 19))


def core_on(board_name: str, number: int) -> CoreModel:
    """A core of a board's cluster."""
    core = core_model(load_board(board_name), number)
    assert core.core is not None
    return core


def test_an_arm_core_has_its_timing_and_the_version_that_it_runs() -> None:
    core = core_on("exynos9820", 0)

    assert core.timing is not None and core.rates.fma_per_cycle == core.timing.of("fmla_q").per_cycle
    assert core.cycle_ns == pytest.approx(1 / core.ghz) and core.lanes == 4
    assert (core.label, core.running(replace(core.machine, name="generic")).label) == ("cortex-a55", "generic")
    assert core.without_timing().timing is None and core.without_timing() == core  # it follows from the core


def test_a_core_without_all_timings_keeps_the_multiply_adds_that_its_file_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core may lack the timing of divisions alone: 4 multiply-adds a cycle on an M1, where a typical core has 1."""

    def lacking(timing: Timing, miss_cycles: float) -> IssueRates:
        raise MissingFact(f"{timing.core}: no timing of div")

    monkeypatch.setattr("mavcg.cost.board_model.timing_rates", lacking)
    board = load_board("apple-m1")
    number = [cluster.core for cluster in board.clusters].index("apple-firestorm")
    core = core_on("apple-m1", number)

    assert core.timing is None and core.assumed_rates
    assert core.rates.fma_per_cycle == 4.0 > fit_of(core.machine).typical_rates.fma_per_cycle
    assert core.rates.vector_per_cycle >= core.rates.fma_per_cycle


@given(pixels=st.integers(1, 12), vectors=st.integers(1, 4))
def test_a_step_of_a_register_tile_is_an_instruction_mix(pixels: int, vectors: int) -> None:
    machine = core_on("exynos9820", 0).machine
    mix = InstructionMix(fma=pixels * vectors, loads=vectors + pixels, chain=1)

    assert step_cycles(machine, pixels, vectors, 1) == mix.cycles(tile_rates(machine))


def test_bytes_come_from_the_nearest_level_that_holds_their_footprint() -> None:
    assert [level_for(size, LEVELS) for size in (1 << 15, 1 << 16, 1 << 20)] == [0, 1, 2]
    assert read_ns(1000, 1 << 15, LEVELS) == 0
    assert read_ns(1000, 1 << 16, LEVELS) == 1000 / 40 and read_ns(1000, 1 << 20, LEVELS) == 1000 / 10
    slow_near = (replace(LEVELS[0], bandwidth_gb_per_s=5.0), LEVELS[1])
    assert transfer_ns([1000, 1000], slow_near) == 1000 / 5  # the slowest level counts
