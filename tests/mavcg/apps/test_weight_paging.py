"""Paged weights: what is in memory when, against a simulation of pages; and a library's pages on this machine."""

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg import load_application
from mavcg.apps.application_file import read_application_file
from mavcg.apps.library_plan import LibraryPlan, plan_library
from mavcg.apps.weight_paging import GRANULE
from mavcg.errors import MavcgError
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.specs.model_program import PagedWeights
from mavcg.toolchain.target import host_target
from tests.mavcg.apps.small_networks import write_application, write_network

pytest.importorskip("onnx")
Mavcg = Callable[..., Any]
CORES = "haswell" if host_target().arch == "x86_64" else "cortex-a55"
QUICK = ("--cores", CORES, "--target", host_target().zig_name, "--tune", "off")
SIDE, CHANNELS = 16, 128  # weights of 590 kB in the second layer of each network
PAGE = 4096
MOST = 1_600_000 + 200_000  # in memory with a limit of 1600 kB: a mapping has tables and names of the library, too


def application(folder: Path, head: str = "", networks: int = 3) -> Path:
    """Write networks with many weights, and app.toml."""
    names = [f"net{number}" for number in range(networks)]
    for seed, name in enumerate(names):
        write_network(folder / f"{name}.onnx", CHANNELS, SIDE, seed)
    path = folder / "app.toml"
    path.write_text(head + "\n" + "".join(f'[[network]]\nname = "{n}"\nfile = "{n}.onnx"\n' for n in names))
    return path


def planned(file: Path) -> LibraryPlan:
    request, _ = make_model_request(file, str(file.parent / "libapp.so"), ModelOptions(cores=("cortex-a55",)))
    return plan_library(read_application_file(file), request)


def pages_of(begin: int, end: int, base: int) -> set[int]:
    """The granules of addresses base + begin to base + end - 1."""
    return set(range((base + begin) // GRANULE, (base + end - 1) // GRANULE + 1))


def resident_in_each_phase(library: LibraryPlan, base: int, order: list[int]) -> Iterator[int]:
    """Yield the bytes of granules in memory in each phase; reads map all granules of theirs.

    What is done beside phases ends with the first of them, or just before the next rows of pages, whichever makes more
    of it. base: address of the weights, of which granules are not aligned with them.
    """
    assert library.paging is not None
    resident: set[int] = set()

    def done(pages: list[PagedWeights]) -> None:
        for page in pages:
            if page.advice.startswith("map"):
                resident.update(pages_of(page.begin, page.end, base))
            else:  # whole granules
                first, last = -(-(base + page.begin) // GRANULE), (base + page.end) // GRANULE
                resident.difference_update(range(first, last))

    for number in order:
        plan, pages = library.networks[number], library.paging.pages[number]
        sizes = {place.offset: place.constant.nbytes for place in plan.memory.constants}
        groups = sorted({page.phase for page in pages})
        assert groups[0] == 0
        for begin, end in pairwise([*groups, len(plan.program.steps)]):
            own = [page for page in pages if page.phase == begin]
            beside = [page for page in own if page.advice != "release"]
            done([page for page in own if page not in beside])
            read = set[int]()
            for step in plan.program.steps[begin:end]:
                for operand in step.operands:
                    if operand.base == "constants":
                        read |= pages_of(operand.offset, operand.offset + sizes[operand.offset], base)
            yield len(resident | read) * GRANULE  # the thread has not begun
            done(beside)
            resident |= read
            yield len(resident) * GRANULE


@pytest.mark.long
def test_no_more_than_the_limit_is_in_memory_in_any_order_of_networks(tmp_path: Path) -> None:
    library = planned(application(tmp_path, 'weights_resident = "1600 kB"'))
    paging = library.paging
    assert paging is not None and library.weight_bytes > 1_700_000
    assert paging.limit_bytes == 1_600_000 >= paging.resident_bytes == library.resident_weight_bytes
    assert 0 < paging.kept_bytes < paging.limit_bytes
    unread = library.weight_bytes - paging.kept_bytes
    assert unread <= paging.paged_bytes < unread + 10 * GRANULE
    for base in (0, PAGE, GRANULE - PAGE):
        for order in ([0, 1, 2, 0, 1], [2, 1, 0, 0, 2]):
            most = max(resident_in_each_phase(library, base, order))
            assert most <= paging.resident_bytes < 2 * most


@pytest.mark.long
def test_weights_within_the_limit_are_not_paged(tmp_path: Path) -> None:
    paging = planned(application(tmp_path, 'weights_resident = "4 MB"', networks=1)).paging
    assert paging is not None and paging.pages == ((),) and paging.paged_bytes == 0 == paging.time_ms


def test_a_layer_beyond_the_limit_is_named(tmp_path: Path) -> None:
    file = application(tmp_path, 'weights_resident = "500 kB"', networks=1)
    with pytest.raises(MavcgError, match="weights_resident = 500000 bytes: the layer '.*' of network 'net0' takes"):
        planned(file)


@pytest.mark.parametrize(
    ("head", "key"),
    [('parallel = [["detector", "tracker"]]', "parallel"), ("", "partitions"), ("", "period_ms")],
)
def test_networks_that_run_at_the_same_time_are_refused(head: str, key: str, tmp_path: Path) -> None:
    keys = {"partitions": 'partitions = ["c"]', "period_ms": "period_ms = 33"}.get(key, "")
    all_of = dict.fromkeys(("detector", "recogniser", "tracker"), keys)
    file = write_application(tmp_path, f'weights_resident = "1 MB"\n{head}', **all_of)
    with pytest.raises(MavcgError, match=f"weights_resident: .*{key} lets some run at the same time"):
        planned(file)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's files of mappings")
def test_a_library_keeps_the_limit_and_the_bits_on_this_machine(tmp_path: Path, mavcg: Mavcg) -> None:
    whole, paged = tmp_path / "libwhole.so", tmp_path / "libpaged.so"
    for output, head in ((whole, ""), (paged, 'weights_resident = "1600 kB"')):
        ended = mavcg("app", "build", application(tmp_path, head), "-o", output, *QUICK)
        assert ended.status == 0, ended.stderr
    x = np.random.default_rng(1).standard_normal((1, 3, SIDE, SIDE)).astype(np.float32)
    most, stop = [0], threading.Event()

    def watch() -> None:
        while not stop.is_set():
            most[0] = max(most[0], resident_bytes(paged))

    for threads in (1, 2):
        with load_application(whole, threads=threads) as one, load_application(paged, threads=threads) as other:
            watcher = threading.Thread(target=watch)
            watcher.start()
            try:
                for _ in range(20):
                    for name in ("net0", "net1", "net2"):
                        assert one[name].run(x)[0].tobytes() == other[name].run(x)[0].tobytes()
                        after = resident_bytes(paged)
                        assert 500_000 < after < MOST, "the last layer's weights stay until the next run"
            finally:
                stop.set()
                watcher.join()
                stop.clear()
    assert most[0] < MOST
    assert resident_bytes(whole) == 0  # closed


def resident_bytes(library: Path) -> int:
    """Bytes in memory of the read-only mappings of a library in this process."""
    total, counted = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0]:  # a mapping: addresses, rights, .., path
            counted = words[1].startswith("r--") and words[-1] == str(library)
        elif words[0] == "Rss:" and counted:
            total += int(words[1]) * 1024
    return total
