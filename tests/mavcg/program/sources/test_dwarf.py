import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.program.sources import dwarf
from mavcg.program.sources.dwarf import FunctionSources, locate
from tests.conftest import examples

GROW_INT, AREA_OF, IN_CLASS = "_Z4growIiET_S0_", "_ZNK4Area2ofEi", "_ZNK4Area8in_classEi"
# symbol -> (source of its compile unit, or several where the linker chooses; file and line where it is written)
WHERE = {
    "kernel": (["kernels.c"], "kernels.c", 7),
    "main": (["main.cpp"], "main.cpp", 4),
    AREA_OF: (["sub/classes.cpp"], "sub/classes.cpp", 5),
    "in_header": (["kernels.c"], "shared.h", 2),
    GROW_INT: (["main.cpp", "sub/classes.cpp"], "shapes.hpp", 2),
    IN_CLASS: (["sub/classes.cpp"], "shapes.hpp", 8),
    "twice": (["kernels.c"], "kernels.c", 2),
}
Program = Any
Build = Callable[[Path, Sequence[str]], Program]


def check(program: Program, found: FunctionSources, symbols: Sequence[str] = tuple(WHERE)) -> None:
    assert not found.missing
    for symbol in symbols:
        sources, file, line = WHERE[symbol]
        place = found.locations[symbol]
        assert place.unit_source in [program.folder / source for source in sources], symbol
        assert (place.file, place.line) == (program.folder / file, line), symbol


@pytest.mark.parametrize(
    "flags",
    [
        "-g",
        "-gdwarf-4",
        "-gdwarf-5 -gz",
        "-gdwarf-4 -gz=zlib-gnu",
        "-g -ffunction-sections -Wl,--gc-sections",
        "-g -no-pie",
    ],
)
def test_gccs(gcc_build: Build, tmp_path: Path, flags: str) -> None:
    program = gcc_build(tmp_path / "p", flags.split())

    check(program, locate(program.binary, WHERE))


@pytest.mark.parametrize("flags", ["-gdwarf-4", "-gdwarf-5", "-gdwarf-5 -ffunction-sections"])
def test_clangs(zig_build: Build, tmp_path: Path, flags: str) -> None:
    program = zig_build(tmp_path / "p", flags.split())

    check(
        program, locate(program.binary, [s for s in WHERE if s != "in_header"]), [s for s in WHERE if s != "in_header"]
    )


@pytest.mark.skipif(not shutil.which("addr2line") or not shutil.which("nm"), reason="needs binutils")
def test_agrees_with_addr2line(gcc_build: Build, tmp_path: Path) -> None:
    program = gcc_build(tmp_path / "p", ["-gdwarf-4"])  # binutils 2.40 mixes up the files of gcc's DWARF 5
    nm = subprocess.run(["nm", "--defined-only", program.binary], capture_output=True, text=True, check=True).stdout
    addresses = {m[2]: m[1] for m in re.finditer(r"^(\S+) [tTwW] (kernel|_Z\S+|main)$", nm, re.MULTILINE)}
    locations = locate(program.binary, list(addresses)).locations

    assert set(locations) == set(addresses) > {"main", AREA_OF}
    for symbol, address in addresses.items():
        command = ["addr2line", "-e", str(program.binary), address]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
        file, _, line = said.rpartition(":")
        assert os.path.normpath(file) == str(locations[symbol].file)
        # Of several rows for one address it takes the last, which is of the first statement.
        assert locations[symbol].line <= int(line) <= locations[symbol].line + 1


def test_pieces_and_versions_belong_to_the_function(gcc_program: Program) -> None:
    """gcc makes scaled.constprop.0 and its cold part; the ranking names the function, perf the piece."""
    nm = subprocess.run(["nm", gcc_program.binary], capture_output=True, text=True, check=True).stdout
    pieces = re.findall(r"\b(scaled\.\S+)$", nm, re.M)
    assert pieces, "this gcc makes no versions of `scaled`: the test needs another function"

    locations = locate(gcc_program.binary, ["scaled", *pieces]).locations

    assert set(locations) == {"scaled", *pieces}
    assert {place.unit_source for place in locations.values()} == {gcc_program.folder / "kernels.c"}
    assert locations["scaled"].symbol == "scaled" and 3 <= locations["scaled"].line <= 5


def test_static_functions_of_one_name_are_all_named(gcc_build: Build, tmp_path: Path) -> None:
    program = gcc_build(tmp_path / "p", ["-g", "-DKERNEL"])
    (program.folder / "sub/more.c").write_text(
        "extern volatile int volatile_one;\n"
        "__attribute__((noinline)) static int twice(int x) { return x + volatile_one; }\n"
        "int more(int x) { return twice(x); }\n"
    )
    command = "gcc -O2 -g -c sub/more.c -o more.o && g++ main.o kernels.o classes.o more.o -o app"
    subprocess.run(["sh", "-c", command], cwd=program.folder, check=True)
    place = locate(program.binary, ["twice"]).locations["twice"]

    assert {place.unit_source, *place.others} == {program.folder / "kernels.c", program.folder / "sub/more.c"}


@pytest.mark.skipif(not shutil.which("objcopy"), reason="needs binutils")
@pytest.mark.parametrize("folder", [".", ".debug"])
def test_debug_information_in_a_file_of_its_own(gcc_build: Build, tmp_path: Path, folder: str) -> None:
    program = gcc_build(tmp_path / "p", ["-g"])
    command = (
        f"mkdir -p {folder} && objcopy --only-keep-debug app {folder}/app.debug && "
        f"objcopy --strip-all --add-gnu-debuglink={folder}/app.debug app"
    )
    subprocess.run(["sh", "-c", command], cwd=program.folder, check=True)

    check(program, locate(program.binary, WHERE))


@pytest.mark.skipif(not shutil.which("objcopy"), reason="needs binutils")
def test_debug_information_by_build_id(gcc_build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = gcc_build(tmp_path / "p", ["-g", "-Wl,--build-id=0xabcdef"])
    place = tmp_path / "debug/.build-id/ab"
    place.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", program.binary, place / "cdef.debug"], check=True)
    subprocess.run(["strip", program.binary], check=True)
    assert "stripped" in locate(program.binary, ["kernel"]).missing["kernel"]
    monkeypatch.setattr(dwarf, "DEBUG_FOLDERS", (tmp_path / "debug",))

    check(program, locate(program.binary, WHERE))


def test_without_debug_information_the_way_out_is_named(gcc_build: Build, tmp_path: Path) -> None:
    program = gcc_build(tmp_path / "p", [])
    located = locate(program.binary, ["kernel", "nothing"])

    assert not located.locations
    assert located.missing["kernel"] == "app has no debug information; compile with -g, or name the file with --source"
    assert located.missing["nothing"] == "app has no symbol of that name (stripped?)"


def test_a_source_without_g_among_others_with_it(gcc_build: Build, tmp_path: Path) -> None:
    program = gcc_build(tmp_path / "p", ["-g"])
    subprocess.run(
        ["sh", "-c", "gcc -O2 -c kernels.c && g++ main.o kernels.o classes.o -o app"], cwd=program.folder, check=True
    )
    located = locate(program.binary, ["kernel", "main"])

    assert set(located.locations) == {"main"}
    assert "compiled without -g" in located.missing["kernel"]


@pytest.mark.parametrize("flags", ["-gsplit-dwarf -gdwarf-5", "-gsplit-dwarf -gdwarf-4"])
def test_split_units_are_found_or_refused_with_the_reason(gcc_build: Build, tmp_path: Path, flags: str) -> None:
    program = gcc_build(tmp_path / "p", flags.split())
    located = locate(program.binary, ["kernel", AREA_OF])

    for symbol, place in located.locations.items():
        assert place.unit_source == program.folder / WHERE[symbol][0][0]
    for reason in located.missing.values():
        assert "split" in reason and "--source" in reason
    assert len(located.locations) + len(located.missing) == 2


def test_link_time_optimised_units_name_the_source(gcc_build: Build, tmp_path: Path) -> None:
    program = gcc_build(tmp_path / "p", ["-g", "-flto"])
    located = locate(program.binary, ["main", AREA_OF])

    for symbol, place in located.locations.items():
        assert place.unit_source in [program.folder / source for source in WHERE[symbol][0]]
    assert "main" in located.locations


def test_a_relative_compile_folder_counts_once(gcc_build: Build, tmp_path: Path) -> None:
    program = gcc_build(tmp_path / "p", ["-g", f"-fdebug-prefix-map={tmp_path}=src"])
    place = locate(program.binary, ["kernel"]).locations["kernel"]

    assert (place.file, place.unit_source) == (Path("src/p/kernels.c"), Path("src/p/kernels.c"))


@pytest.mark.parametrize("text", ["#!/bin/sh\n", ""])
def test_what_is_no_program_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "app").write_text(text)
    with pytest.raises(MavcgError, match=r"app: not an ELF file; name the program"):
        locate(tmp_path / "app", ["f"])
    with pytest.raises(MavcgError, match=r"gone: No such file"):
        locate(tmp_path / "gone", ["f"])


def test_32_bit_programs_are_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(b"\x7fELF\x01\x01" + bytes(60))

    assert "64-bit" in locate(tmp_path / "app", ["f"]).missing["f"]


@settings(max_examples=examples(40, 5))
@given(
    edits=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=6), cut=st.booleans()
)
def test_damaged_programs_are_answers_or_errors(
    gcc_program: Program, tmp_path: Path, edits: list[tuple[int, int]], cut: bool
) -> None:
    data = bytearray(gcc_program.binary.read_bytes())
    for position, value in edits:
        data[position % len(data)] = value
    (tmp_path / "app").write_bytes(data[: len(data) * 3 // 4] if cut else data)
    try:
        located = locate(tmp_path / "app", WHERE)
    except MavcgError as error:
        assert "app" in str(error)
    else:
        assert set(located.locations) | set(located.missing) == set(WHERE)
