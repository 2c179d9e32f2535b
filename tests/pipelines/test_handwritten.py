"""A hand-written kernel beside C in one library: versions for in-order cores, the same bits on every emulated core."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from mavcg.toolchain.zig import run_zig
from tests.machine import QEMU, needs_qemu

HERE = Path(__file__).parent
MUSL = "aarch64-linux-musl"
# MIDR_EL1 of an A55 r2p0, an A53 r0p4, an A76 r4p1 and nobody's.
MIDRS = {"cortex-a55": 0x412FD050, "cortex-a53": 0x410FD034, "cortex-a76": 0x414FD0B1, "generic": 0x70000000}
TOML = f"""\
[build]
sources = ["kernels/*.S", "total.c"]
flags   = ["-DUNUSED=1", "-Ikernels"]
hot     = ["gemm_row", "call_row", "total"]
cores   = ["cortex-a55", "cortex-a53", "cortex-a76"]
target  = "{MUSL}"
output  = "libkernels.o"
runtime = "static"
"""
TOTAL = "float total(const float *c, int n) { float s = 0; for (int i = 0; i < n; i++) s += c[i]; return s; }\n"


@dataclass(frozen=True)
class Built:
    report: dict[str, Any]
    library: Path
    program: Path
    plain: Path  # the program without versions


def program(name: str, folder: Path, *objects: Path) -> Path:
    run_zig("cc", ["-target", MUSL, "-static", "-O1", "-g0", *map(str, objects), "-o", str(folder / name)], name)
    return folder / name


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("handwritten")
    (folder / "kernels").mkdir()
    shutil.copy(HERE / "handwritten_gemm.S", folder / "kernels/gemm.S")
    (folder / "total.c").write_text(TOTAL)
    (folder / "mavcg.toml").write_text(TOML)
    command = [sys.executable, "-P", "-m", "mavcg.cli", "build", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    driver, library = HERE / "handwritten_driver.c", folder / "libkernels.o"
    return Built(
        json.loads(done.stdout),
        library,
        program("versions", folder, driver, library),
        program("plain", folder, driver, folder / "kernels/gemm.S", folder / "total.c"),
    )


def emulated(path: Path, core: str) -> tuple[str, dict[str, set[str]]]:
    """(what it prints, function -> versions that ran)."""
    assert QEMU
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAVCG_")}
    command = [QEMU, "-cpu", f"max,midr={MIDRS[core]:#x}", str(path)]
    done = subprocess.run(command, env=environment | {"MAVCG_TRACE": "1"}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    ran: dict[str, set[str]] = {}
    for function, version in re.findall(r"^mavcg: (\S+) (\S+) [1-9]\d*$", done.stderr, re.MULTILINE):
        ran.setdefault(function, set()).add(version)
    return done.stdout, ran


def test_the_kernel_has_a_version_for_each_core_whose_profile_asks_for_tuning(built: Built) -> None:
    functions = {function["name"]: function for function in built.report["functions"]}
    assert set(functions) == {"gemm_row", "total"}
    gemm = functions["gemm_row"]
    assert gemm["dispatched"] and gemm["source"] == "gemm.S"
    versions = {version["core"]: version for version in gemm["versions"]}
    assert list(versions) == ["generic", "cortex-a55", "cortex-a53", "cortex-a76"]
    assert versions["cortex-a76"]["shares_body_with"] == "generic"
    for core in ("cortex-a55", "cortex-a53"):
        model = versions[core]["model"]
        assert model["tuned"] > model["generic"] and model["directive"] is None and model["loops_tuned"] == 1
        assert versions[core]["bytes"] > versions["generic"]["bytes"] > 0


def test_what_no_pass_improves_is_left_and_the_report_says_why(built: Built) -> None:
    (refused,) = built.report["refused"]
    assert refused["name"] == "call_row" and refused["source"] == "gemm.S"
    assert "the machine passes find nothing better" in refused["why"]


def test_generic_is_the_text_as_it_was(built: Built) -> None:
    from mavcg.assembly.asm_source import assemble, read_asm_source

    with built.library.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        (symbol,) = [s for s in table.iter_symbols() if s.name == "gemm_row.generic"]
        section = elf.get_section(symbol["st_shndx"])
        code = section.data()[symbol["st_value"] - section["sh_addr"] :][: symbol["st_size"]]
    assert assemble(read_asm_source(HERE / "handwritten_gemm.S"))[".text"].startswith(code)


@needs_qemu
@pytest.mark.parametrize("core", MIDRS)
def test_every_core_runs_its_version_and_prints_the_same_bits(built: Built, core: str) -> None:
    plain, _ = emulated(built.plain, core)
    printed, ran = emulated(built.program, core)

    assert printed == plain and "!" not in printed and len(printed.split()) == 50
    assert ran["gemm_row"] == {core}


def test_inspect_says_the_same(built: Built) -> None:
    from mavcg.objects.inspection import inspect_library

    inspection = inspect_library(built.library)
    assert {function["name"] for function in inspection.functions} == {"gemm_row", "total"}
    assert "call_row" in inspection.refused
