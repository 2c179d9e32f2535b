"""Whole programs: their instructions are those that the emulator logs, and calls take the cycles of simulated calls."""

from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.assembly.code_image import CodeImage, assemble_image
from mavcg.cost.core_facts import simulated_core
from mavcg.errors import MavcgError
from mavcg.lab.simulate.process import ProcessOptions, process_json
from mavcg.lab.simulate.process_emulator import CallRegion
from mavcg.lab.simulate.sampling import sum_of_counts
from mavcg.lab.simulate.simulated_program import CallCounts, SimulatedProgram
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from mavcg.toolchain.zig import run_zig
from tests.mavcg.lab.simulate.loops import state
from tests.mavcg.lab.simulate.traced_programs import (
    FUNCTIONS,
    START,
    instructions_by_qemu,
    needs_traced_qemu,
    program_of,
    simulated,
)

THREADED = """
#include <pthread.h>
#include <string.h>
volatile float left[4096], right[4096];
__attribute__((noinline)) float total(int from, int to) {
    float sum = 0;
    for (int n = from; n < to; n++) sum += left[n] * right[n];
    return sum;
}
__attribute__((noinline)) float nested(int depth) { return depth ? nested(depth - 1) + total(0, 8) : total(0, 64); }
__attribute__((used)) int unused(void) { return 1; }
static void *work(void *data) { ((float *)data)[0] = total(0, 1000); return data; }
int main(int count, char **words) {
    pthread_t other;
    float result[1] = {(float)count};
    if (count > 1 && !strcmp(words[1], "crash")) return *(volatile int *)4;
    pthread_create(&other, 0, work, result);
    pthread_join(other, 0);
    result[0] += nested(3);
    for (int n = 0; n < (count > 1 ? 600 : 1); n++) result[0] += total(0, 1000);
    return result[0] > 0;
}
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_traced_qemu()
    return program_of(tmp_path_factory.mktemp("plain"), "plain", FUNCTIONS + START, "-nostdlib")


@pytest.fixture(scope="module")
def threaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_traced_qemu()
    return program_of(tmp_path_factory.mktemp("threaded"), "threaded", THREADED, "-fno-vectorize", suffix=".c")


@pytest.fixture(scope="module")
def image() -> CodeImage:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    return assemble_image(FUNCTIONS)


def of_call(image: CodeImage, core: str, function: str, words: str) -> CallCounts:
    """The counts of a second call in the other emulator."""
    kind = load_core(core)
    program = SimulatedProgram(image, load_timing(kind), simulated_core(kind))
    program.call(image.symbols[function], state(words))
    return program.call(image.symbols[function], state(words))


def test_instructions_of_a_program_are_those_of_the_emulators_log(plain: Path, tmp_path: Path) -> None:
    whole = simulated("cortex-a55", plain)
    assert whole.total.instructions == instructions_by_qemu(plain, tmp_path / "log") == whole.total.measured
    assert whole.status == 7 and list(whole.threads) == [0]


@pytest.mark.parametrize("core", ["cortex-a53", "cortex-a55", "cortex-a76"])
@pytest.mark.parametrize(
    "function, words",
    [("axpy", "buf:16384=0 buf:16384=0 i:64 f:2"), ("strided", "buf:16384=0 i:64"), ("ahead", "buf:16384=0 i:64")],
)
def test_a_call_takes_the_cycles_of_a_simulated_call(
    plain: Path, image: CodeImage, core: str, function: str, words: str
) -> None:
    call = of_call(image, core, function, words)
    counts = simulated(core, plain, options=ProcessOptions(CallRegion(function, 2, 2), warm=1)).total
    assert counts.instructions == call.instructions
    assert (counts.branches, counts.mispredicts) == (call.branches, call.mispredicts)
    assert counts.caches == call.caches
    # In the first round of `ahead` the registers are set in the block of the prefetches.
    assert counts.unknown_addresses == 0 and counts.unmodelled == 0
    assert counts.cycles == pytest.approx(call.cycles, abs=3)  # they begin at different places of a cycle


def test_calls_are_counted_by_number_and_between(plain: Path) -> None:
    def instructions(*region: int | None, between: bool = False, function: str = "axpy") -> int:
        first, last = region
        assert first is not None
        options = ProcessOptions(CallRegion(function, first, last, between))
        return simulated("cortex-a55", plain, options=options).total.instructions

    one = 1 + 16 * 6 + 1
    assert [instructions(n, n) for n in (1, 2, 4)] == [one] * 3
    assert [instructions(1, None), instructions(3, None)] == [4 * one, 2 * one]
    assert instructions(2, 2, between=True) == 2 + 5  # the loop's end, and what prepares the next call
    last = instructions(4, 4, between=True)
    calls = 1 + 2 * (3 + 1 + 64 * 7 + 2 + 2), 1 + 2 * (3 + 2 + 64 * 7 + 1 + 2)
    assert last == 2 + sum(calls) + 3 and last == instructions(4, None, between=True)


def test_cold_caches_miss_what_warm_ones_hit(plain: Path) -> None:
    cold, warm = (
        simulated("cortex-a55", plain, options=ProcessOptions(CallRegion("axpy", n, n), warm=w)).total
        for n, w in ((1, 0), (3, 2))
    )
    assert cold.caches["l1"][1] > 0 == warm.caches["l1"][1]
    assert cold.cycles > warm.cycles


def test_each_thread_has_counts_of_its_own(threaded: Path) -> None:
    whole = simulated("cortex-a55", threaded)
    assert list(whole.threads) == [0, 1]
    assert whole.total == sum_of_counts(list(whole.threads.values()))
    call = simulated("cortex-a55", threaded, options=ProcessOptions(CallRegion("total", 1, 1)))
    assert call.threads[1].instructions > 4 * 1000  # main waits in the kernel, or is a few instructions before that
    assert call.calls >= 6


def test_a_call_within_a_call_belongs_to_it(threaded: Path) -> None:
    nested = simulated("cortex-a55", threaded, options=ProcessOptions(CallRegion("nested")))
    total = simulated("cortex-a55", threaded, options=ProcessOptions(CallRegion("total", 2, 5)))
    assert nested.calls == 1
    assert total.total.instructions < nested.total.instructions < total.total.instructions + 100


@pytest.mark.long
@pytest.mark.parametrize("core", ["cortex-a55", "cortex-a76"])
def test_samples_estimate_the_whole_run(threaded: Path, core: str) -> None:
    region = CallRegion("total", first=2)  # the first is that of the other thread
    whole = simulated(core, threaded, "long", options=ProcessOptions(region)).threads[0]
    sampled = simulated(core, threaded, "long", options=ProcessOptions(region, every=500_000)).threads[0]
    assert sampled.instructions == whole.instructions > 2_000_000
    assert 0 < sampled.measured < whole.instructions / 4
    assert abs(sampled.cycles - whole.cycles) < max(6 * sampled.error, 0.01 * whole.cycles)


def test_extensions_that_the_timing_lacks_are_counted(tmp_path: Path) -> None:
    needs_traced_qemu()
    body = "\tsmmla v0.4s, v1.16b, v2.16b\n\tbfdot v3.4s, v1.8h, v2.8h\n\tadd x1, x1, #1\n" * 5
    source = f"\t.arch armv8.6-a+i8mm+bf16\n\t.globl _start\n_start:\n{body}\tmov x8, #94\n\tmov x0, #0\n\tsvc #0\n"
    counts = simulated("cortex-a510", program_of(tmp_path, "newer", source, "-nostdlib"))
    assert counts.total.instructions == 18
    executed = {text: 1 if text.startswith("svc") else 5 for text in counts.unmodelled}
    assert counts.total.unmodelled == sum(executed.values()) >= 1


def test_functions_of_shared_libraries_are_found_where_they_are_loaded(tmp_path: Path) -> None:
    needs_traced_qemu()
    root = Path("/usr/aarch64-linux-gnu")
    if not (root / "lib/libc.so.6").exists():
        pytest.skip("libc6-arm64-cross is not installed")
    library, program, target = tmp_path / "libsum.so", tmp_path / "user", "aarch64-linux-gnu.2.17"
    (tmp_path / "sum.c").write_text("int sum(int n) { volatile int s = 0; while (n) s += n--; return s; }")
    (tmp_path / "user.c").write_text("int sum(int); int main(void) { return sum(10) + sum(20) != 265; }")
    run_zig("cc", ["-target", target, "-O1", "-shared", str(tmp_path / "sum.c"), "-o", str(library)], "building")
    words = ["-target", target, "-O1", str(tmp_path / "user.c"), str(library), f"-Wl,-rpath,{tmp_path}"]
    run_zig("cc", [*words, "-o", str(program)], "building")
    counts = [
        simulated(
            "cortex-a55", program, options=ProcessOptions(CallRegion("sum", n, n), sysroot=root)
        ).total.instructions
        for n in (1, 2)
    ]
    assert counts[1] - counts[0] > 10 and (counts[1] - counts[0]) % 10 == 0  # ten more rounds of one loop
    assert simulated("cortex-a55", program, options=ProcessOptions(CallRegion("sum"), sysroot=root)).calls == 2


def test_the_document_has_the_names_that_scripts_use(plain: Path) -> None:
    document = process_json(simulated("cortex-a76", plain))
    assert {"cycles", "instructions", "ipc", "stalls", "caches", "branches", "unmodelled"} <= set(document)
    assert set(document["branches"]) == {"count", "missed"}
    assert document["cycles"] > 0 and document["caches"]["l1"]["hits"] > 0


@pytest.mark.parametrize(
    "words, region, says",
    [
        (("crash",), CallRegion(), "ended by signal 11"),
        ((), CallRegion("absent"), "no file of the program defines absent"),
        ((), CallRegion("total", 100, 100), "not 100; give a lower --call"),
        ((), CallRegion("unused"), "unused was not called; give arguments"),
    ],
)
def test_programs_that_cannot_be_simulated_are_errors(
    threaded: Path, words: tuple[str, ...], region: CallRegion, says: str
) -> None:
    with pytest.raises(MavcgError, match=says):
        simulated("cortex-a55", threaded, *words, options=ProcessOptions(region))


def test_a_program_or_root_that_is_not_there_is_an_error(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="there is no such program"):
        simulated("cortex-a55", tmp_path / "none")
    with pytest.raises(MavcgError, match="is not a folder"):
        simulated("cortex-a55", plain, options=replace(ProcessOptions(), sysroot=tmp_path / "none"))
