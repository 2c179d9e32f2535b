"""The default selector: under 3 kB in a library, with the settings where libmavcg_rt.so is loaded, else a word."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig
from tests.mavcg.conftest import CORES, Mavcg

SOURCE = "int dot(const short *a, const short *b, int n) { int s = 0; while (n--) s += a[n] * b[n]; return s; }\n"
MAIN = """\
#include <stdio.h>
int dot(const short *, const short *, int);
int main(void) { short a[3] = {1, 2, 3}; printf("%d\\n", dot(a, a, 3)); return 0; }
"""
FEW = {"aarch64-linux-gnu.2.17": "cortex-a55,cortex-a75", "x86_64-linux-gnu.2.17": "znver3,emeraldrapids"}
LIMIT = 3072
WORDS = "mavcg: MAVCG_CPU_MAP and MAVCG_TRACE need LD_PRELOAD=libmavcg_rt.so (mavcg runtime)\n"


def built(mavcg: Mavcg, folder: Path, target: str, cores: str, output: str, *options: str) -> Path:
    (folder / "dot.c").write_text(SOURCE)
    base = ["build", "--source", folder / "dot.c", "--hot", "dot", "--target", target, "--cores", cores]
    done = mavcg(*base, "--keep-slower", *options, "-o", folder / output, "--json")
    assert done.status == 0, done.stderr
    return folder / output


def linked_bytes(library: Path) -> int:
    """The bytes of all that is not of the program, by the library's symbols; what is zero takes none."""
    with library.open("rb") as file:
        elf: Any = ELFFile(file)
        sections = list(elf.iter_sections())
        return sum(
            symbol["st_size"]
            for symbol in elf.get_section_by_name(".symtab").iter_symbols()
            if symbol["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT")
            and not symbol.name.startswith("dot")
            and isinstance(symbol["st_shndx"], int)
            and sections[symbol["st_shndx"]]["sh_type"] != "SHT_NOBITS"
        )


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("target", FEW)
def test_a_library_for_few_cores_has_less_than_3_kb_of_selector(mavcg: Mavcg, tmp_path: Path, target: str) -> None:
    library = built(mavcg, tmp_path, target, FEW[target], "libdot.so")
    with_settings = built(mavcg, tmp_path, target, FEW[target], "libstatic.so", "--runtime", "static")
    small, static = (json.loads(mavcg("inspect", path, "--json").stdout) for path in (library, with_settings))

    assert 1000 < linked_bytes(library) <= small["runtime_bytes"] < LIMIT
    assert linked_bytes(library) < linked_bytes(with_settings) / 2
    assert library.stat().st_size < with_settings.stat().st_size - 4000
    assert small["functions"] == static["functions"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", FEW)
def test_an_object_for_few_cores_has_little_more(mavcg: Mavcg, tmp_path: Path, target: str) -> None:
    path = built(mavcg, tmp_path, target, FEW[target], "dot.o")

    assert 1000 < json.loads(mavcg("inspect", path, "--json").stdout)["runtime_bytes"] < LIMIT + 200


def program(folder: Path, *objects: Path) -> Path:
    (folder / "main.c").write_text(MAIN)
    arguments = ["-target", host_target().zig_name, str(folder / "main.c"), *map(str, objects), f"-Wl,-rpath,{folder}"]
    run_zig("cc", [*arguments, "-o", str(folder / "app")], "linking")
    return folder / "app"


def run(app: Path, **environment: str) -> tuple[str, str]:
    done = subprocess.run([app], env=environment, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize("output", ["libdot.so", "dot.o", "dot.bc"])
def test_settings_work_where_libmavcg_rt_is_loaded(mavcg: Mavcg, tmp_path: Path, output: str) -> None:
    """The command of docs/runtime.md: LD_PRELOAD=$PWD/libmavcg_rt.so MAVCG_TRACE=1 ./app."""
    app = program(tmp_path, built(mavcg, tmp_path, host_target().zig_name, ",".join(CORES), output))
    assert mavcg("runtime", "-o", tmp_path).status == 0
    preload = {"LD_PRELOAD": str(tmp_path / "libmavcg_rt.so"), "MAVCG_TRACE": "1"}

    assert run(app) == ("14\n", "")
    assert run(app, MAVCG_TRACE="1") == run(app, MAVCG_CPU_MAP=f"*={CORES[0]}") == ("14\n", WORDS)
    for name in (CORES[0], "generic"):
        assert run(app, **preload, MAVCG_CPU_MAP=f"*={name}") == ("14\n", f"mavcg: dot {name} 1\n")
    assert f"cores: generic {' '.join(CORES)}\n" in run(app, **preload, MAVCG_CPU_MAP="*=other")[1]


@pytest.mark.long
def test_a_program_may_link_objects_with_either_selector(mavcg: Mavcg, tmp_path: Path) -> None:
    """Each has its table: the trace counts the runs of the one that has it."""
    small = built(mavcg, tmp_path, host_target().zig_name, ",".join(CORES), "dot.o")
    (tmp_path / "dot.c").unlink()
    source = tmp_path / "square.c"
    source.write_text(SOURCE.replace("dot", "squares"))
    base = ["build", "--source", source, "--hot", "squares", "--cores", ",".join(CORES), "--keep-slower"]
    assert mavcg(*base, "--runtime", "static", "-o", tmp_path / "squares.o").status == 0
    (tmp_path / "call.c").write_text(
        "int squares(const short *, const short *, int);\n"
        "__attribute__((constructor)) static void call(void) { short a[2] = {1, 2}; (void)squares(a, a, 2); }\n"
    )
    app = program(tmp_path, small, tmp_path / "squares.o", tmp_path / "call.c")
    environment = {"MAVCG_TRACE": "1", "MAVCG_CPU_MAP": "*=generic"}
    done = subprocess.run([app], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout == "14\n"
    assert sorted(done.stderr.splitlines()) == [
        WORDS.rstrip(),
        "mavcg: squares generic 1",
    ]


@pytest.mark.sample(1)
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("form", ["-static", "-static-pie"])
def test_a_static_program_cannot_be_measured(mavcg: Mavcg, tmp_path: Path, form: str) -> None:
    """Versions are measured by MAVCG_CPU_MAP, and it loads no libmavcg_rt.so."""
    made = built(mavcg, tmp_path, host_target().zig_name, ",".join(CORES), "dot.o")
    (tmp_path / "main.c").write_text(MAIN)
    subprocess.run(["gcc", form, "main.c", made, "-o", "app"], cwd=tmp_path, check=True)
    done = mavcg("measure", tmp_path / "app", "--", tmp_path / "app")

    assert done.status == 2 and "is a static program, whose small selector has no MAVCG_CPU_MAP" in done.stderr


def test_auto_does_not_take_it(mavcg: Mavcg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dot.c").write_text(SOURCE)
    (tmp_path / "mavcg.toml").write_text(
        '[profile]\ncommand = ["true"]\n[build]\nsources = ["dot.c"]\nruntime = "small"\n'
    )
    done = mavcg("auto")

    assert done.status == 2 and "build.runtime small: has no MAVCG_CPU_MAP" in done.stderr


def test_not_on_macos(mavcg: Mavcg, tmp_path: Path) -> None:
    """Where MAVCG_CPU_MAP is the only source."""
    (tmp_path / "dot.c").write_text(SOURCE)
    base = ["build", "--source", tmp_path / "dot.c", "--hot", "dot", "--cores", "cortex-a55"]
    done = mavcg(*base, "--target", "aarch64-macos", "--runtime", "small", "-o", tmp_path / "a.dylib")

    assert done.status == 2 and "--runtime small: is for Linux and Android" in done.stderr
