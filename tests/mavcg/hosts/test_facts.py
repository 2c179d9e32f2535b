"""Facts of this machine: caches from sysfs, what is measured and kept, and files that stand in for it."""

import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mavcg.hosts.facts
import mavcg.hosts.host
import mavcg.hosts.probe
from mavcg.cost.board_model import core_models
from mavcg.errors import MavcgError
from mavcg.hardware.board import Cluster
from mavcg.hosts.caches import Caches, processor_name, read_caches
from mavcg.hosts.facts import (
    CoreFacts,
    HostFacts,
    facts_json,
    facts_of,
    host_facts,
    probe_sizes,
    read_facts,
)
from mavcg.hosts.host import measured_host_board
from mavcg.hosts.probe import CHAIN, GROUP, clock_ghz, compile_probe, fma_gvectors_per_s, read_gb_per_s, written_memory
from mavcg.runtime.binding import DetectedCpu

FACTS = HostFacts(
    "A processor",
    (CoreFacts("znver3", (0, 1), 3200000, 32768, 524288, 1, 200.0, 90.5, 50.0, 20.0, 2.0),),
    33554432,
    40.0,
)
CLUSTERS = (Cluster("znver3", (0, 1)),)


def sysfs(root: Path, caches: Mapping[int, list[tuple[str, str, str, str]]], siblings: Mapping[int, str]) -> Path:
    """A folder with sys/: per CPU the level, type, size and shared_cpu_list of each cache."""
    for cpu, rows in caches.items():
        folder = root / f"sys/devices/system/cpu/cpu{cpu}"
        for index, row in enumerate(rows):
            (folder / f"cache/index{index}").mkdir(parents=True)
            for name, text in zip(("level", "type", "size", "shared_cpu_list"), row, strict=True):
                (folder / f"cache/index{index}/{name}").write_text(text + "\n")
    for cpu, listed in siblings.items():
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(listed + "\n")
    return root


def test_caches_with_what_shares_them(tmp_path: Path) -> None:
    rows = [
        ("1", "Data", "48K", "0-1"),
        ("1", "Instruction", "32K", "0-1"),
        ("2", "Unified", "2M", "0-3"),
        ("3", "Unified", "30720K", "0-7"),
    ]
    root = sysfs(tmp_path, {0: rows}, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"})
    assert read_caches(0, root) == Caches(49152, 2 << 20, 2, 30720 * 1024)


def test_without_siblings_each_cpu_is_a_core(tmp_path: Path) -> None:
    root = sysfs(tmp_path, {4: [("2", "Unified", "512K", "4-7")]}, {})
    assert read_caches(4, root) == Caches(l2_bytes=524288, l2_cores=4)


@pytest.mark.parametrize(
    "row",
    [
        ("2", "Unified", "", "0"),
        ("2", "Unified", "-1K", "0"),
        ("2", "Unified", "0K", "0"),
        ("2", "Unified", "512 KB", "0"),
        ("2", "Unknown", "512K", "0"),
        ("9", "Unified", "512K", "0"),
        ("", "", "", ""),
    ],
)
def test_cache_that_is_not_as_linux_writes_it_is_absent(tmp_path: Path, row: tuple[str, str, str, str]) -> None:
    assert read_caches(0, sysfs(tmp_path, {0: [row]}, {})) == Caches()


def test_sharing_that_is_not_listed_is_absent(tmp_path: Path) -> None:
    root = sysfs(tmp_path, {0: [("2", "Unified", "512K", "all")]}, {})
    assert read_caches(0, root) == Caches(l2_bytes=524288)
    assert read_caches(3, root) == Caches()


def test_processor_by_its_own_words(tmp_path: Path) -> None:
    assert processor_name(tmp_path) == ""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("model name\t: A CPU @ 3 GHz\nflags\t: fpu\nmodel name\t: A CPU @ 3 GHz\n")
    assert processor_name(tmp_path) == "A CPU @ 3 GHz"
    (tmp_path / "proc/cpuinfo").write_text("CPU implementer\t: 0x41\nCPU part\t: 0xd05\nCPU part\t: 0xd0b\n")
    assert processor_name(tmp_path) == "0x41 0xd05 0xd0b"


def test_facts_come_back_from_their_file(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text(facts_json(FACTS))
    assert read_facts(path) == FACTS
    assert facts_of({"clusters": [{"core": "x", "cpus": [3]}]}, "f") == HostFacts("", (CoreFacts("x", (3,)),))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clusters": None}, "clusters: null is not a list; write it as"),
        ({"clusters": [7]}, r"clusters\[0\]: 7 is not a table; correct"),
        ({"clusters": [{"cpus": [0]}]}, r"clusters\[0\].core: missing; give it as a name of"),
        ({"clusters": [{"core": "x", "cpus": [-1]}]}, r"clusters\[0\].cpus\[0\]: -1 is not a whole number from 0"),
        ({"clusters": [{"core": "x", "cpus": [True]}]}, r"cpus\[0\]: true is not a whole number from 0"),
        (
            {"clusters": [{"core": "x", "cpus": [0], "max_khz": 1.5}]},
            "max_khz: 1.5 is not a whole number above 0 and below 1e.15; correct it, or leave it out",
        ),
        ({"clusters": [{"core": "x", "cpus": [0], "l2_gb_per_s": 0}]}, "l2_gb_per_s: 0 is not a number above 0"),
        (
            {"clusters": [{"core": "x", "cpus": [0], "speed": 1}]},
            r"clusters\[0\].speed: no such key; keys here are core, cpus",
        ),
        ({"memory_gb_per_s": "12"}, 'memory_gb_per_s: "12" is not a number above 0'),
        ({"memory_gb_per_s": float("nan")}, r"not JSON \(NaN is not a number\)"),
        ({"l3_bytes": True}, "l3_bytes: true is not a whole number above 0"),
        ({"processor": 7}, "processor: 7 is not a string"),
        ({"l4_bytes": 7}, "l4_bytes: no such key"),
    ],
)
def test_broken_file_of_facts_names_the_key(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(json.loads(facts_json(FACTS)) | change))
    with pytest.raises(MavcgError, match=rf"^MAVCG_HOST_FACTS=.*facts.json: .*{words}"):
        read_facts(path)


@pytest.mark.parametrize("text", [None, "", "{", "[" * 100_000, "\udcff"])
def test_file_that_is_no_json_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "facts.json"
    if text is not None:
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(MavcgError, match=r"MAVCG_HOST_FACTS=.*: .*\(.*\); name a JSON file of facts, or unset it"):
        read_facts(path)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["clusters", "core", "cpus", "l3_bytes", "max_khz", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(junk)
def test_nothing_but_a_mavcg_error_leaves(document: object) -> None:
    try:
        facts = facts_of(document, "f")
    except MavcgError as error:
        assert ": " in str(error)
    else:
        assert all(cluster.core and cluster.cpus for cluster in facts.clusters)


def test_facts_are_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def measure(*_: object) -> HostFacts:
        calls.append(1)
        return FACTS

    monkeypatch.setattr(mavcg.hosts.facts, "measure", measure)
    monkeypatch.delenv("MAVCG_HOST_FACTS", raising=False)
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path))
    assert host_facts(CLUSTERS) == host_facts(CLUSTERS) == FACTS
    assert len(calls) == 1
    host_facts(CLUSTERS, again=True)
    host_facts((Cluster("znver3", (0,)),))  # other CPUs: other facts
    assert len(calls) == 3

    for kept in (tmp_path / "host").iterdir():
        kept.write_bytes(kept.read_bytes().replace(b"3200000", b"9200000"))
    assert host_facts(CLUSTERS) == FACTS and len(calls) == 4  # a damaged file counts as none

    monkeypatch.setenv("MAVCG_CACHE", "off")
    host_facts(CLUSTERS)
    host_facts(CLUSTERS)
    assert len(calls) == 6


def test_named_file_is_taken_in_place_of_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "facts.json"
    path.write_text(facts_json(FACTS))
    monkeypatch.setenv("MAVCG_HOST_FACTS", str(path))
    two = [DetectedCpu(cpu, "znver3", "") for cpu in range(2)]
    monkeypatch.setattr(mavcg.hosts.host, "detect", lambda: two)
    board = measured_host_board(again=True)
    figures = {"max_khz": 3200000, "l1d_bytes": 32768, "l2_bytes": 524288, "l2_cores": 1, "fma_per_cycle": 2.0}
    rates = {"l2_gb_per_s": 90.5, "l3_gb_per_s": 50.0, "memory_gb_per_s": 20.0}
    assert board.clusters == (Cluster("znver3", (0, 1), **figures, **rates),)  # type: ignore[arg-type]
    assert (board.l3_bytes, board.memory_gb_per_s) == (33554432, 40.0)
    (machine,) = core_models(board, cores=2)
    assert machine.assumed == ()
    assert [level.bandwidth_gb_per_s for level in machine.levels] == [90.5, 50.0, 20.0]

    monkeypatch.setattr(mavcg.hosts.host, "detect", lambda: [DetectedCpu(0, "haswell", "")])
    with pytest.raises(
        MavcgError, match="MAVCG_HOST_FACTS: the file has no cluster of haswell.*; it was made on another"
    ):
        measured_host_board()


def test_machine_that_nobody_knows_is_measured_as_generic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mavcg.hosts.host, "detect", lambda: [DetectedCpu(0, None, ""), DetectedCpu(1, None, "")])
    facts = HostFacts("", (CoreFacts("generic", (0, 1), 3000000, fma_per_cycle=2.0),))
    monkeypatch.setattr(mavcg.hosts.facts, "host_facts", lambda clusters, again: facts)
    board = measured_host_board()
    assert [(c.core, c.cpus, c.max_khz) for c in board.clusters] == [("generic", (0, 1), 3000000)]
    assert "is not a known core" in core_models(board)[0].assumed[0]


def test_this_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_CACHE", "off")
    monkeypatch.delenv("MAVCG_HOST_FACTS", raising=False)
    board = measured_host_board()
    for cluster in board.clusters:
        assert cluster.max_khz is not None and 300_000 < cluster.max_khz < 8_000_000
        assert cluster.fma_per_cycle is not None and 0.2 < cluster.fma_per_cycle < 8
        assert cluster.memory_gb_per_s is None or 0.2 < cluster.memory_gb_per_s < 500
    for machine in core_models(board):
        assert machine.macs_per_cycle >= 4


@pytest.mark.parametrize(("l2_kib", "l3_mib", "read_mib"), [(512, 32, 8), (2048, 480, 32), (1024, 8, 2)])
def test_of_level_3_a_few_times_level_2_are_read(l2_kib: int, l3_mib: int, read_mib: int) -> None:
    sizes = probe_sizes(Caches(48 << 10, l2_kib << 10, 1, l3_mib << 20), 1 << 28)
    assert sizes["l2"] == l2_kib << 9 and sizes["l3"] == read_mib << 20


def test_reading_loop_reads_all_of_the_memory() -> None:
    probe = compile_probe(32, 16)
    memory = np.zeros(8 * GROUP * 32 + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    groups = 8
    last_vector = start + groups * GROUP * 32 - 32
    assert probe.read(memory.ctypes.data + start, groups, 3) == 0
    for position in (start, start + 32 * 5, last_vector):
        memory[:] = 0
        memory[position] = 1 << (position % 7)
        assert probe.read(memory.ctypes.data + start, groups, 2) == 1 << (position % 7)
    memory[:] = 0
    memory[last_vector + 32 :] = 255
    assert probe.read(memory.ctypes.data + start, groups, 1) == 0


@pytest.mark.parametrize("iterations", [1, 2, 7])
def test_clock_loop_does_every_step(iterations: int) -> None:
    x = 3
    for _ in range(iterations * CHAIN // 2):
        x = ((x + 3) ^ 5) & (1 << 64) - 1
    assert compile_probe(32, 16).chain(iterations, 3, 5) == x - (1 << 64 if x >> 63 else 0)


def test_multiply_add_loop_does_every_step() -> None:
    probe = compile_probe(16, 16)
    bits = 0
    for start in range(1, probe.accumulators + 1):
        value = np.float32(start)
        for _ in range(5):
            value = np.float32(np.float64(value) * 0.5 + 0.25)  # exact in double, so rounded once as an fma is
        bits ^= int(value.view(np.uint32))
    assert probe.fma(5, 0.5, 0.25) == bits


def test_probes_agree_with_themselves() -> None:
    probe = compile_probe(16, 16)
    assert 0.1 < clock_ghz(probe) < 10
    assert 0.1 < fma_gvectors_per_s(probe) < 60
    assert read_gb_per_s(probe, written_memory(8192)) > 0.5


def test_bandwidth_is_that_of_the_undisturbed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of five runs take five times as long, as where a dozen processes take turns."""
    runs = itertools.count()
    monkeypatch.setattr(mavcg.hosts.probe, "_ns", lambda run, turns: turns * 1000 * (5 if next(runs) % 5 else 1))
    probe, memory = compile_probe(16, 16), written_memory(8192)
    read_bytes = (8192 - -memory.ctypes.data % 64) // (GROUP * 16) * GROUP * 16

    assert read_gb_per_s(probe, memory) == pytest.approx(read_bytes / 1000)


def test_host_board_alone_loads_neither_llvm_nor_numpy() -> None:
    code = "import sys, mavcg.hosts.host; print([name for name in ('llvmlite', 'numpy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
