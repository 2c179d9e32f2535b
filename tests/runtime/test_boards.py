"""The runtime's detection over the recorded boards, against what profiles/boards says of the same boards."""

from pathlib import Path

import pytest

from mavcg.hardware.core import Core
from mavcg.profiles.load import load_board, load_boards, load_core, load_cores
from mavcg.runtime.binding import DetectedCpu, detect

RECORDED = Path(__file__).parent.parent / "boards"
ARM_BOARDS = sorted(name for name, board in load_boards().items() if board.target.startswith("aarch64"))
# Trees without regs/identification: /proc/cpuinfo has to serve.
CPUINFO_ONLY = {"exynos8895", "kirin-970", "neoverse-n1-server", "raspberry-pi-5", "snapdragon-865"}


def arm_cores() -> list[Core]:
    return [core for core in load_cores().values() if core.arch == "aarch64"]


def by_cpu(found: list[DetectedCpu]) -> dict[int, str | None]:
    return {cpu.cpu: cpu.core for cpu in found}


def expected(name: str) -> dict[int, str | None]:
    return {cpu: cluster.core for cluster in load_board(name).clusters for cpu in cluster.cpus}


def test_every_board_is_recorded_and_says_its_source() -> None:
    trees = {path.name for path in RECORDED.iterdir() if path.is_dir()}

    assert set(load_boards()) == {name for name in trees if not name.startswith("odd-")}
    for name in trees:
        assert len((RECORDED / name / "SOURCE.md").read_text()) > 80, name
        assert (RECORDED / name / "proc/cpuinfo").is_file(), name


@pytest.mark.parametrize("name", ARM_BOARDS)
def test_board_is_recognised_among_all_cores(name: str) -> None:
    cpus = detect(RECORDED / name, arm_cores(), None)

    assert by_cpu(cpus) == expected(name)
    word = "cpuinfo" if name in CPUINFO_ONLY else "midr_el1"
    assert all(word in cpu.how for cpu in cpus)


@pytest.mark.parametrize("name", ARM_BOARDS)
def test_cpuinfo_alone_says_the_same(name: str, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_bytes((RECORDED / name / "proc/cpuinfo").read_bytes())
    present = tmp_path / "sys/devices/system/cpu/present"
    present.parent.mkdir(parents=True)
    present.write_bytes((RECORDED / name / "sys/devices/system/cpu/present").read_bytes())

    assert by_cpu(detect(tmp_path, arm_cores(), None)) == expected(name)


def test_alder_lake_is_told_apart_by_its_lists_among_all_cores() -> None:
    """Three cores are of kind "core" and two of kind "atom": the processor's model says which of them."""
    cores = [core for core in load_cores().values() if core.arch == "x86_64"]

    cpus = detect(RECORDED / "alder-lake", cores, None)

    assert by_cpu(cpus) == expected("alder-lake")
    assert all("lists" in cpu.how for cpu in cpus)


def test_a_core_that_is_not_asked_for_is_not_named() -> None:
    found = by_cpu(detect(RECORDED / "rk3588", [load_core("cortex-a76")], None))

    assert [found[cpu] for cpu in (4, 5, 6, 7)] == ["cortex-a76"] * 4
    assert {found[cpu] for cpu in (0, 1, 2, 3)} == {None}


def test_cpu_map_comes_before_what_the_board_says() -> None:
    found = {cpu.cpu: cpu for cpu in detect(RECORDED / "rk3399", arm_cores(), "0=cortex-a55")}

    assert found[0].core == "cortex-a55" and "MAVCG_CPU_MAP" in found[0].how
    assert found[4].core == "cortex-a72" and "midr_el1" in found[4].how


def test_cpus_that_are_off_are_left_open() -> None:
    found = by_cpu(detect(RECORDED / "odd-hotplug", arm_cores(), None))

    assert [found[cpu] for cpu in range(6)] == ["cortex-a55"] * 4 + ["cortex-a76"] * 2
    assert {found.get(cpu) for cpu in (6, 7)} == {None}


def test_one_part_for_all_cpus_is_believed_of_none() -> None:
    """Linux 3.10 prints the part of the CPU that reads the file: no word on the others (tests/boards/odd-one-part)."""
    found = by_cpu(detect(RECORDED / "odd-one-part", arm_cores(), None))

    assert set(found.values()) <= {None}


def test_unknown_implementer_runs_generic() -> None:
    cpus = detect(RECORDED / "odd-unknown-implementer", arm_cores(), None)

    assert by_cpu(cpus) == dict.fromkeys(range(4), None)


def test_a55_revisions_are_two_cores() -> None:
    r0 = by_cpu(detect(RECORDED / "exynos9810", arm_cores(), None))
    r1 = by_cpu(detect(RECORDED / "exynos9820", arm_cores(), None))

    assert (r0[0], r1[0]) == ("cortex-a55-r0", "cortex-a55")
