"""What a library's notes say, read back: growth by hand, several modules, one runtime or two, garbled notes."""

from pathlib import Path
from typing import Any

import pytest

from mavcg.cli.inspect import InspectOptions, run_inspect
from mavcg.errors import MavcgError
from mavcg.objects.elf import note_assembly
from mavcg.objects.inspection import growth_percent, inspect_library
from mavcg.program.version_symbols import read_library
from mavcg.toolchain.codegen import assemble
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig


def module(name: str, single: int, multi: int, **more: Any) -> dict[str, Any]:
    versions = [{"core": "generic", "bytes": 8, "shares_body_with": None}]
    functions = [{"name": name, "versions": versions, "dropped": []}]
    return {
        "source": f"{name}.c",
        "functions": functions,
        "refused": {},
        "single_bytes": single,
        "multi_bytes": multi,
    } | more


def library(folder: Path, *documents: Any) -> Path:
    """An object that holds these notes and 1000 bytes of code."""
    code = "\t.text\n\t.globl f\nf:\n\t.zero 1000\n"
    parts = [folder / f"{number}.o" for number in range(len(documents) + 1)]
    assemble(code, parts[0], host_target(), "code")
    for part, document in zip(parts[1:], documents, strict=True):
        assemble(note_assembly(document), part, host_target(), "a note")
    run_zig("ld.lld", ["-r", *map(str, parts), "-o", str(folder / "all.o")], "linking")
    return folder / "all.o"


def test_growth_is_the_extra_over_the_rest() -> None:
    assert growth_percent([], 0, 1000) == 0
    assert growth_percent([module("f", 100, 150)], 50, 1100) == pytest.approx(10)
    assert growth_percent([module("f", 100, 150), module("g", 10, 10)], 0, 160) == pytest.approx(100 * 50 / 110)
    # An object of launch's: linking versions and selector to one saves some bytes.
    assert growth_percent([module("f", 208, 1274)], 3210, 4176) == pytest.approx(100 * (1274 - 208 + 3210) / 208)
    assert growth_percent([module("f", 0, 10)], 0, 10) == 1000  # nothing else in it: a figure, not an error


def test_modules_are_read_in_link_order(tmp_path: Path) -> None:
    runtime = {"core_set": "abc", "runtime_bytes": 100}
    notes = [module("f", 300, 400, refused={"v": "variadic"}), module("g", 100, 100), runtime]
    inspection = inspect_library(library(tmp_path, *notes))
    assert [f["name"] for f in inspection.functions] == ["f", "g"]
    assert inspection.refused == {"v": "variadic"}
    assert (inspection.runtime_bytes, inspection.loaded_bytes) == (100, 1000)
    assert inspection.growth_percent == pytest.approx(100 * 200 / 800)
    assert inspection.as_json()["growth_percent"] == 25.0


def test_a_runtime_that_several_objects_bring_counts_once(tmp_path: Path) -> None:
    runtimes = [{"core_set": name, "runtime_bytes": 100} for name in ("abc", "abc", "def")]
    assert inspect_library(library(tmp_path, module("f", 1, 2), *runtimes)).runtime_bytes == 200
    parts = [{"runtime": {"selector": 900, name: 100}} for name in ("abc", "abc", "def")]
    assert inspect_library(library(tmp_path, module("f", 1, 2), *parts)).runtime_bytes == 1100


@pytest.mark.parametrize(
    "document", [{"functions": []}, {"functions": 3, "refused": {}}, {"core_set": "a"}, {"core_set": [], "x": 1}]
)
def test_notes_that_are_not_ours_are_refused(tmp_path: Path, document: Any) -> None:
    with pytest.raises(MavcgError, match=r"all.o: a damaged ELF file \(.*\); build it again"):
        inspect_library(library(tmp_path, document))


def test_a_note_that_is_no_json(tmp_path: Path) -> None:
    path = library(tmp_path, module("f", 1, 2))
    path.write_bytes(path.read_bytes().replace(b'"functions"', b"'functions'"))
    with pytest.raises(MavcgError, match="all.o: its .note.mavcg is damaged"):
        inspect_library(path)


@pytest.mark.parametrize(
    "note",
    [
        {"functions": [{}], "refused": {}},
        {"functions": 3, "refused": {}},
        {"functions": [{"name": "f", "versions": [{"core": "cortex-a55"}], "dropped": []}], "refused": {}},
        {"functions": [{"name": "f", "versions": [], "dropped": [3]}], "refused": []},
        {"model": "a"},
        {"blas": 1},
        {"application": "a", "networks": [3]},
    ],
)
def test_notes_that_no_mavcg_wrote(tmp_path: Path, note: Any) -> None:
    path = library(tmp_path, {"single_bytes": 1, "multi_bytes": 1, **note})
    for look in (read_library, lambda path: run_inspect(InspectOptions(path))):
        with pytest.raises(MavcgError) as refused:
            look(path)
        assert "\n" not in str(refused.value) and str(path) in str(refused.value)
