"""Simulated time of primitives: windows of rows against whole runs, and what a stage is said to touch."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mavcg.cost.core_facts import simulated_core
from mavcg.errors import MavcgError
from mavcg.kernels.primitives.registry import find_primitive
from mavcg.lab.simulate import call_arguments, simulated_jobs
from mavcg.lab.simulate.row_windows import DEFAULT_PLAN, WindowPlan, estimate_cycles, window_starts
from mavcg.lab.simulate.simulated_jobs import SimulatedJob, SimulatedKernels, compile_jobs, simulate_job
from mavcg.lab.simulate.simulated_program import SimulatedProgram
from mavcg.lab.tuning.simulated import simulated_job
from mavcg.lab.tuning.work_list import Job
from mavcg.profiles.load import load_board, load_core
from mavcg.profiles.timing import load_timing
from mavcg.specs.primitive import Scenario

BOARD = load_board("exynos9820")
BLOCK = 8
LONG = 1 << 62


def job_of(name: str, scenario: Scenario) -> SimulatedJob:
    primitive = find_primitive(name)
    return simulated_job(Job((scenario, primitive.name), 1.0, primitive), BLOCK)


def cycles_of(kernels: SimulatedKernels, job: SimulatedJob, plan: WindowPlan) -> float:
    program = SimulatedProgram(kernels.image, load_timing(kernels.core), simulated_core(kernels.core, BOARD))
    program.emulator.keep_memory()
    sizes = {"weights": job.lowering.weights_bytes, "workspace": job.lowering.workspace_bytes, **job.sizes}
    return estimate_cycles(program, simulated_jobs.place_stages(program, kernels, job, sizes), LONG, plan).cycles


@pytest.mark.parametrize(
    ("name", "scenario"),
    [
        ("implicit_gemm_hwc_hwc", Scenario(16, 20, 20, 1, 3, 16, 1)),
        ("winograd_2d_f4_k3_hwc_hwc", Scenario(32, 28, 28, 1, 3, 32, 1)),
        ("implicit_depthwise_hwc_hwc", Scenario(48, 24, 24, 1, 3, 48, 1, 48)),
    ],
)
@pytest.mark.parametrize("core", [pytest.param("cortex-a55"), pytest.param("cortex-a75", marks=pytest.mark.long)])
def test_windows_of_rows_take_as_long_as_the_whole(name: str, scenario: Scenario, core: str, tmp_path: Path) -> None:
    job = job_of(name, scenario)
    kernels = compile_jobs([job], load_core(core), BOARD, tmp_path)
    whole = cycles_of(kernels, job, replace(DEFAULT_PLAN, whole=LONG))
    windows = cycles_of(kernels, job, replace(DEFAULT_PLAN, whole=0, window=60_000, warm=60_000))

    assert windows == pytest.approx(whole, rel=0.02)


@pytest.mark.parametrize(("calls", "each", "windows"), [(1, 1, 3), (7, 2, 3), (28, 3, 3), (1000, 1, 5), (6, 2, 3)])
def test_windows_lie_apart_and_inside(calls: int, each: int, windows: int) -> None:
    starts = window_starts(calls, each, windows)
    if each * windows >= calls:
        assert starts == [0]
        return
    ends = [start + each for start in starts]
    assert len(starts) == windows and starts[0] >= 0 and ends[-1] <= calls
    assert all(end <= following for end, following in zip(ends, starts[1:], strict=False))


@pytest.mark.long
def test_a_workspace_is_written_by_the_first_stage_that_has_it(tmp_path: Path) -> None:
    job = job_of("winograd_2d_f4_k3_hwc_hwc", Scenario(64, 8, 8, 1, 3, 64, 1))
    job = job if len(job.lowering.stages) > 1 else job_of("im2row_hwc_hwc", Scenario(16, 9, 9, 1, 3, 16, 1))
    kernels = compile_jobs([job], load_core("cortex-a55"), BOARD, tmp_path)
    program = SimulatedProgram(kernels.image, load_timing(kernels.core), simulated_core(kernels.core, BOARD))
    program.emulator.keep_memory()
    sizes = {"weights": job.lowering.weights_bytes, "workspace": job.lowering.workspace_bytes, **job.sizes}
    first, *_, last = simulated_jobs.place_stages(program, kernels, job, sizes)

    assert all(sum(o.written and o.by_rows for o in stage.operands) == 1 for stage in (first, last))
    passed = {o.address for o in first.operands if o.written and o.by_rows}
    assert passed <= {o.address for o in last.operands if not o.written}
    weights = next(o for o in last.operands if o.bytes == sizes["weights"])
    assert not weights.by_rows and not weights.written


def test_operands_that_the_emulator_cannot_hold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of("implicit_gemm_hwc_hwc", Scenario(8, 4, 4, 1, 1, 8))
    kernels = compile_jobs([job], load_core("cortex-a55"), BOARD, tmp_path)
    monkeypatch.setattr(call_arguments, "MOST_OPERAND_BYTES", 100)
    with pytest.raises(MavcgError, match="bytes of operands; at most 100"):
        simulate_job(kernels, job)
    assert np.asarray(job.lowering.weights).any()  # sparse kernels go by their pattern
