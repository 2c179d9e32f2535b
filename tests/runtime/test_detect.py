"""Sources of the core table: sysfs, /proc/cpuinfo, hybrids; odd and broken files."""

import os
import platform
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.files.store import code_folder
from mavcg.hardware.core import Core, Midr, X86Model
from mavcg.runtime import binding
from mavcg.runtime.binding import Candidates, DetectedCpu, detect
from mavcg.runtime.coreset import CoreSet
from tests.conftest import examples, zig_cache

Build = Callable[..., Path]

LITTLE = Core("little", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05, 1), Midr(0x51, 0x805)))
OLD = Core("old", "aarch64", "in", "cortex-a53", "", (Midr(0x41, 0xD03), Midr(0x41, 0xD05, 0, 0)))
BIG = Core("big", "aarch64", "out", "cortex-a75", "", (Midr(0x41, 0xD0A, 2, 7),))
P_CORE = Core(
    "p", "x86_64", "out", "alderlake", "", x86_kind="core", x86_models=(X86Model("GenuineIntel", 6, (0x97, 0x9A)),)
)
E_CORE = Core(
    "e", "x86_64", "out", "gracemont", "", x86_kind="atom", x86_models=(X86Model("GenuineIntel", 6, (0x97, 0x9A)),)
)
ZEN = Core("zen", "x86_64", "out", "znver3", "", x86_models=(X86Model("AuthenticAMD", 0x19, tuple(range(16))),))
CORES = [LITTLE, OLD, BIG, P_CORE, E_CORE, ZEN]


def arm_block(cpu: int, midr: int) -> str:
    fields = (midr >> 24, midr >> 20 & 15, midr >> 4 & 0xFFF, midr & 15)
    return (
        f"processor\t: {cpu}\nBogoMIPS\t: 52.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x{fields[0]:02x}\n"
        f"CPU architecture: 8\nCPU variant\t: 0x{fields[1]:x}\nCPU part\t: 0x{fields[2]:03x}\n"
        f"CPU revision\t: {fields[3]}\n\n"
    )


def x86_block(cpu: int, vendor: str, family: int, model: int) -> str:
    identity = f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
    return f"processor\t: {cpu}\n{identity}model name\t: X 3000\n\n"


def cores_in(root: Path) -> list[str | None]:
    return [cpu.core for cpu in detect(root, CORES)]


def test_sysfs_wins_over_cpuinfo(board: Build) -> None:
    root = board("0-1", {0: 0x411FD050}, arm_block(0, 0x412FD0A1) + arm_block(1, 0x412FD0A1))

    assert detect(root, CORES) == [
        DetectedCpu(0, "little", "sysfs midr_el1 0x411fd050"),
        DetectedCpu(1, "big", "/proc/cpuinfo 0x412fd0a1"),
    ]


@settings(max_examples=examples(60, 8))
@given(
    st.lists(
        st.builds(
            lambda implementer, variant, part, low: implementer << 24 | variant << 20 | part << 4 | low,
            st.sampled_from([0x41, 0x51, 0x53, 0x00]),
            st.integers(0, 15),
            st.sampled_from([0xD03, 0xD05, 0xD0A, 0x805, 0xFFF]),
            st.sampled_from([0, 1, 0xF0000]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_rules_agree_with_the_core_files_own_reading(board: Build, midrs: list[int]) -> None:
    """The C matches as mavcg.hardware.core.Midr does, by either file."""

    def expected_core(midr: int) -> str | None:
        return next((core.name for core in CORES if any(rule.matches(midr) for rule in core.midr)), None)

    by_sysfs = cores_in(board(f"0-{len(midrs) - 1}", dict(enumerate(midrs))))
    by_cpuinfo = cores_in(board(None, None, "".join(arm_block(cpu, midr) for cpu, midr in enumerate(midrs))))

    assert by_sysfs == by_cpuinfo == [expected_core(midr) for midr in midrs]


@pytest.mark.parametrize(
    "text", ["", "0x\n", "hello\n", "0x411fd050 extra\n", "0x1234567890abcdef01\n", "0x0\n", "-5\n"]
)
def test_a_midr_file_that_is_no_number_counts_as_absent(board: Build, text: str) -> None:
    root = board("0", {0: 0x411FD050})
    (root / "sys/devices/system/cpu/cpu0/regs/identification/midr_el1").write_text(text)

    assert detect(root, CORES) == [DetectedCpu(0, None, "no source knows it")]


def test_a_shared_part_is_not_believed(board: Build) -> None:
    shared = (
        "Processor\t: AArch64\nprocessor\t: 0\nprocessor\t: 1\nFeatures\t: fp\n"
        + arm_block(9, 0x411FD050).split("\n", 3)[3]
    )

    assert detect(board(None, None, shared), CORES) == [
        DetectedCpu(0, None, "no source knows it"),
        DetectedCpu(1, None, "no source knows it"),
    ]


def test_many_cpus(board: Build) -> None:
    """Past the 1024 that most tables stop at, up to the 8192 of Linux; what is above that is left out."""
    root = board("0-1,1500,8191,8192-9000", {0: 0x411FD050, 1500: 0x412FD0A1, 8191: 0x412FD0A1})

    assert {cpu.cpu: cpu.core for cpu in detect(root, CORES)} == {0: "little", 1: None, 1500: "big", 8191: "big"}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-2\n", [0, 1, 2]),
        ("0", [0]),
        ("1,3", [1, 3]),
        ("3-1\n", []),
        ("", []),
        ("\n", []),
        ("x", []),
        ("0,,2", [0]),
        ("0-", []),
        (" 0 - 1 , 4 \n", [0, 1, 4]),
        (",".join(map(str, range(0, 1000, 2))), list(range(0, 1000, 2))),
        ("0-99999999999999999999", []),
        ("2-1,5", []),
        ("0-0000000000001", []),
    ],
)
def test_cpu_lists(board: Build, text: str, cpus: list[int]) -> None:
    root = board()
    (root / "sys/devices/system/cpu/present").write_text(text)

    assert [cpu.cpu for cpu in detect(root, CORES)] == cpus


def test_a_large_cpuinfo(board: Build) -> None:
    """More than one buffer's worth, lines across its ends, and lines longer than any that we know."""
    long_line = "Features\t: " + "x" * 5000 + "\n" + "y" * 5000 + "\n"
    text = long_line.join(arm_block(cpu, 0x411FD050 if cpu % 2 else 0x412FD0A1) for cpu in range(256))

    assert cores_in(board(None, None, text)) == ["big", "little"] * 128


def test_hybrid_lists(board: Build) -> None:
    root = board("0-3", None, "".join(x86_block(cpu, "GenuineIntel", 6, 0x9A) for cpu in range(4)))
    for name, cpus in {"core": "0-1", "atom": "2", "lowpower": "3"}.items():
        (root / f"sys/devices/cpu_{name}").mkdir()
        (root / f"sys/devices/cpu_{name}/cpus").write_text(f"{cpus}\n")

    assert cores_in(root) == ["p", "p", "e", "e"]


def test_a_hybrid_of_an_unknown_model_is_generic(board: Build) -> None:
    root = board("0", None, x86_block(0, "GenuineIntel", 6, 0xFF))
    (root / "sys/devices/cpu_core").mkdir()
    (root / "sys/devices/cpu_core/cpus").write_text("0\n")

    assert detect(root, CORES) == [DetectedCpu(0, None, "sysfs cpu type lists family 6 model 255")]


def test_x86_by_model(board: Build) -> None:
    known = board("0-1", None, x86_block(0, "AuthenticAMD", 25, 1) + x86_block(1, "AuthenticAMD", 25, 1))
    other = board("0", None, x86_block(0, "HygonGenuine", 25, 1))

    assert detect(known, CORES)[1] == DetectedCpu(1, "zen", "/proc/cpuinfo family 25 model 1")
    assert cores_in(other) == [None]


def test_this_machine_without_any_core_file() -> None:
    cpus = detect(cores=[LITTLE])

    assert [cpu.cpu for cpu in cpus] == list(range(len(cpus))) and len(cpus) >= (os.cpu_count() or 1)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="compares the CPUID bits of this machine")
def test_a_core_whose_instructions_are_masked_is_not_recognised() -> None:
    """As in a virtual machine of a Zen 4 without AVX-512; no processor has both of AMD's FMA4 and Intel's AMX."""
    vendor = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("vendor_id"))
    seen = next(cpu.how for cpu in detect(cores=[LITTLE]))
    family, model = map(int, re.findall(r"family (\d+) model (\d+)", seen)[0])
    models = (X86Model(vendor.split()[-1], family, (model,)),)
    there = Core("there", "x86_64", "out", "x86-64", "", x86_models=models)
    masked = replace(there, name="masked", llvm_features=("+fma4", "+amx-tile"))
    older = replace(there, name="older", x86_models=())
    newer = replace(masked, name="newer", stand_ins=("older",))
    newest = replace(masked, name="newest", stand_ins=("newer", "older"))

    assert {cpu.core for cpu in detect(cores=[there])} == {"there"}
    assert {cpu.core for cpu in detect(cores=[masked])} == {None}
    assert {cpu.core for cpu in detect(cores=[masked], cpu_map="*=masked")} == {"masked"}  # by its user's word
    assert {cpu.core for cpu in detect(cores=[newer, older])} == {"older"}
    assert {cpu.core for cpu in detect(cores=[older, replace(newer, x86_models=()), newest])} == {"older"}


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="is not a folder"):
        detect(tmp_path / "none")


@pytest.mark.long
def test_the_library_is_kept_in_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", zig_cache())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = binding.build_detector(Candidates(CoreSet((ZEN,))), code_folder())
    stamp = made.stat().st_mtime_ns

    assert made.parent == tmp_path / "mavcg" and [path.name for path in made.parent.iterdir()] == [made.name]
    assert (
        binding.build_detector(Candidates(CoreSet((ZEN,))), made.parent).stat().st_mtime_ns == stamp
    )  # not compiled again
    assert binding.build_detector(Candidates(CoreSet((ZEN, BIG))), made.parent) != made
    assert binding.build_detector(Candidates(CoreSet((ZEN,)), (ZEN,)), made.parent) != made


def test_a_relative_cache_home_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/folder")  # the specification says: must be absolute, else ignored

    assert code_folder() == Path.home() / ".cache/mavcg"


@pytest.fixture(scope="module")
def checked_detector(build_whole: Build) -> Path:
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1"]
    return build_whole("detect_all.c", CoreSet(tuple(CORES)), flags=flags, runtime=("detect",))


def spoilt(text: str) -> st.SearchStrategy[str]:
    """The text with some lines dropped, doubled, cut, or with a character changed."""

    def spoil(changes: list[tuple[int, int, str]]) -> str:
        lines = text.split("\n")
        for where, what, letter in changes:
            at = where % len(lines)
            line = lines[at]
            lines[at : at + 1] = [[], [line, line], [line[: where % (len(line) + 1)]], [line + letter], [letter * 300]][
                what
            ]
            lines = lines or [letter]
        return "\n".join(lines)

    letter = st.sampled_from(["\0", "\n", ":", "0x", "\t", "9", "é", "-", "processor\t: 0", "CPU part\t: 0xfffff"])
    return st.lists(st.tuples(st.integers(0, 999), st.integers(0, 4), letter), max_size=8).map(spoil)


SOUND = arm_block(0, 0x411FD050) + arm_block(1, 0x412FD0A1) + x86_block(2, "GenuineIntel", 6, 0x9A)


@pytest.mark.long
@settings(max_examples=examples(60, 8))
@given(st.lists(spoilt(SOUND) | st.text(max_size=400), min_size=1, max_size=8))
def test_broken_cpuinfo_under_sanitizers(checked_detector: Path, board: Build, texts: list[str]) -> None:
    roots = [board("0-3", None, text) for text in texts]
    done = subprocess.run([checked_detector, *roots], capture_output=True, text=True, timeout=300)

    assert done.returncode == 0 and done.stdout.count("ids ") == len(texts), done.stderr


@settings(max_examples=examples(60, 8))
@given(st.text(alphabet="0123456789-,=*al bigold\t;é", max_size=60))
def test_broken_maps_under_sanitizers(checked_detector: Path, tmp_path: Path, text: str) -> None:
    done = subprocess.run(
        [checked_detector, tmp_path], env=os.environ | {"MAP": text}, capture_output=True, timeout=300
    )

    assert done.returncode == 0, done.stderr
