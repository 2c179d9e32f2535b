"""The program that measures, compiled and run: what it computes, what it says, through every kind of runner."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.choose.algorithms.costs.database import Conversion
from mavcg.choose.algorithms.costs.eight_bit import typical_weights
from mavcg.errors import MavcgError
from mavcg.kernels.primitives.registry import find_primitive
from mavcg.lab.runners import bench_program
from mavcg.lab.runners.bench_lines import InterleavedTimes, JobTimes
from mavcg.lab.runners.bench_program import BenchProgram, bench_target, build_program
from mavcg.lab.runners.bench_run import BenchOptions, run_bench, run_interleaved
from mavcg.lab.runners.open import LocalTransport, open_runner
from mavcg.lab.runners.shell_runner import ShellRunner
from mavcg.lab.trials.jobs import BASES, all_rows, memory
from mavcg.lab.trials.jobs import TrialJob as Run
from mavcg.lab.trials.run import find_machine, run_jobs
from mavcg.lab.tuning.lowered_job import WITH_BIAS
from mavcg.lab.tuning.measured_core import bench_job_of
from mavcg.lab.tuning.work_list import Job
from mavcg.profiles.load import load_core
from mavcg.runtime.machines import block_of
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import Layout, QuantisedWeights, Scenario
from mavcg.toolchain.zig import run_zig
from tests.machine import QEMU, needs_qemu

SMALL, LARGE = Scenario(8, 10, 10, 1, 3, 8, 1), Scenario(32, 20, 20, 1, 3, 16, 1)  # the second is 32 times the work
PLAIN = find_primitive("sum2d_scalar_chw_chw")
ROWS = find_primitive("im2row_chw_hwc")  # of the same order of sums on all machines
EIGHT_BIT = Scenario(5, 8, 7, 1, 3, 6, dtype="u8")
BYTES = find_primitive("qconv_im2row_hwc_hwc")
JOBS = (
    Job((SMALL, PLAIN.name), 0.0, PLAIN),
    Job((LARGE, PLAIN.name), 0.0, PLAIN),
    Job((SMALL, ROWS.name), 0.0, ROWS),
    Job((EIGHT_BIT, BYTES.name), 0.0, BYTES),
    Job(Conversion(Layout.CHW, Layout.HWC, 16, 9, 7), 0.0),
)
HERE = sorted(os.sched_getaffinity(0))[:1]
BRIEF = BenchOptions(rounds=3, least_ms=0.5, round_ms=0.05, cold_rounds=2, evict_bytes=1 << 20, settle_ms=0.0)
EMULATOR = (QEMU or "", "-cpu", "max,midr=0x411fd050")


def built(machine: Machine, folder: Path, jobs: tuple[Job, ...] = JOBS) -> BenchProgram:
    made = [bench_job_of(job, block_of(machine)) for job in jobs]
    return build_program(made, machine, None, bench_target(machine.arch), folder)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> BenchProgram:
    return built(find_machine("host"), tmp_path_factory.mktemp("program"))


def run(runner: ShellRunner, program: BenchProgram, cpus: Sequence[int] = (), **given: Any) -> Mapping[int, JobTimes]:
    found: dict[int, JobTimes] = {}

    def take(result: object) -> None:
        assert isinstance(result, JobTimes), result
        found[result.job] = result

    with runner:
        run_bench(runner, program, range(program.jobs), cpus, given.get("core"), given.get("options", BRIEF), take)
    return found


def random_floats(count: int, seed: int, base: int) -> np.ndarray[Any, Any]:
    """As the program makes them: xorshift64 (13, 7, 17), its upper 24 bits as a fraction from -1 to 1."""
    mask = (1 << 64) - 1
    state = (seed * 6 + base + 1) * 0x9E3779B97F4A7C15 & mask
    found = []
    for _ in range(count):
        state ^= state << 13 & mask
        state ^= state >> 7
        state ^= state << 17 & mask
        found.append(((state >> 40) - (1 << 23)) / (1 << 23))
    return np.array(found, np.float32)


def checksum(array: np.ndarray[Any, Any]) -> str:
    found = 0xCBF29CE484222325
    for word in np.ascontiguousarray(array).view(np.uint32).ravel():
        found = (found ^ int(word)) * 0x100000001B3 & (1 << 64) - 1
    return f"{found:016x}"


def in_this_process(job: Job) -> str:
    """The checksum of what the job's kernels compute when they are compiled and run here, on the same numbers."""
    assert job.primitive is not None
    s, machine = SMALL, find_machine("host")
    lowering = job.primitive.lower(s, np.zeros((8, 8, 3, 3), np.float32), WITH_BIAS, block_of(machine))
    sizes = {"x": 800 * 4, "weights": lowering.weights_bytes, "bias": 8 * 4}
    operands = {base: memory(size, random_floats(size // 4, 1, BASES.index(base))) for base, size in sizes.items()} | {
        "out": memory(800 * 4),
        "workspace": memory(lowering.workspace_bytes),
    }
    run_jobs([Run(lowering, operands, all_rows(lowering))], machine)
    return checksum(operands["out"].inner)


def packed_bytes(form: QuantisedWeights, size: int) -> np.ndarray[Any, Any]:
    """Packed 8-bit weights as the program makes them of seed 1."""
    numbers = ((random_floats(form.sums_at + form.sums, 0, 1).astype(np.float64) + 1) * (1 << 23)).astype(np.int64)
    found = np.zeros(size, np.uint8)
    found[: form.sums_at] = (numbers[: form.sums_at] % 255 - 127).astype(np.int8).view(np.uint8)
    sums = (numbers[form.sums_at :] % 8192 - 4096).astype(np.int32)
    sums[form.sums - form.flips :] = -0x7F7F7F80
    found[form.sums_at :][: 4 * form.sums] = sums.view(np.uint8)
    factors = np.full(form.factors, np.float32(1) / np.float32(32 * form.terms), np.float32)
    found[form.factors_at :][: 4 * form.factors] = factors.view(np.uint8)
    return found


def test_eight_bit_kernels_compute_on_bytes_what_they_compute_elsewhere(program: BenchProgram) -> None:
    s, machine = EIGHT_BIT, find_machine("host")
    # Kernels without the dot product go by the weights: small ones may add up in 16 bits.
    lowering = BYTES.lower(s, typical_weights(s), WITH_BIAS, block_of(machine))
    assert lowering.quantised is not None
    image = memory(s.c * s.h * s.w, random_floats(70, 1, 0).view(np.uint8))
    weights = memory(lowering.weights_bytes, packed_bytes(lowering.quantised, lowering.weights_bytes))
    out = memory(s.m * s.out_h * s.out_w)
    operands = {"x": image, "weights": weights, "out": out, "workspace": memory(lowering.workspace_bytes)}
    run_jobs([Run(lowering, operands, all_rows(lowering))], machine)

    assert np.unique(out.inner).size > 50  # no sum of all is beyond 8 bits
    assert run(open_runner("local"), program)[3].checksum == checksum(out.inner[: out.size // 4 * 4])


def test_what_it_computes_is_what_the_kernels_compute_elsewhere(program: BenchProgram) -> None:
    output = run(open_runner("local"), program)
    assert sorted(output) == [0, 1, 2, 3, 4]
    assert [output[n].checksum for n in (0, 2)] == [in_this_process(JOBS[n]) for n in (0, 2)]
    image = random_floats(16 * 9 * 7, 1, 0).reshape(16, 9, 7)
    assert output[4].checksum == checksum(image.transpose(1, 2, 0))  # a conversion moves numbers, and no more


def test_times_are_of_the_work(program: BenchProgram) -> None:
    output = run(open_runner("local"), program, HERE)
    times = output[0]
    # 57,600 multiply-accumulates: no core does more than 64 a cycle at 6 GHz, none needs a millisecond by far.
    assert SMALL.macs / (64 * 6e6) < times.warm.ms < 5
    assert output[1].warm.ms > 8 * times.warm.ms
    assert times.cold is not None and times.cold.rounds >= 2 and times.cold.runs == times.cold.rounds
    assert times.warm.rounds >= 3 and times.warm.runs >= times.warm.rounds


def test_jobs_in_turns_compute_and_take_what_they_do_alone(program: BenchProgram) -> None:
    alone, found = run(open_runner("local"), program, HERE), dict[int, InterleavedTimes]()

    def take(result: object) -> None:
        assert isinstance(result, InterleavedTimes), result
        found[result.job] = result

    with open_runner("local") as runner:
        run_interleaved(runner, program, [(2, 0, 1), (3, 4)], HERE, None, BRIEF, take)
    assert list(found) == [0, 1, 2, 3, 4]
    assert {n: turns.checksum for n, turns in found.items()} == {n: times.checksum for n, times in alone.items()}
    assert all(len(turns.ms) == len(turns.lost) == BRIEF.rounds and turns.runs >= 3 for turns in found.values())
    assert min(found[1].ms) > 8 * min(found[0].ms) > 0


@pytest.mark.parametrize("name", ["ssh", "adb"])
def test_every_runner_brings_the_same_results(
    name: str, program: BenchProgram, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    if name == "ssh":
        monkeypatch.setenv("MAVCG_RUNNER_FOLDER", str(there))
        where = request.getfixturevalue("sshd").name
    else:
        there, where = request.getfixturevalue("device").root / "data/local/tmp", "adb"
    output = run(open_runner(where), program, HERE)
    assert {n: times.checksum for n, times in output.items()} == {
        n: times.checksum for n, times in run(open_runner("local"), program).items()
    }
    assert list(there.iterdir()) == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU only")
def test_threads_share_the_work_and_compute_the_same(program: BenchProgram) -> None:
    pair = sorted(os.sched_getaffinity(0))[:2]
    alone, together = run(open_runner("local"), program, HERE), run(open_runner("local"), program, pair)
    assert {n: times.checksum for n, times in alone.items()} == {n: times.checksum for n, times in together.items()}
    assert all(times.warm.ms > 0.2 * alone[n].warm.ms for n, times in together.items())


def test_it_is_small(program: BenchProgram) -> None:
    assert program.bytes < 120_000


def test_a_cpu_that_is_not_there(program: BenchProgram) -> None:
    with pytest.raises(MavcgError, match="CPU 1023 cannot be had: Invalid argument"):
        run(open_runner("local"), program, [1023])


def test_memory_that_is_not_there(program: BenchProgram) -> None:
    with pytest.raises(MavcgError, match="no memory to fill the caches with"):
        run(open_runner("local"), program, options=BenchOptions(evict_bytes=1 << 60))


@pytest.mark.parametrize("words", [["--jobs", "5"], ["--jobs", "2-1"], ["--jobs", "x"], ["--cpu"], ["--cpu", "-1"]])
def test_bad_words_are_refused_before_anything_runs(program: BenchProgram, words: list[str]) -> None:
    with open_runner("local") as runner:
        done = runner.run(program.path, words)
    assert (done.status, done.stdout.strip()) == (2, b"") and done.words.startswith("bench: --")


def test_what_writes_outside_of_its_operands_is_no_result(tmp_path: Path) -> None:
    """Two kernels in C: one writes behind its output, one does what it should, and is measured."""
    (tmp_path / "bench_jobs.h").write_text(
        """#define BENCH_JOBS 2
static void writes(void *args, int64_t begin, int64_t end, void *scratch) {
    float *out = ((float **)args)[0];
    (void)begin, (void)scratch;
    for (int64_t i = 0; i < end; i++) out[i] = 1;
}
static const struct stage bad[] = {{writes, 17, 1, {{OUT, 0}}}}, good[] = {{writes, 16, 1, {{OUT, 0}}}};
static const struct job bench_jobs[BENCH_JOBS] = {{{0, 0, 64}, 0, bad, 1}, {{0, 0, 64}, 0, good, 1}};
"""
    )
    out = tmp_path / "bench"
    words = [f"-I{tmp_path}", str(bench_program.CSRC / "bench.c"), "-o", str(out)]
    target = bench_target(find_machine("host").arch)
    run_zig("cc", ["-target", target.zig_name, *bench_program.LINK_FLAGS, *words], "a test's program", tmp_path)
    found: list[Any] = []
    with open_runner("local") as runner:
        run_bench(runner, BenchProgram(out, 2), [0, 1], [], None, BRIEF, found.append)
    assert found[0].why == "memory outside of its operands was written"
    assert found[1].checksum == checksum(np.ones(16, np.float32))


@needs_qemu
def test_an_emulated_board_computes_the_same(program: BenchProgram, tmp_path: Path) -> None:
    """Its own kernels for AArch64, its own times, which say nothing; and it says what CPU it is."""
    core = load_core("cortex-a55")
    arm = built(find_machine("cortex-a55"), tmp_path, JOBS[:1] + JOBS[2:3])
    options = BenchOptions(rounds=1, least_ms=0, round_ms=0, cold_rounds=0, settle_ms=0)
    output = run(ShellRunner(LocalTransport(), EMULATOR), arm, core=core, options=options)
    host = run(open_runner("local"), program, options=options)
    assert [output[0].checksum, output[1].checksum] == [host[0].checksum, host[2].checksum]
    assert output[0].cold is None and output[0].warm.ms > 0
