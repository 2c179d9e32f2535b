"""Options of the final link: what is passed on, what is refused, and what an ELF file then says."""

import ctypes
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.objects.elf import open_elf
from mavcg.objects.link_options import make_link_options
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_tool, run_zig
from tests.mavcg.conftest import CORES, Mavcg

SOURCE = """
int total_v1(const int *x, int n) { int s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }
int total_v2(const int *x, int n) { int s = 0; for (int i = 0; i < n; i++) s += x[i] * x[i]; return s; }
__asm__(".symver total_v1, total@OLD_1");
__asm__(".symver total_v2, total@@NEW_2");
int mean(const int *x, int n) { return n ? total_v1(x, n) / n : 0; }
int helper(int x) { return x + 1; }
"""
SCRIPT = "OLD_1 { global: total; mean; local: *; };\nNEW_2 { global: total; } OLD_1;\n"


def _defined_versions(path: Path) -> dict[str, int]:
    """Version name -> index in .gnu.version_d."""
    section = open_elf(path).get_section_by_name(".gnu.version_d")
    return {next(iter(names)).name: version["vd_ndx"] for version, names in section.iter_versions()}


def _exports(path: Path) -> set[tuple[str, int]]:
    """(name, version index with its hidden bit) of each defined dynamic symbol."""
    elf = open_elf(path)
    symbols = list(elf.get_section_by_name(".dynsym").iter_symbols())
    versions = elf.get_section_by_name(".gnu.version")
    indices = [versions.get_symbol(i)["ndx"] for i in range(versions.num_symbols())]
    return {
        (s.name, i if isinstance(i, int) else 0)
        for s, i in zip(symbols, indices, strict=True)
        if s["st_shndx"] != "SHN_UNDEF" and s["st_info"]["type"] == "STT_FUNC"
    }


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", [host_target().zig_name, "aarch64-linux-gnu.2.17"])
def test_symbol_versions_survive(mavcg: Mavcg, tmp_path: Path, target: str) -> None:
    (tmp_path / "lib.c").write_text(SOURCE)
    (tmp_path / "lib.map").write_text(SCRIPT)
    cores = "cortex-a55,cortex-a75" if target.startswith("aarch64") else ",".join(CORES)
    (tmp_path / "mavcg.toml").write_text(
        f'[build]\nsources = ["lib.c"]\nhot = ["total_v1", "total_v2", "mean"]\n'
        f"cores = {json.dumps(cores.split(','))}\n"
        f'target = "{target}"\noutput = "libtotal.so"\nversion_script = "lib.map"\nsoname = "libtotal.so.2"\n'
        'link_options = ["-Wl,-z,now"]\nstrip = true\n'
    )
    done = mavcg("build", tmp_path / "mavcg.toml", "--json")
    assert done.status == 0, done.stderr
    assert any(function["dispatched"] for function in json.loads(done.stdout)["functions"])

    out = tmp_path / "libtotal.so"
    versions = _defined_versions(out)
    assert {"libtotal.so.2", "OLD_1", "NEW_2"} == set(versions)
    hidden = 0x8000  # of a version that is not the default one
    assert _exports(out) == {
        ("total", versions["OLD_1"] | hidden),
        ("total", versions["NEW_2"]),
        ("mean", versions["OLD_1"]),
    }
    tags = _tags(out)
    assert tags["DT_SONAME"] == ["libtotal.so.2"] and "DT_FLAGS_1" in tags
    assert open_elf(out).get_section_by_name(".symtab") is None  # stripped
    assert mavcg("inspect", out).status == 0  # and still says what is in it
    if target == host_target().zig_name:
        x = (ctypes.c_int * 3)(1, 2, 3)
        library = ctypes.CDLL(str(out))
        assert library.total(x, 3) == 14 and library.mean(x, 3) == 2
        assert _called(tmp_path, out, "OLD_1") == 6 and _called(tmp_path, out, "NEW_2") == 14


def _called(folder: Path, library: Path, version: str) -> int:
    """What total@version answers to a program for {1, 2, 3}."""
    (folder / "main.c").write_text(
        f'#include <stdio.h>\nint wanted(const int *, int);\n__asm__(".symver wanted, total@{version}");\n'
        'int main(void) { int x[] = {1, 2, 3}; printf("%d", wanted(x, 3)); return 0; }\n'
    )
    shutil.copy(library, folder / "libtotal.so.2")
    flags = ["-O2", *PLAIN_CODE_FLAGS, "-target", host_target().zig_name, f"-Wl,-rpath,{folder}"]
    run_zig("cc", [*flags, "main.c", str(library), "-o", "main"], "compiling", folder)
    return int(run_tool([str(folder / "main")], "running"))


def _tags(path: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    section = open_elf(path).get_section_by_name(".dynamic")
    for tag in section.iter_tags():
        text = getattr(tag, "soname", getattr(tag, "needed", getattr(tag, "runpath", tag.entry.d_val)))
        found.setdefault(tag.entry.d_tag, []).append(text)
    return found


@pytest.mark.long
def test_libraries_archives_and_search_paths(mavcg: Mavcg, tmp_path: Path) -> None:
    target = host_target().zig_name
    (tmp_path / "more").mkdir()
    (tmp_path / "k.c").write_text(
        "int extra(int); int plain(int); int run(const int *x, int n) {\n"
        " int s = 0; for (int i = 0; i < n; i++) s += x[i]; return extra(s) + plain(s); }\n"
    )
    (tmp_path / "extra.c").write_text("int extra(int x) { return 10 * x; }")
    (tmp_path / "plain.c").write_text("int plain(int x) { return x; } int unused(void) { return 0; }")
    flags = [*PLAIN_CODE_FLAGS, "-target", target, "-fPIC"]
    run_zig("cc", [*flags, "-shared", "extra.c", "-o", "more/libextra.so"], "compiling", tmp_path)
    run_zig("cc", [*flags, "-c", "plain.c", "-o", "plain.o"], "compiling", tmp_path)
    run_zig("ar", ["rcs", "libplain.a", "plain.o"], "archiving", tmp_path)
    base = ["build", "--source", tmp_path / "k.c", "--hot", "run", "--cores", ",".join(CORES), "--target", target]
    out = tmp_path / "librun.so"
    done = mavcg(
        *base,
        "-o",
        out,
        "-l",
        "extra",
        "-L",
        tmp_path / "more",
        "--link-option",
        tmp_path / "libplain.a",
        "--link-option=-Wl,--no-undefined",
        f"--link-option=-Wl,-rpath,{tmp_path / 'more'}",
    )
    assert done.status == 0, done.stderr
    assert "libextra.so" in _tags(out)["DT_NEEDED"]
    assert ctypes.CDLL(str(out)).run((ctypes.c_int * 2)(1, 2), 2) == 33
    assert "is not marked for branch protection" in " ".join(done.stdout.split())  # the archive has no marks

    done = mavcg(*base, "-o", tmp_path / "other.so", "--link-option=-Wl,--no-undefined")
    assert done.status == 2 and "extra" in done.stderr and not (tmp_path / "other.so").exists()


HOSTILE = [
    "-Wl,-o,/tmp/x",
    "-o/tmp/x",
    "-o",
    "-Wl,-Map=/tmp/x",
    "-Wl,-Map,/tmp/x",
    "-Wl,--dependency-file=/tmp/x",
    "-Wl,--reproduce=/tmp/x",
    "-Wl,--out-implib=/tmp/x",
    "-Wl,--output=/tmp/x",
    "@/tmp/words",
    "-Wl,@/tmp/words",
    "-Wl,-T,/tmp/script",
    "-T/tmp/script",
    "-fuse-ld=/tmp/ld",
    "-B/tmp",
    "-Wl,-plugin,/tmp/x.so",
    "--sysroot=/tmp",
    "-Xlinker",
    "-Wl,-r",
    "-static",
    "-Wl,-e,main",
    "-Wl,-dynamic-linker,/tmp/ld.so",
    "-Wl,-z,execstack",
    "-Wl,-z",
    "-target",
    "-Wl,-soname,x",
    "-Wl,--version-script=/tmp/x",
    "-lfoo",
    "-femit-bin=/tmp/x",
    "-save-temps",
    "",
    "-",
    "-Wl,",
    "-Wl,-rpath",
    "-Wl,--build-id,x.o",
    "missing.a",
    "-Wl,-u,a,/tmp/x.o",
    "--emit-relocs",
    "-ofoo.a",
]


@pytest.mark.parametrize("option", HOSTILE)
def test_what_is_not_known_to_keep_to_the_library_is_refused_by_name(option: str, tmp_path: Path) -> None:
    with pytest.raises(MavcgError) as refused:
        make_link_options([option], None, [], [], None, False, tmp_path)
    assert option.split(",")[0] in str(refused.value) and ";" in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"libraries": ["../evil"]},
        {"libraries": ["-o"]},
        {"libraries": [":x.a"]},
        {"folders": ["missing"]},
        {"soname": "a/b"},
        {"soname": "x,-o,y"},
        {"soname": ""},
        {"version_script": "missing"},
    ],
)
def test_names_that_would_be_options_or_are_not_there(options: dict[str, Any], tmp_path: Path) -> None:
    given: dict[str, Any] = {"version_script": None, "libraries": [], "folders": [], "soname": None} | options
    with pytest.raises(MavcgError, match=";"):
        make_link_options([], strip=False, folder=tmp_path, **given)


def test_an_object_takes_no_link_options(mavcg: Mavcg, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("int f(int *x, int n) { int s = 0; while (n--) s += x[n]; return s; }")
    base = ["build", "--source", tmp_path / "k.c", "--hot", "f", "--cores", ",".join(CORES), "-o", tmp_path / "k.o"]
    for option in ("--strip", "--soname=x", "--link-option=-Wl,-z,now"):
        done = mavcg(*base, option)
        assert done.status == 2 and "is for the link of a library" in done.stderr
    assert not (tmp_path / "k.o").exists()


@pytest.mark.long
def test_a_script_that_would_export_the_whole_cxx_library_is_refused(mavcg: Mavcg, tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(
        "#include <vector>\nint total(int n) {\n"
        "std::vector<int> v(n, 2); int s = 0; for (int x : v) s += x; return s; }\n"
    )
    (tmp_path / "k.map").write_text("V1 { global: *total*; };")
    base = ["build", "--source", tmp_path / "k.cpp", "--hot", "total", "--cores", "cortex-a55", "--version-script"]
    done = mavcg(*base, tmp_path / "k.map", "--target", "aarch64-linux-musl", "-o", tmp_path / "libk.so")
    assert done.status == 2 and "local: *;" in done.stderr and not (tmp_path / "libk.so").exists()
    (tmp_path / "k.map").write_text("V1 { global: *total*; local: *; };")
    done = mavcg(*base, tmp_path / "k.map", "--target", "aarch64-linux-musl", "-o", tmp_path / "libk.so")
    assert done.status == 0, done.stderr
    assert {name for name, _ in _exports(tmp_path / "libk.so")} == {"_Z5totali"}
