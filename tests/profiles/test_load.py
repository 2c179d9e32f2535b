"""The loader: what it reads, what it refuses, and that each refusal names file, key and remedy."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError, ProfileError
from mavcg.hardware.core import Fact, Midr, X86Model
from mavcg.profiles.board_files import parse_cpus, read_board
from mavcg.profiles.core_files import read_core
from mavcg.profiles.load import cores_for, load_board, load_boards, load_core, load_cores
from tests.conftest import examples

CORE = """
name = "mine"
arch = "aarch64"
description = "My core"
order = { value = "in", source = "its manual" }
midr = [{ implementer = 0x99, part = 0x123, variant_min = 1, variant_max = 3, source = "its manual" }]
stand_ins = { value = ["cortex-a53"], source = "its manual" }
extensions = { value = ["crc", "lse"], source = "its manual" }

[llvm]
cpu = "cortex-a53"
tune = "cortex-a55"
features = ["+crc"]
source = "its manual"

[issue]
width = { value = 2, unit = "instr/cycle", source = "its manual" }

[instr."fmla v.4s"]
latency = { value = 4, unit = "cycles", source = "measured" }
"""
BOARD = """
name = "my-board"
soc = "My SoC"
target = "aarch64-linux-gnu.2.17"
source = "its manual"
l3_bytes = { value = 2097152, source = "its manual" }
memory_gb_per_s = { value = 12.8, source = "its memory's data sheet" }

[[clusters]]
core = "cortex-a53"
cpus = "0-2,5"
max_khz = { value = 1400000, source = "its manual" }
memory_gb_per_s = { value = 4, source = "measured" }
l3_gb_per_s = { value = 7.5, source = "measured" }
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def test_core_is_read_whole(tmp_path: Path) -> None:
    core = read_core(written(tmp_path, "mine", CORE))

    assert (core.name, core.arch, core.order, core.description) == ("mine", "aarch64", "in", "My core")
    assert core.midr == (Midr(0x99, 0x123, 1, 3),)
    assert (core.llvm_cpu, core.llvm_tune, core.llvm_features) == ("cortex-a53", "cortex-a55", ("+crc",))
    assert core.stand_ins == ("cortex-a53",)
    assert core.facts == (
        Fact("issue.width", 2, "instr/cycle", "its manual"),
        Fact("instr.fmla v.4s.latency", 4, "cycles", "measured"),
    )
    assert dict(core.sources) == {key: "its manual" for key in ("order", "midr[0]", "stand_ins", "extensions", "llvm")}
    assert core.extensions == ("crc", "lse")


def test_board_is_read_whole(tmp_path: Path) -> None:
    board = read_board(written(tmp_path, "my-board", BOARD))

    assert (board.name, board.soc, board.target) == ("my-board", "My SoC", "aarch64-linux-gnu.2.17")
    assert board.clusters[0].cpus == (0, 1, 2, 5)
    assert (board.clusters[0].max_khz, board.clusters[0].l2_bytes, board.l3_bytes) == (1400000, None, 2097152)
    assert (board.core_of_cpu(5), board.core_of_cpu(3)) == ("cortex-a53", None)
    assert dict(board.sources)["clusters[0].max_khz"] == "its manual"
    assert (board.memory_gb_per_s, board.clusters[0].memory_gb_per_s) == (12.8, 4.0)
    assert (board.clusters[0].l2_gb_per_s, board.clusters[0].l3_gb_per_s) == (None, 7.5)
    assert dict(board.sources)["memory_gb_per_s"] == "its memory's data sheet"


MODEL_9 = '{ value = 9, unit = "percent"'


@pytest.mark.parametrize(
    ("old", "new", "key", "remedy"),
    [
        ('order = { value = "in", source = "its manual" }', "", "order", "say order ="),
        ("[llvm]", f"[model]\nerror = {MODEL_9} }}\n[llvm]", "model.error", "add one or remove the fact"),
        (
            "[llvm]",
            f'[model]\nerror = {MODEL_9}, source = "x" }}\n[llvm]'.replace("9,", "-9,"),
            "model.error",
            "0 or more",
        ),
        ("[llvm]", f'[model]\nmean = {MODEL_9}, source = "x" }}\n[llvm]', "model.mean", "rename or remove it"),
        ('order = { value = "in", source = "its manual" }', 'order = "in"', "order", "write order ="),
        ('value = "in", source = "its manual"', 'value = "in"', "order", "add one or remove the fact"),
        ('value = "in", source = "its manual"', 'value = "in", source = " "', "order", "add one or remove the fact"),
        ('value = "in"', 'value = "sideways"', "order", "give one of in, out"),
        ('arch = "aarch64"', 'arch = "mips"', "arch", "give one of aarch64, x86_64"),
        ('name = "mine"', 'name = "yours"', "name", 'write name = "mine" or rename the file'),
        ('description = "My core"', "", "description", 'give it as description = "..."'),
        ("implementer = 0x99", "implementer = 0x199", "midr[0].implementer", "0x0 to 0xff"),
        ("part = 0x123", 'part = "0x123"', "midr[0].part", "give part as a number"),
        ("variant_max = 3", "variant_max = 0", "midr[0]", "swap them"),
        ('value = ["crc", "lse"]', 'value = "crc"', "extensions", 'write it as ["...", "..."]'),
        ("variant_max = 3", "varient_max = 3", "midr[0].varient_max", "did you mean variant_max?"),
        (', source = "its manual" }]', " }]", "midr[0]", "add one or remove the fact"),
        ('features = ["+crc"]', 'features = ["crc"]', "llvm.features", 'write "+crc" or "-crc"'),
        ('features = ["+crc"]\nsource = "its manual"', "", "llvm", "add one or remove the fact"),
        ('unit = "instr/cycle", ', "", "issue.width", "add one, such as unit"),
        ('unit = "cycles", source = "measured"', 'unit = "cycles"', "instr.fmla v.4s.latency", "add one or remove"),
        ("width = { value = 2, unit", "width = { unit", "issue.width", "no value; add one or remove the fact"),
        ('{ value = 2, unit = "instr/cycle", source = "its manual" }', "2", "issue.width", "write width ="),
        ('arch = "aarch64"', 'arch = "aarch64"\nlatency = 3', "latency", "keys here are"),
        ('arch = "aarch64"', 'arch = "x86_64"', "midr", "remove it or correct arch"),
    ],
)
def test_faulty_core_is_refused(tmp_path: Path, old: str, new: str, key: str, remedy: str) -> None:
    assert old in CORE
    path = written(tmp_path, "mine", CORE.replace(old, new, 1))

    with pytest.raises(ProfileError) as caught:
        read_core(path)

    message = str(caught.value)
    assert message.startswith(f"{path}: {key}: ") and remedy in message and "\n" not in message


@pytest.mark.parametrize(
    ("old", "new", "key", "remedy"),
    [
        ('cpus = "0-2,5"', 'cpus = "2-0"', "clusters[0].cpus", "write it as the kernel does"),
        ('cpus = "0-2,5"', 'cpus = "all"', "clusters[0].cpus", "write it as the kernel does"),
        ('cpus = "0-2,5"', 'cpus = "0-2,2"', "clusters", "give each CPU to one cluster"),
        ('source = "its manual"\nl3', "l3", "source", "add one or remove the fact"),
        ("value = 1400000, source", 'value = "1.4 GHz", source', "clusters[0].max_khz", "give max_khz as a number"),
        ("value = 1400000", "value = 0", "clusters[0].max_khz", "in that range"),
        ("value = 12.8", "value = -1", "memory_gb_per_s", "-1 is not a number of 10^9 bytes a second"),
        ("value = 12.8", "value = 12800", "memory_gb_per_s", "at most 2000"),
        ("value = 4,", "value = true,", "clusters[0].memory_gb_per_s", "such as 12.8, or remove the fact"),
        ("value = 4,", 'value = "4 GB/s",', "clusters[0].memory_gb_per_s", "such as 12.8, or remove the fact"),
        ("max_khz = {", "l3_bytes = {", "clusters[0].l3_bytes", "give the one or the other"),
        ("value = 7.5", "value = nan", "clusters[0].l3_gb_per_s", "NaN is not a number"),
        ("value = 7.5", "value = inf", "clusters[0].l3_gb_per_s", "Infinity is not a number"),
        ('{ value = 7.5, source = "measured" }', "7.5", "clusters[0].l3_gb_per_s", "write l3_gb_per_s = { value"),
        ('value = 4, source = "measured"', "value = 4", "clusters[0].memory_gb_per_s", "no source; add one"),
        ('target = "aarch64-linux-gnu.2.17"', 'target = "arm-linux"', "target", "give ARCH-SYSTEM"),
        ("[[clusters]]", "[[cluster]]", "cluster", "did you mean clusters?"),
        ("max_khz =", "max_mhz =", "clusters[0].max_mhz", "did you mean max_khz?"),
    ],
)
def test_faulty_board_is_refused(tmp_path: Path, old: str, new: str, key: str, remedy: str) -> None:
    assert old in BOARD
    path = written(tmp_path, "my-board", BOARD.replace(old, new, 1))

    with pytest.raises(ProfileError) as caught:
        read_board(path)

    message = str(caught.value)
    assert message.startswith(f"{path}: {key}: ") and remedy in message and "\n" not in message


def test_what_is_no_toml_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "mine", CORE.replace('"aarch64"', "aarch64", 1))

    with pytest.raises(ProfileError, match=rf"^{path}: not TOML \(.*line 3.*\); correct the file or remove it$"):
        read_core(path)


def test_board_without_clusters_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "my-board", BOARD.split("[[")[0])

    with pytest.raises(ProfileError, match=r"clusters: missing; add \[\[clusters\]\]"):
        read_board(path)


def test_generic_is_no_core_file(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="generic is taken"):
        read_core(written(tmp_path, "generic", CORE.replace('"mine"', '"generic"')))


def test_x86_models_take_numbers_and_ranges() -> None:
    znver2 = load_core("znver2")

    assert znver2.x86_models[0].models[:3] == (0x30, 0x31, 0x32)
    assert znver2.x86_models[0].matches("AuthenticAMD", 0x17, 0x71)
    assert not znver2.x86_models[0].matches("GenuineIntel", 0x17, 0x71)
    assert X86Model("GenuineIntel", 6, (0x97,)).matches("GenuineIntel", 6, 0x97)


def test_user_folder_adds_and_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cores").mkdir()
    written(tmp_path / "cores", "mine", CORE)
    written(tmp_path / "cores", "cortex-a53", CORE.replace('"mine"', '"cortex-a53"', 1))
    before = load_cores()
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    after = load_cores()

    assert set(after) == set(before) | {"mine"}
    assert after["cortex-a53"].description == "My core"
    assert list(after) == sorted(after)


@pytest.mark.parametrize("make", [lambda p: p / "nowhere", lambda p: p])
def test_user_folder_without_profiles_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: "type[Path]"
) -> None:
    monkeypatch.setenv("MAVCG_PROFILES", str(make(tmp_path)))

    with pytest.raises(ProfileError, match="MAVCG_PROFILES: .*; "):
        load_cores()


def test_cores_for_keeps_the_order_given() -> None:
    assert [core.name for core in cores_for(["exynos-m4", "cortex-a55"])] == ["exynos-m4", "cortex-a55"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["cortex-a5"], "--cores cortex-a5: no such core; did you mean cortex-a"),
        (["Cortex_A55"], "did you mean cortex-a55"),
        (["qqq"], "--cores qqq: no such core; `mavcg cores` lists them"),
        (["cortex-a55", "cortex-a55"], "cortex-a55 named twice; name each core once"),
        (["cortex-a55", "znver3"], "cortex-a55 is aarch64, znver3 is x86_64; build one library for each"),
        (["cortex-a55", "generic"], "leave it out"),
        ([], "no core named"),
        ([""], "no core named"),
    ],
)
def test_cores_for_refuses(names: list[str], said: str) -> None:
    with pytest.raises(MavcgError) as caught:
        cores_for(names)

    assert said in str(caught.value)


def test_unknown_board_names_the_near_ones() -> None:
    with pytest.raises(MavcgError, match="--board exynos9280: no such board; did you mean exynos9820"):
        load_board("exynos9280")


def test_every_board_is_built_of_loadable_cores() -> None:
    for board in load_boards().values():
        assert [core.name for core in cores_for(board.cores)] == list(board.cores)


@given(st.sets(st.integers(0, 8191), min_size=1))
@settings(max_examples=examples(50, 6))
def test_parse_cpus_undoes_the_kernel_list(cpus: set[int]) -> None:
    assert set(parse_cpus(",".join(str(cpu) for cpu in sorted(cpus)))) == cpus


@given(st.text(alphabet="0123456789,- x\n", max_size=12))
@settings(max_examples=examples(200, 8))
def test_parse_cpus_gives_numbers_or_value_error(text: str) -> None:
    try:
        cpus = parse_cpus(text)
    except ValueError:
        return
    assert cpus and all(cpu >= 0 for cpu in cpus)


@given(st.text(max_size=60))
@settings(max_examples=examples(100, 5))
def test_any_text_is_a_core_or_a_profile_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "mine.toml"
    path.write_text(text, encoding="utf-8", newline="")

    with pytest.raises(ProfileError):
        read_core(path)
