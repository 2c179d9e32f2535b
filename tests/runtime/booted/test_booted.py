"""Libraries on a real kernel: sysfs, rseq, getcpu, HWCAP and CPUs that go off and come back while threads work.

QEMU gives all CPUs of a machine the same type, so a mix of cores is made by putting other MIDRs in their places in
sysfs (a bind mount of a file, see init.c), and several machines are booted.
"""

import re
from pathlib import Path

import pytest

from tests.runtime.booted.machine import A53, A55, A76, Lacking, Ran, bits, boot, libraries, midr_files, versions

LITTLE = (0, 1)  # CPUs that say in sysfs that they are A55s

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes | Path]:
    """A program library and a model library by the command line, and what uses them."""
    pytest.importorskip("onnx", reason="the example writes an ONNX file")
    return libraries(tmp_path_factory.mktemp("booted"), "cortex-a55,cortex-a76", ["init", "work"], "static")


def booted(cpu: str, cpus: int, files: dict[str, bytes | Path], script: list[str], folder: Path) -> dict[str, Ran]:
    try:
        return {each.line: each for each in boot(cpu, cpus, files, script, folder)}
    except Lacking as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def mixed(files: dict[str, bytes | Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Four A76, two of which say that they are A55: what each line of the script printed."""
    midrs = midr_files(dict.fromkeys(LITTLE, A55))
    script = ["/work facts", *(f"MAVCG_TRACE=1 /work on {cpu}" for cpu in range(4))]
    script += [
        "MAVCG_CPU_MAP=all=generic /work on 2",
        "MAVCG_CPU_MAP=0-1=cortex-a76,2-3=cortex-a55 MAVCG_TRACE=1 /work on 3",
        "MAVCG_TRACE=1 /work late 3",
        "/work hotplug 12",
        "MAVCG_TRACE=1 /work hotplug 3",
    ]
    return booted("cortex-a76", 4, files | midrs, script, tmp_path_factory.mktemp("mixed"))


def test_everything_ends_well(mixed: dict[str, Ran]) -> None:
    assert len(mixed) == 10
    assert not [ran for ran in mixed.values() if ran.status]


def test_the_kernel_says_what_the_selector_looks_at(mixed: dict[str, Ran]) -> None:
    lines = mixed["/work facts"].lines

    assert lines[0] == "cpus 4 cpuid 1 rseq 1"
    assert lines[1:] == tuple(f"cpu{cpu} mrs 0x{A76:x}" for cpu in range(4))


def test_each_cpu_runs_the_version_for_its_midr_in_sysfs(mixed: dict[str, Ran]) -> None:
    for cpu in range(4):
        ran = mixed[f"MAVCG_TRACE=1 /work on {cpu}"]
        assert versions(ran) == {"cortex-a55" if cpu in LITTLE else "cortex-a76"}, ran


def test_every_version_gives_the_same_bits(mixed: dict[str, Ran]) -> None:
    found = {bits(ran) for line, ran in mixed.items() if " on " in line or line == "/work hotplug 12"}

    assert len(found) == 1
    assert versions(mixed["MAVCG_CPU_MAP=0-1=cortex-a76,2-3=cortex-a55 MAVCG_TRACE=1 /work on 3"]) == {"cortex-a55"}


def test_a_cpu_that_comes_late_is_recognised(mixed: dict[str, Ran]) -> None:
    ran = mixed["MAVCG_TRACE=1 /work late 3"]

    assert "late ok" in ran.lines
    assert "mavcg: total cortex-a76 6" in ran.lines, ran  # one before


@pytest.mark.parametrize("line", ["/work hotplug 12", "MAVCG_TRACE=1 /work hotplug 3"])
def test_cpus_go_off_and_come_back_while_threads_work(mixed: dict[str, Ran], line: str) -> None:
    """Every result is compared with the first, by the program."""
    ran, rounds = mixed[line], int(line.split()[-1])
    done = [int(match[1]) for each in ran.lines if (match := re.match(r"thread \d did (\d+)$", each))]

    assert f"switched {rounds * 2 * 3}" in ran.lines
    assert len(done) == 3 and all(done)
    assert versions(ran) <= {"cortex-a55", "cortex-a76"}


def test_another_kind_of_cpu(files: dict[str, bytes | Path], tmp_path: Path) -> None:
    """An A53, which is in no set of the libraries' versions and has no dot product: it runs what it can."""
    ran = booted("cortex-a53", 2, files, ["/work facts", "MAVCG_TRACE=1 /work on 1", "/work hotplug 2"], tmp_path)

    assert ran["/work facts"].lines[1:] == tuple(f"cpu{cpu} mrs 0x{A53:x}" for cpu in range(2))
    assert not [each for each in ran.values() if each.status]
    assert versions(ran["MAVCG_TRACE=1 /work on 1"]) <= {"generic", "cortex-a55"}
