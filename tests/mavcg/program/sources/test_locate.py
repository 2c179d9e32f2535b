import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.program.sources.compile_commands import CompileUnit, read_command
from mavcg.program.sources.locate import find_units, units_of_source

AREA_OF, GROW_INT = "_ZNK4Area2ofEi", "_Z4growIiET_S0_"
Program = Any
Build = Callable[[Path, Sequence[str]], Program]


def unit(line: str, folder: Path) -> CompileUnit:
    command_unit = read_command(line.split(), folder)
    assert isinstance(command_unit, CompileUnit)
    return command_unit


def units(folder: Path) -> list[CompileUnit]:
    lines = ("gcc -O2 -c kernels.c", "g++ -O2 -I. -c sub/classes.cpp -o classes.o", "g++ -O2 -I. -c main.cpp")
    return [unit(line, folder) for line in lines]


def test_symbols_of_one_source_are_one_unit_in_order_of_heat(gcc_program: Program) -> None:
    app = str(gcc_program.binary)
    kernels, classes, main = units(gcc_program.folder)
    hot_units = find_units([(AREA_OF, app), ("kernel", app), ("main", app), ("twice", app)], [kernels, classes, main])

    assert [(u.unit, u.symbols) for u in hot_units.units] == [
        (classes, (AREA_OF,)),
        (kernels, ("kernel", "twice")),
        (main, ("main",)),
    ]
    assert not hot_units.missing


def test_what_is_elsewhere_says_where(gcc_program: Program, tmp_path: Path) -> None:
    app = str(gcc_program.binary)
    jit = tmp_path / "perf-1.map"
    jit.write_text("1000 10 jitted\n")
    hot = [("memcpy", "/usr/lib/x86_64-linux-gnu/libc.so.6"), ("kernel", app), ("f", "/gone/app"), ("g", str(jit))]
    hot_units = find_units(hot, units(gcc_program.folder)[1:])

    assert not hot_units.units
    assert "kernels.c, which has no compile command here; name that file with --source" in hot_units.missing["kernel"]
    assert "the binary /gone/app it ran in is not here" in hot_units.missing["f"]
    assert "not an ELF file" in hot_units.missing["g"]
    if Path(hot[0][1]).exists():
        assert hot_units.missing["memcpy"] == "it is in libc.so.6, a system library, which has no compile command here"


def test_a_profile_made_on_another_machine_needs_a_copy_of_the_binary(gcc_program: Program) -> None:
    hot = [("kernel", "/data/local/tmp/app")]

    assert find_units(hot, units(gcc_program.folder), [gcc_program.binary]).units[0].symbols == ("kernel",)


def test_a_binary_given_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "app").write_text("text")
    with pytest.raises(MavcgError, match="not an ELF file"):
        find_units([("kernel", "/board/app")], [], [tmp_path / "app"])


def test_without_debug_information_the_objects_say_it(gcc_build: Build, tmp_path: Path) -> None:
    program = gcc_build(tmp_path / "p", [])
    kernels, classes, main = units(program.folder)
    hot = [(symbol, str(program.binary)) for symbol in ("scaled", AREA_OF, "absent")]
    hot_units = find_units(hot, [main, kernels, classes])

    assert [(u.unit, u.symbols) for u in hot_units.units] == [(kernels, ("scaled",)), (classes, (AREA_OF,))]
    assert set(hot_units.missing) == {"absent"}

    (program.folder / "classes.o").unlink()
    assert "compile with -g" in find_units(hot, [main, kernels, classes]).missing[AREA_OF]


def test_a_template_in_several_objects_is_taken_once_and_said(gcc_build: Build, tmp_path: Path) -> None:
    program = gcc_build(tmp_path / "p", [])
    kernels, classes, main = units(program.folder)
    hot_units = find_units([(GROW_INT, str(program.binary))], [kernels, main, classes])

    assert [u.unit for u in hot_units.units] == [main]
    assert "compiled several times" in hot_units.units[0].notes[0] and "classes.o" in hot_units.units[0].notes[0]


def test_a_source_compiled_twice_is_the_unit_whose_object_has_the_symbol(gcc_program: Program, tmp_path: Path) -> None:
    folder = gcc_program.folder
    other = unit("gcc -O2 -Dkernel=other_kernel -c kernels.c -o other.o", folder)
    subprocess.run(other.arguments, cwd=folder, check=True)
    hot_units = find_units([("kernel", str(gcc_program.binary))], [other, *units(folder)])

    assert [(u.unit.output, u.notes) for u in hot_units.units] == [(folder / "kernels.o", ())]


def test_moved_sources_are_found_by_the_end_of_their_paths(tmp_path: Path) -> None:
    here = [unit(f"cc -c {name}", tmp_path) for name in ("a/ops/x.c", "b/ops/x.c", "y.c")]

    assert units_of_source(Path("/board/src/a/ops/x.c"), here) == [here[0]]
    assert units_of_source(Path("/board/src/y.c"), here) == [here[2]]
    assert units_of_source(Path("/board/src/x.c"), here) == []
    assert units_of_source(Path("/board/src/z.c"), here) == []


def test_links_to_a_source_are_the_source(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/x.c").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (one,) = [unit("cc -c link/x.c", tmp_path)]

    assert units_of_source(tmp_path / "real/x.c", [one]) == [one]


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_prefix_maps_of_reproducible_builds(gcc_build: Build, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    program = gcc_build(folder, ["-g", f"-ffile-prefix-map={folder}=."])
    hot_units = find_units([(AREA_OF, str(program.binary))], units(folder))

    assert [u.unit.source.name for u in hot_units.units] == ["classes.cpp"]
