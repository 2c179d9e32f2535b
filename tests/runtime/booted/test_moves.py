"""Eight CPUs of three kinds on a booted kernel: threads are moved, suspended and frozen, and no bit changes."""

import re

import pytest

from tests.runtime.booted.machine import Lacking, Ran, bits, versions
from tests.runtime.booted.moves import KINDS, boot_eight, machine_files

pytestmark = pytest.mark.long

SCRIPT = ("/move migrate 2000", "/move suspend 30", "/move cpuset 2", "/move freeze 8")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """What each line of the script printed."""
    pytest.importorskip("onnx", reason="the example writes an ONNX file")
    folder = tmp_path_factory.mktemp("moves")
    script = ["/move frequency", *(f"MAVCG_TRACE=1 /work on {cpu}" for cpu in KINDS), *SCRIPT]
    try:
        return boot_eight(machine_files(folder), script, folder, 1200)
    except Lacking as error:
        pytest.skip(str(error))


def test_each_kind_runs_its_own_version(ran: dict[str, Ran]) -> None:
    for cpu, core in KINDS.items():
        assert versions(ran[f"MAVCG_TRACE=1 /work on {cpu}"]) == {core}


@pytest.mark.parametrize("line", SCRIPT)
def test_threads_compute_the_same_bits_meanwhile(ran: dict[str, Ran], line: str) -> None:
    """Every result is compared with the first, by the program; and the first ones are those of each kind."""
    each = ran[line]
    assert each.status == 0, each
    did = [int(match[1]) for text in each.lines if (match := re.match(r"thread \d did (\d+)$", text))]
    assert len(did) == 3 and all(did)
    assert {bits(each)} == {bits(ran[f"MAVCG_TRACE=1 /work on {cpu}"]) for cpu in KINDS}


def test_counts(ran: dict[str, Ran]) -> None:
    said = {text for line in SCRIPT for text in ran[line].lines}
    assert said >= {"moved 2000", "suspended 30", "sets 12", "frozen 8"}


def test_the_machine_has_no_frequencies_to_change(ran: dict[str, Ran]) -> None:
    """Where this fails, QEMU has learnt it, and the page and this test want a change of frequency."""
    assert ran["/move frequency"].lines == ("cpufreq 0",)
