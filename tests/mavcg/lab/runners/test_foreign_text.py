"""Programs that measure kernels which call a foreign library: what they compute, and what they say when it is gone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.hosts.foreign_library import find_foreign
from mavcg.kernels.primitives.foreign_gemm import foreign_primitives
from mavcg.lab.runners.bench_program import BenchProgram, build_program
from mavcg.lab.runners.bench_run import BenchOptions, run_bench
from mavcg.lab.runners.foreign_text import foreign_text
from mavcg.lab.runners.open import open_runner
from mavcg.lab.trials.run import find_machine
from mavcg.lab.tuning.measured_core import bench_job_of
from mavcg.lab.tuning.work_list import Job
from mavcg.runtime.machines import block_of
from mavcg.specs.foreign_library import ForeignLibrary
from mavcg.specs.primitive import Scenario
from mavcg.toolchain.target import host_target
from tests.kernels.primitives.foreign_libraries import built_library

SCENARIO = Scenario(4, 6, 6, 1, 1, 5)
BRIEF = BenchOptions(rounds=2, least_ms=0.1, round_ms=0.05, cold_rounds=0, settle_ms=0.0)


@pytest.mark.long
def test_a_program_loads_it_and_says_when_it_is_gone(tmp_path: Path) -> None:
    path = built_library(tmp_path)
    machine, found = find_machine("host"), list[Any]()
    jobs = [
        Job((SCENARIO, primitive.name), 0.0, primitive)
        for primitive in foreign_primitives(find_foreign(f"small={path}"))
        if primitive.layout_in is primitive.layout_out
    ]
    made = [bench_job_of(job, block_of(machine)) for job in jobs]
    program = build_program(made, machine, None, host_target(), tmp_path)

    def measure(program: BenchProgram) -> None:
        with open_runner("local") as runner:
            run_bench(runner, program, range(program.jobs), [], None, BRIEF, found.append)

    measure(program)
    assert len(found) == 2 and all(times.warm.ms > 0 for times in found)
    path.unlink()
    with pytest.raises(MavcgError, match="libsmall.so: cannot open shared object file"):
        measure(program)


def test_each_library_is_called_with_its_own_integers() -> None:
    narrow = ForeignLibrary("mine", "", "012345", '/opt/a "b"/lib.so', "cblas_sgemm")
    text = foreign_text((narrow, replace(narrow, name="wide", symbol="cblas_sgemm64_", wide=True)))
    assert 'sgemm_of("/opt/a \\042b\\042/lib.so", "cblas_sgemm")' in text and '"cblas_sgemm64_"' in text
    assert "void mavcg_foreign_mine_012345(int order, int a_turned, int b_turned, int m," in text
    assert "void mavcg_foreign_wide_012345(int order, int a_turned, int b_turned, int64_t m," in text
