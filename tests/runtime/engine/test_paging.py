"""Pages of constants in the engine: mapped and released beside a run, on one CPU before its phases, without changes."""

from collections.abc import Iterator

import pytest

from mavcg.specs.model_program import PagedWeights
from tests.runtime.engine.conftest import CONSTANTS, LAYERS, Build
from tests.runtime.engine.sanitizers import ASAN, TSAN, Run

USED, ALL = len(CONSTANTS), 20 << 16  # bytes that kernels read, and of the table


def rows() -> Iterator[PagedWeights]:
    """Every third phase begins a group. All lets go of what kernels read, too, which they then map by reading it."""
    yield PagedWeights(0, 0, ALL, "release")
    yield PagedWeights(0, 0, USED, "map")
    yield PagedWeights(0, USED, ALL // 2, "map")
    for phase in range(3, LAYERS, 3):
        yield PagedWeights(phase, 0, ALL, "release_beside")
        yield PagedWeights(phase, 0, ALL - phase, "map")
    yield PagedWeights(LAYERS + 2, 0, ALL, "release")


PAGES = tuple(rows())


@pytest.mark.parametrize(
    "what", ["runs 1 50", "runs 3 50", "cancel 2", "forks 3", "quiet 2", "two 2 40", "shared 2 40"]
)
@pytest.mark.sample(3)
def test_results_are_those_without_pages(build_checked: Build, run: Run, what: str) -> None:
    assert run(build_checked(pages=PAGES), *what.split()).stdout == "ok\n"


@pytest.mark.parametrize("threads", ["1", "3"])
def test_on_one_cpu(build_checked: Build, run: Run, threads: str) -> None:
    assert run("taskset", "-c", "0", build_checked(pages=PAGES), "runs", threads, "20").stdout == "ok\n"


def test_pages_of_64_kib(build_checked: Build, run: Run) -> None:
    """Advice is about whole pages of the kernel, also where the constants of a group begin within one."""
    program = build_checked(("-DLARGE_PAGES",), ("-Dsysconf=large_sysconf", "-Dmadvise=large_madvise"), pages=PAGES)
    done = run(program, "runs", "3", "20")
    assert (done.stdout, done.stderr) == ("ok\n", "")


@pytest.mark.long
@pytest.mark.parametrize("what", ["runs 1 60", "runs 3 60", "cancel 2", "shared 3 60", "forks 3"])
def test_under_address_and_undefined_sanitizers(build_checked: Build, run: Run, what: str) -> None:
    done = run(build_checked(ASAN, pages=PAGES), *what.split(), ASAN_OPTIONS="detect_leaks=1")
    assert done.stdout == "ok\n" and done.stderr == ""


@pytest.mark.long
@pytest.mark.parametrize("what", ["runs 1 60", "runs 3 60", "cancel 2", "shared 3 60", "two 2 40"])
def test_under_thread_sanitizer(build_checked: Build, run: Run, what: str) -> None:
    done = run(build_checked(TSAN, pages=PAGES), *what.split(), TSAN_OPTIONS="halt_on_error=1")
    assert done.stdout == "ok\n" and "WARNING" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("what", ["failures", "runs 1 20", "runs 3 60"])
def test_a_system_that_maps_no_pages_or_has_no_threads(build_checked: Build, run: Run, what: str) -> None:
    """Pages are then mapped by reading them."""
    faults = (
        "-Dposix_memalign=failing_memalign",
        "-Dcalloc=failing_calloc",
        "-Dmmap=failing_mmap",
        "-Dpthread_create=failing_create",
        "-Dmadvise=older_madvise",
    )
    program = build_checked((*ASAN, "-DFAILING"), (*faults, "-Wno-implicit-function-declaration"), pages=PAGES)
    assert run(program, *what.split()).stdout == "ok\n"
