"""Cost of a dispatch in instructions and accesses to memory, counted; and what bench/dispatch.py makes of times.

Nanoseconds are measured by the bench alone: a test that compares them fails on busy machines, or cannot fail.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.dispatch import CORES, CallTime, build, measure
from bench.tables.programs import WORDS
from mavcg.profiles.load import cores_for
from mavcg.program.build_values import BuildRequest
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.program import build_program
from mavcg.program.sources.compile_commands import CompileUnit, read_command
from mavcg.program.version_choice import VersionLimits
from mavcg.runtime.coreset import CoreSet
from mavcg.toolchain.target import default_target
from tests.runtime.dispatcher_steps import Library, load

SOURCE = """
#include <stddef.h>
double dot(const double *a, const double *b, size_t n) {
    double s[8] = {0};
    for (size_t i = 0; i + 8 <= n; i += 8) for (int j = 0; j < 8; j++) s[j] += a[i + j] * b[i + j];
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}
"""
# Entry to the version's first instruction. Both read four times: the offset of rseq, the CPU number, the CPU's core,
# the version. A landing pad of branch protection counts. What a compiler release adds here is paid at every call of a
# hot function: mend passes/ir/dispatch.py, not the number.
MOST_INSTRUCTIONS = {"x86_64": 14, "aarch64": 16}
LOADS = 4
SETS = {"x86_64": ("haswell", "skylake-avx512"), "aarch64": ("cortex-a55", "cortex-a76")}


@pytest.fixture(scope="module", params=list(SETS))
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Library]:
    """(architecture, a library with three versions of dot)."""
    pytest.importorskip("unicorn")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "dot.c").write_text(SOURCE)
    unit = read_command(["cc", "-O3", "-c", "dot.c"], folder)
    assert isinstance(unit, CompileUnit)
    cores = cores_for(SETS[request.param])
    out = folder / "libdot.so"
    target, every = default_target(request.param), VersionLimits(by_model=False)
    build_program(BuildRequest(out, target, cores, (HotSymbol("dot"),), (unit,), limits=every))
    return request.param, load(out)


def test_a_dispatch_is_a_few_instructions_and_four_loads(built: tuple[str, Library]) -> None:
    arch, library = built
    core_set = CoreSet(cores_for(SETS[arch]))
    for label in ("generic", *SETS[arch]):
        walk = library.walk("dot", 5, {5: 1 if label == "generic" else core_set.id_of(label)})
        assert walk.to == label
        assert (walk.loads, walk.stores) == (LOADS, 0)
        assert 0 < walk.instructions <= MOST_INSTRUCTIONS[arch], walk


def test_a_thread_that_moved_gets_the_other_version_at_its_next_call(built: tuple[str, Library]) -> None:
    arch, library = built
    cpus = {0: 2, 1: 3, 8191: 2}  # the last CPU that the table has
    assert [library.walk("dot", cpu, cpus).to for cpu in (0, 1, 0, 8191)] == [
        SETS[arch][0],
        SETS[arch][1],
        SETS[arch][0],
        SETS[arch][0],
    ]


@pytest.mark.parametrize(
    ("cpu", "has_rseq", "loads"),
    [(3, True, LOADS), (8192, True, 2), (0xFFFF_FFFF, True, 2), (5, False, 1)],
    ids=["a CPU not looked at yet", "beyond the table", "not registered", "no rseq"],
)
def test_everything_unusual_goes_the_slow_way(built: tuple[str, Library], cpu: int, has_rseq: bool, loads: int) -> None:
    arch, library = built
    walk = library.walk("dot", cpu, {5: 2}, has_rseq)
    assert walk.to == "slow" and walk.stores == 0 and walk.loads <= loads
    assert walk.instructions <= MOST_INSTRUCTIONS[arch]


def test_the_bench_makes_medians_and_differences_of_each_rounds_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a program that prints known times: a cost is the median of differences, not a difference of medians."""
    times = {way: [10.0, 10.0, 10.0, 10.0] for way in WORDS}
    times |= {
        "direct": [1.0, 2.0, 3.0, 4.0],
        "dispatched": [2.0, 4.0, 3.5, 9.0],
        "direct_generated": [4.0, 4.0, 4.0, 4.0],
    }
    rounds = "".join(f"{way} {values[n]}\n" for n in range(4) for way, values in times.items())
    program = tmp_path / "program"
    program.write_text(
        f'#!/bin/sh\necho "$1 $MAVCG_CPU_MAP $GLIBC_TUNABLES ${{MAVCG_TRACE-none}}" > {tmp_path}/told\n'
        f"echo rseq 1\ncat << END\n{rounds}END\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("MAVCG_TRACE", "1")

    run = measure(program, 4, use_rseq=True)

    assert (tmp_path / "told").read_text() == f"4 *={CORES[0]} glibc.pthread.rseq=1 none\n"
    assert run.rseq and run.rounds == 4 and list(run.ways) == list(WORDS)
    assert run.ways["dispatched"] == CallTime(median_ns=3.75, iqr_ns=5.375, over_direct_ns=1.5)
    assert run.ways["direct"].over_direct_ns == 0
    assert run.ways["generated"].over_direct_ns == 6.0  # over the direct call of the built function


@pytest.mark.long
def test_the_bench_times_every_way_in_every_round_with_rseq_and_without(tmp_path: Path) -> None:
    program = build(tmp_path)
    for rseq in (1, 0):
        tell = {"MAVCG_CPU_MAP": f"*={CORES[0]}", "GLIBC_TUNABLES": f"glibc.pthread.rseq={rseq}"}
        said = subprocess.run(
            [program, "7"], env={**os.environ, **tell}, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        counts = {way: sum(line.split()[0] == way for line in said) for way in WORDS}
        assert counts == dict.fromkeys(WORDS, 7)
        if not rseq:
            assert "rseq 0" in said
    out = tmp_path / "dispatch.json"
    bench = Path(__file__).parents[2] / "bench/dispatch.py"
    command = [sys.executable, str(bench), "--rounds", "5", "--json", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    record = json.loads(out.read_text())
    assert [run["rounds"] for run in record["runs"]] == [5, 5] and record["kind"] == "measured"
    assert not record["runs"][1]["rseq"]
