"""A context's arena and scratch, where they are large: mappings of their own that may be in large pages."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mavcg

Build = Callable[..., Path]
LARGE = 1 << 21
ARENA, SCRATCH = 2 * LARGE + (1 << 16) + 64, LARGE + 128
NO_NAP = np.zeros(1, np.int32)

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's list of mappings")


def advised() -> dict[int, int]:
    """Begin and bytes of the mappings that are to be in large pages."""
    found, here = {}, (0, 0)
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if match := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            begin, end = (int(word, 16) for word in match.groups())
            here = begin, end - begin
        elif line.startswith("VmFlags:") and "hg" in line.split():
            found[here[0]] = here[1]
    return found


@pytest.fixture(scope="module")
def large(build_library: Build) -> Path:
    return build_library("large", arena_bytes=ARENA, scratch_bytes=SCRATCH)


@pytest.mark.long
def test_large_ones_are_mappings_that_go_with_the_context(large: Path) -> None:
    before = advised()
    with mavcg.load(large, threads=3) as model:
        new = {begin: size for begin, size in advised().items() if before.get(begin) != size}
        total = sum(advised().values()) - sum(before.values())
        model.run(np.zeros((1, 1000), np.float32), NO_NAP)

    # In whole pages of 64 KB, the largest that a system has; neighbours may be one mapping.
    assert total == ARENA - 64 + (1 << 16) + -(-3 * SCRATCH // (1 << 16)) * (1 << 16)
    assert all(begin % LARGE == 0 or begin in before for begin in new)
    assert advised() == before


@pytest.mark.parametrize("threads", [1, 3])
def test_results_are_the_same(large: Path, build_library: Build, threads: int) -> None:
    x = np.random.default_rng(0).standard_normal((1, 1000)).astype(np.float32)
    with mavcg.load(large, threads=threads) as model, mavcg.load(build_library(), threads=1) as small:
        for _ in range(3):
            y, _, _, intact, _ = model.run(x, NO_NAP)

            assert y.tobytes() == small.run(x, NO_NAP)[0].tobytes() and intact.all()


def test_small_ones_are_left_to_malloc(build_library: Build) -> None:
    before = advised()
    with mavcg.load(build_library(), threads=2):
        assert advised() == before


def test_without_memory_there_is_no_context(build_library: Build) -> None:
    huge = build_library("huge", arena_bytes=1 << 34)
    lines = (
        "import resource, sys, mavcg",
        f"resource.setrlimit(resource.RLIMIT_AS, ({1 << 33}, resource.RLIM_INFINITY))",
        "try: mavcg.load(sys.argv[1])",
        "except mavcg.errors.MavcgError as error: print(error)",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines), str(huge)], capture_output=True, text=True, check=True
    )

    assert "there is no memory for the context" in done.stdout
