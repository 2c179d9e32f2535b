"""MAVCG_CPU_MAP, against a reader of the same grammar written in Python."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.hardware.core import Core, Midr
from mavcg.runtime.binding import detect
from tests.conftest import examples

Build = Callable[..., Path]

CPUS = 8
CORES = [Core(name, "aarch64", "in", name, "") for name in ("cortex-a55", "cortex-a75", "a")]
NAMES = {core.name for core in CORES} | {"generic"}
LIMIT = 8191


def reference(text: str) -> dict[int, str] | None:
    """CPU number -> core of CPUs 0..CPUS-1; None for a map with a fault."""
    named: dict[int, str] = {}
    rest: str | None = None
    waiting: list[range | None] = []
    for entry in text.split(","):
        match = re.fullmatch(r"[ \t]*(?:(\*|all)|(\d+)(?:[ \t]*-[ \t]*(\d+))?)[ \t]*(?:=[ \t]*([^,]*?))?[ \t]*", entry)
        if not match:
            return None
        every, first, last, core = match.groups()
        if not every and not int(first) <= int(last or first) <= LIMIT:
            return None
        waiting.append(None if every else range(int(first), int(last or first) + 1))
        if core is not None:
            if core not in NAMES:
                return None
            for cpus in waiting:
                if cpus is None:
                    rest = core
                else:
                    named |= {cpu: core for cpu in range(CPUS) if cpu in cpus}
            waiting = []
    if waiting:
        return None
    return ({cpu: rest for cpu in range(CPUS)} if rest else {}) | named


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    (folder / "sys/devices/system/cpu").mkdir(parents=True)
    (folder / "sys/devices/system/cpu/present").write_text(f"0-{CPUS - 1}\n")
    return folder


def found(root: Path, text: str) -> dict[int, str] | None:
    try:
        cpus = detect(root, CORES, text)
    except MavcgError as error:
        assert "MAVCG_CPU_MAP: '" in str(error)
        return None
    assert all(cpu.how == "MAVCG_CPU_MAP" for cpu in cpus if cpu.core)
    return {cpu.cpu: cpu.core for cpu in cpus if cpu.core}


blanks = st.sampled_from(["", "", "", " ", "\t "])
numbers = st.integers(0, 9).map(str) | st.sampled_from(["007", "8191", "8192", "99999999999999999999", "-1", "0x1"])
cpus = st.sampled_from(["all", "*"]) | numbers | st.builds("{}{}-{}".format, numbers, blanks, numbers)
names = st.sampled_from([*sorted(NAMES), "cortex-a5", "cortex-a555", "", "Generic"])
entries = st.builds("{}{}{}={}{}".format, blanks, cpus, blanks, blanks, names) | cpus
maps = st.lists(entries, min_size=1, max_size=5).map(",".join)
garbage = st.text(alphabet="0123456789-,=*al cortex5\t;é", min_size=1, max_size=24)


@settings(max_examples=examples(400, 19))
@given(maps | garbage)
@example("0-3=cortex-a55,4-5=cortex-a75,6,7=a")
@example("0=a,*=generic")
@example("1=a,1=cortex-a55")
@example("*,0=a")
@example("alla=a")
@example("0 = cortex-a75 , 1\t=a ")
@example("0=a ,")
def test_agrees_with_the_reference(root: Path, text: str) -> None:
    assert found(root, text) == reference(text)


@pytest.mark.parametrize(
    ("text", "part", "words"),
    [
        ("0=a,1=cortex-a5", "1=cortex-a5", "names a core that is not known here"),
        ("0=a,5-3=a", "5-3=a", "is not a range of CPU numbers"),
        ("0=a,9000=a", "9000=a", "has a CPU number above 8191"),
        ("0=a,,1=a", "", "does not start with CPU numbers, all or *"),
        ("0=a, 2:a ,1=a", "2:a", "is not CPUS=CORE"),
        ("0=a,2", "2", "has no =CORE"),
        ("0=", "0=", "names no core"),
    ],
)
def test_the_message_names_the_bad_part(root: Path, text: str, part: str, words: str) -> None:
    with pytest.raises(MavcgError) as error:
        detect(root, CORES, text)

    assert f"MAVCG_CPU_MAP: '{part}' {words}; write CPUS=CORE" in str(error.value)


def test_what_the_map_leaves_out_is_detected(board: Build) -> None:
    little = Core("little", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05),))
    root = board("0-1", {0: 0x411FD050, 1: 0x411FD050})
    cpus = detect(root, [little, CORES[1]], "1=cortex-a75")

    assert [(cpu.core, cpu.how) for cpu in cpus] == [
        ("little", "sysfs midr_el1 0x411fd050"),
        ("cortex-a75", "MAVCG_CPU_MAP"),
    ]
