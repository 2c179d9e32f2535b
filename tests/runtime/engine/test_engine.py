"""The engine as programs meet it: any number of threads, errors, cancelling, forks, threads that are moved."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.hardware.core import Core, Midr
from mavcg.runtime.coreset import CoreSet
from mavcg.toolchain.target import host_target, parse_target
from tests.machine import QEMU, needs_qemu, needs_two_cpus
from tests.runtime.engine.sanitizers import ASAN, TSAN, Run

TWO_CORES = CoreSet(
    tuple(
        Core(name, host_target().arch, "out", "x86-64" if host_target().arch == "x86_64" else "generic", "made up")
        for name in ("a", "b")
    )
)  # as in conftest.py

Build = Callable[..., Path]

MAP = "0=a,1=b"


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("runs", ["50", pytest.param("200", marks=pytest.mark.long)])
def test_results_are_right_with_any_number_of_threads(build_driver: Build, run: Run, threads: int, runs: str) -> None:
    assert run(build_driver(), "runs", str(threads), runs).stdout == "ok\n"


@pytest.mark.parametrize("runs", ["1000", pytest.param("3000", marks=pytest.mark.long)])
def test_thousands_of_quick_runs(build_driver: Build, run: Run, runs: str) -> None:
    assert run(build_driver(), "runs", "2", runs).stdout == "ok\n"


def test_pinned_threads(build_driver: Build, run: Run) -> None:
    assert run(build_driver(), "pinned", "3", "100").stdout == "ok\n"


@pytest.mark.parametrize("what", ["two 1 500", "two 3 100", "shared 2 300", "cancel 1", "cancel 2", "errors"])
def test_from_several_threads_and_misused(build_driver: Build, run: Run, what: str) -> None:
    assert run(build_driver(), *what.split()).stdout == "ok\n"


@pytest.mark.parametrize("threads", ["1", "3"])
def test_forked_children_have_threads_of_their_own(build_driver: Build, run: Run, threads: str) -> None:
    assert run(build_driver(), "forks", threads).stdout == "ok\n"


@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_child_with_its_parents_number(build_driver: Build, run: Run, threads: str) -> None:
    """As the first process of a PID namespace has it whose parent is the first of another."""
    assert run(build_driver(), "namespaces", threads).stdout == "ok\n"


@pytest.mark.long
@pytest.mark.parametrize("what", ["forks 1", "forks 3"])
def test_processes_are_not_known_by_their_number(build_checked: Build, run: Run, what: str) -> None:
    """Where no PID namespaces may be made: every process is told that it is number 7."""
    assert run(build_checked(("-DONE_NUMBER",), ("-Dgetpid=one_number",)), *what.split()).stdout == "ok\n"


@pytest.mark.long
@pytest.mark.parametrize("what", ["forks 1", "forks 3", "cancel 2", "shared 2 100"])
def test_a_kernel_that_clears_no_pages(build_checked: Build, run: Run, what: str) -> None:
    program = build_checked((), ("-DADVICE_WIPE_ON_FORK=999999",))
    assert run(program, *what.split()).stdout == "ok\n"


@pytest.mark.parametrize("threads", ["1", "3"])
def test_children_that_share_the_memory(build_driver: Build, run: Run, threads: str) -> None:
    assert run(build_driver(), "vforks", threads).stdout == "ok\n"


@pytest.mark.skipif(host_target().arch != "x86_64", reason="steps through its own instructions by x86's trap flag")
@pytest.mark.parametrize("instructions", ["20", pytest.param("60", marks=pytest.mark.long)])
def test_a_cancel_is_heeded_from_the_first_instruction_of_a_run(
    build_driver: Build, run: Run, instructions: str
) -> None:
    """Each run is stepped through: 60 on a busy machine would reach the driver's time limit."""
    assert run(build_driver(), "cancelled", instructions).stdout == "ok\n"


@pytest.mark.parametrize("threads", ["1", "3"])
def test_all_threads_take_the_callers_floating_point_mode(build_driver: Build, run: Run, threads: str) -> None:
    assert run(build_driver(), "modes", threads).stdout == "ok\n"


@pytest.mark.skipif(host_target().system != "linux-gnu", reason="asks glibc what is allocated")
@pytest.mark.parametrize("threads", ["1", "4"])
def test_runs_allocate_nothing(build_driver: Build, run: Run, threads: str) -> None:
    assert run(build_driver(), "quiet", threads).stdout == "ok\n"


@needs_two_cpus
@pytest.mark.parametrize("what", ["runs 2 2000", "runs 4 300", "two 3 100", "cancel 2", "forks 3"])
@pytest.mark.parametrize("cpus", [MAP, "0=b,1=a", "0=generic,1=b"])
@pytest.mark.sample(6)
def test_on_unequal_cores(build_driver: Build, run: Run, what: str, cpus: str) -> None:
    """The caller's core may be the slowest, and then leaves rows to others."""
    assert run(build_driver(), *what.split(), MAVCG_CPU_MAP=cpus).stdout == "ok\n"


@needs_two_cpus
def test_each_cpu_runs_its_version(build_driver: Build, run: Run) -> None:
    assert run(build_driver(), "switching", MAVCG_CPU_MAP=MAP).stdout == "ok\n"


@needs_two_cpus
def test_a_thread_that_is_moved_goes_on_with_the_other_version(build_driver: Build, run: Run) -> None:
    """Within one step, and with the same results to the bit."""
    assert run(build_driver(), "migrating", MAVCG_CPU_MAP=MAP).stdout == "ok\n"


def test_unknown_cores_run_the_generic_version(build_driver: Build, run: Run) -> None:
    assert run(build_driver(), "who", "2").stdout == "1\nok\n"
    assert run(build_driver(), "who", "2", MAVCG_CPU_MAP="all=b").stdout == "3\nok\n"


def test_runs_are_traced_by_kernel(build_driver: Build, run: Run) -> None:
    done = run(build_driver(), "who", "1", MAVCG_CPU_MAP="all=a", MAVCG_TRACE="1")

    lines = done.stderr.splitlines()
    assert lines == [
        f"mavcg: {kernel} a {calls}"
        for kernel, calls in (
            ("chain_1", 6 * 16 + 6 * 8),
            ("who_1", 96),
            ("modes_1", 96),
            ("intact_1", 20),
            ("nap_1", 3),
        )
    ]


@pytest.mark.long
def test_a_core_without_a_version_of_a_kernel_runs_its_stand_in_s(build_driver: Build, run: Run) -> None:
    """b lacks `who`: a stands in for it; where a lacks it, too, generic does."""
    a, b = TWO_CORES.cores
    cores = CoreSet((a, replace(b, stand_ins=("a",))))
    one = build_driver(cores, kernel_flags={"b": "-DLACKS_WHO"})
    both = build_driver(cores, kernel_flags={"a": "-DLACKS_WHO", "b": "-DLACKS_WHO"})

    def version(program: Path, core: str) -> str:
        return run(program, "who", "1", MAVCG_CPU_MAP=f"all={core}").stdout.split()[0]

    assert (version(one, "a"), version(one, "b"), version(both, "b")) == ("2", "2", "1")


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("what", ["runs 4 50", "two 3 20", "shared 3 50", "cancel 3", "modes 3"])
def test_under_thread_sanitizer(build_checked: Build, run: Run, what: str) -> None:
    done = run(build_checked(TSAN), *what.split(), TSAN_OPTIONS="halt_on_error=1")

    assert done.stdout == "ok\n" and "WARNING" not in done.stderr


@pytest.mark.long
@pytest.mark.sample(1)
@needs_two_cpus
@pytest.mark.parametrize("what", ["runs 2 80", "runs 4 30"])
def test_unequal_cores_under_thread_sanitizer(build_checked: Build, run: Run, what: str) -> None:
    done = run(build_checked(TSAN), *what.split(), MAVCG_CPU_MAP=MAP, TSAN_OPTIONS="halt_on_error=1")

    assert done.stdout == "ok\n" and "WARNING" not in done.stderr


@pytest.mark.parametrize("what", ["runs 1 20", "runs 4 100", "errors", "shared 3 60", "cancel 2", "forks 3"])
@pytest.mark.sample(3)
def test_under_address_and_undefined_sanitizers(build_checked: Build, run: Run, what: str) -> None:
    done = run(build_checked(ASAN), *what.split(), ASAN_OPTIONS="detect_leaks=1")

    assert done.stdout == "ok\n" and done.stderr == ""


@pytest.mark.long
def test_a_system_without_memory_or_threads(build_checked: Build, run: Run) -> None:
    faults = (
        "-Dposix_memalign=failing_memalign",
        "-Dcalloc=failing_calloc",
        "-Dmmap=failing_mmap",
        "-Dpthread_create=failing_create",
    )
    program = build_checked((*ASAN, "-DFAILING"), (*faults, "-Wno-implicit-function-declaration"))

    assert run(program, "failures").stdout == "ok\n"


def test_threads_have_names(build_driver: Build, run: Run) -> None:
    names = run(build_driver(), "names", "4").stdout.splitlines()

    assert sorted(names) == ["driver", "mavcg-1", "mavcg-2", "mavcg-3", "ok"]


STACKS = (("-DNOTED_STACKS",), ("-Dpthread_create=noted_create", "-Wno-implicit-function-declaration"))


@pytest.mark.long
def test_threads_have_stacks_of_the_documented_size(build_checked: Build, run: Run) -> None:
    assert run(build_checked(*STACKS), "stacks", "0").stdout.split() == ["524288", "524288", "ok"]
    assert "512 KiB" in (Path(__file__).parents[3] / "docs/model-runtime.md").read_text()


@pytest.mark.long
def test_a_system_that_takes_no_stack_of_that_size(build_checked: Build, run: Run) -> None:
    """As glibc where the program's thread-local storage is larger: threads get the system's default size."""
    assert run(build_checked(*STACKS), "stacks", "1").stdout.split() == ["0", "0", "ok"]


@pytest.mark.long
@pytest.mark.sample(1)
@needs_two_cpus
@pytest.mark.parametrize(
    ("value", "spin_us", "reported"),
    [
        (None, 50, False),
        ("", 50, False),
        ("0", 0, False),
        ("7", 7, False),
        ("20000", 20000, False),
        ("1000001", 50, True),
        ("-1", 50, True),
        ("5ms", 50, True),
        (" 5", 50, True),
        ("99999999999999999999", 50, True),
    ],
)
def test_the_time_that_threads_poll(
    build_checked: Build, run: Run, value: str | None, spin_us: int, reported: bool
) -> None:
    """Counted by a clock that moves on by a microsecond whenever it is read: at least the last wait takes all of its
    time, and each of the other waits of two threads at most that."""
    program = build_checked(("-DSLOW_CLOCK",), ("-Dclock_gettime=slow_clock", "-Wno-implicit-function-declaration"))
    done = run(program, "spins", **({} if value is None else {"MAVCG_SPIN_US": value}))
    reads = int(done.stdout.split()[0])

    assert (spin_us + 1 if spin_us else 0) <= reads <= 2 * 40 * (spin_us + 1 if spin_us else 0)
    message = f"mavcg: MAVCG_SPIN_US: '{value}' is not 0 to 1000000 microseconds; the default of 50 is used\n"
    assert done.stderr == (message if reported else "")


@pytest.mark.long
@pytest.mark.skipif(host_target().arch != "x86_64", reason="needs an x86 processor")
def test_a_processor_without_avx2(build_checked: Build, run: Run) -> None:
    assert run(build_checked(("-DOLD_CPU",), ("-DMAVCG_CPUID=old_cpuid",)), "old_cpu").stdout == "ok\n"


ARM_CORES = (
    Core("cortex-a55", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05, 1),)),
    Core("cortex-a75", "aarch64", "out", "cortex-a75", "", (Midr(0x41, 0xD0A),)),
    Core("exynos-m4", "aarch64", "out", "exynos-m4", "", (Midr(0x53, 0x003),)),
)


@needs_qemu
@pytest.mark.parametrize(
    ("midr", "version"), [(0x412FD050, 2), (0x413FD0A1, 3), (0x531F0030, 4), (0x612F0210, 1)], ids=hex
)
def test_versions_under_emulation(build_driver: Build, run: Run, midr: int, version: int) -> None:
    program = build_driver(CoreSet(ARM_CORES), {c.name: c for c in ARM_CORES}, parse_target("aarch64-linux-musl"))
    qemu = [str(QEMU), "-cpu", f"max,midr={midr:#x}"]

    assert run(*qemu, program, "who", "3").stdout == f"{version}\nok\n"
    assert run(*qemu, program, "who", "1", MAVCG_CPU_MAP="all=cortex-a75").stdout == "3\nok\n"


@needs_qemu
@pytest.mark.parametrize("what", ["runs 3 30", "modes 2", "errors", "cancel 2", "forks 2"])
def test_under_emulation(build_driver: Build, run: Run, what: str) -> None:
    program = build_driver(CoreSet(ARM_CORES), {c.name: c for c in ARM_CORES}, parse_target("aarch64-linux-musl"))

    assert run(str(QEMU), "-cpu", "max", program, *what.split()).stdout == "ok\n"


@pytest.mark.long
@pytest.mark.parametrize("what", ["runs 4 100", "runs 8 1000", "two 4 400", "shared 3 800"])
def test_many_runs_under_thread_sanitizer(build_checked: Build, run: Run, what: str) -> None:
    done = run(build_checked(TSAN), *what.split(), TSAN_OPTIONS="halt_on_error=1")

    assert done.stdout == "ok\n" and "WARNING" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("threads", range(1, 9))
def test_ten_thousand_runs_with_any_number_of_threads(build_driver: Build, run: Run, threads: int) -> None:
    assert run(build_driver(), "runs", str(threads), "10000").stdout == "ok\n"
