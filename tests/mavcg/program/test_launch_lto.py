"""Link-time optimisation, to the letter, in a fresh folder: `mavcg launch clang -flto -c x.c`, then clang's link.

The compiler `clang` is ziglang's, under that name, for a static AArch64 Linux; programs run in qemu, whose MIDR_EL1
says which core it is. Its link gets no -flto: zig would compile its C library anew for that, which takes minutes. lld
generates code for bitcode with the flag and without.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from mavcg.objects.code_extensions import function_extensions
from mavcg.objects.elf import function_symbols
from mavcg.profiles.load import load_core
from mavcg.runtime.needs import usable_extensions
from mavcg.toolchain.zig import zig_program
from tests.conftest import zig_cache
from tests.machine import QEMU, needs_qemu
from tests.mavcg.conftest import CORES
from tests.mavcg.program.test_bitcode import SAXPY

KERNEL = "void {0}(float *restrict y, const float *restrict x, long n, float a)"
BODY = KERNEL + " {{ for (long i = 0; i < n; i++) y[i] {1} a * x[i]; {2}}}\n"
COUNTED = "static long done; __atomic_fetch_add(&done, n, __ATOMIC_RELAXED); "
MAIN = f"""\
#include <stdio.h>
{KERNEL.format("add")};
{KERNEL.format("take")};
int main(void) {{
    float x[1003], y[1003];
    for (int i = 0; i < 1003; i++) x[i] = i * .37f, y[i] = 1.f / (i + 1);
    add(y, x, 1003, 1.7f);
    take(y, x, 1003, -.3f);
    double sum = 0;
    for (int i = 0; i < 1003; i++) sum += y[i] * (i % 7);
    printf("%a\\n", sum);
    return 0;
}}
"""
CLANG = """\
#!/bin/sh
[ "$1" = -dumpmachine ] && {{ echo {machine}; exit; }}
case "$*" in *-dM*) {major} ;; esac
case "$*" in *-fuse-ld=lld*) set -- $(echo "$@" | sed 's/-flto[^ ]*//') ;; esac
exec {zig} cc -target {machine} -mcpu=generic "$@"
"""
A55, A75, OTHER = "max,midr=0x412fd050", "max,midr=0x413fd0a0", "max,midr=0x411fd0b0"
A53_AS_A55 = "cortex-a53,midr=0x412fd050"  # which has no atomics, no dot product


def write_clang(folder: Path, machine: str, major: str = "true") -> None:
    (folder / "bin").mkdir(exist_ok=True)
    clang = folder / "bin/clang"
    clang.write_text(CLANG.format(machine=machine, zig=zig_program(), major=major))
    clang.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A fresh folder with two hot files, in which clang is a command for AArch64."""
    return write_sources(tmp_path)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a program with versions, app, that was compiled and linked with -flto."""
    folder = write_sources(tmp_path_factory.mktemp("linked"))
    link(folder, "-flto")
    return folder


def write_sources(folder: Path) -> Path:
    for name, operator, more in (("add", "+=", ""), ("take", "-=", COUNTED)):
        (folder / f"{name}.c").write_text(BODY.format(name, operator, more))
    (folder / "main.c").write_text(MAIN)
    write_toml(folder, ("cortex-a55", "cortex-a75"))
    write_clang(folder, "aarch64-linux-musl")
    return folder


def write_toml(folder: Path, cores: tuple[str, ...]) -> None:
    names = ", ".join(f'"{core}"' for core in cores)
    (folder / "mavcg.toml").write_text(
        f'[build]\nhot = ["add", "take"]\ncores = [{names}]\nkeep_slower = true\nruntime = "static"\n'
    )


def shell(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "ZIG_GLOBAL_CACHE_DIR": zig_cache()}
    return subprocess.run(words, cwd=folder, env={**os.environ, **own, **environment}, capture_output=True, text=True)


def launch(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return shell(folder, sys.executable, "-m", "mavcg.cli", "launch", *words)


def link(folder: Path, kind: str) -> None:
    """Compile as a build does, with versions in the hot files' objects, and link with link-time optimisation."""
    for name in ("add", "take", "main"):
        done = launch(folder, "clang", "-O2", kind, "-c", f"{name}.c")
        assert done.returncode == 0, done.stderr
        assert (folder / f"{name}.o").read_bytes()[:4] == b"BC\xc0\xde"
        if name != "main":
            assert f"{name} (generic, cortex-a55" in done.stderr and "; growth " in done.stderr, done.stderr
    done = shell(folder, "clang", "-O2", kind, "-fuse-ld=lld", "-static", "add.o", "take.o", "main.o", "-o", "app")
    assert done.returncode == 0, done.stderr


def run(path: Path, cpu: str) -> tuple[str, list[str]]:
    """Run in qemu; return (what the program prints, what the selector counts)."""
    done = shell(path.parent, str(QEMU), "-cpu", cpu, str(path), MAVCG_TRACE="1")
    assert done.returncode == 0, done.stderr
    return done.stdout, sorted(done.stderr.splitlines())


def counts(core: str) -> list[str]:
    return [f"mavcg: add {core} 1", f"mavcg: take {core} 1"]


def check(folder: Path) -> None:
    app = folder / "app"
    names = {name for name, _ in function_symbols(app)}
    assert {"add.generic", "add.cortex-a55", "take.generic", "take.cortex-a55"} <= names
    shell(folder, "clang", "-O2", "add.c", "take.c", "main.c", "-static", "-o", "plain")
    expected = run(folder / "plain", "max")[0]
    assert run(app, A55) == (expected, counts("cortex-a55"))
    assert run(app, OTHER) == (expected, counts("generic"))
    assert run(app, A75)[0] == expected
    # The kernel's features lack the atomic addition of `take`; `add` needs nothing.
    assert run(app, A53_AS_A55) == (expected, ["mavcg: add cortex-a55 1", "mavcg: take generic 1"])


@pytest.mark.long
@needs_qemu
def test_versions_are_in_the_program_and_run_on_their_core(linked: Path) -> None:
    check(linked)


@needs_qemu
@pytest.mark.long
def test_versions_are_in_the_program_with_thin_lto(folder: Path) -> None:
    link(folder, "-flto=thin")
    check(folder)


def inspected(app: Path, mavcg: Any) -> dict[str, list[str]]:
    """Return name of a version -> the extensions that `mavcg inspect` names."""
    shown = json.loads(mavcg("inspect", app, "--json").stdout)
    return {f"{f['name']}.{v['version']}": v["extensions"] for f in shown["functions"] for v in f["versions"]}


def test_inspect_names_what_the_linked_code_needs(linked: Path, mavcg: Any) -> None:
    """Sums of floats have no instruction beyond Armv8.0-A, whatever the core has; an atomic addition has one."""
    needs = inspected(linked / "app", mavcg)
    assert {name: own for name, own in needs.items() if own} == {
        f"take.{core}": ["lse"] for core in ("cortex-a55", "cortex-a75")
    }
    code = function_extensions(linked / "app")
    assert all(code[name] == frozenset(own) for name, own in needs.items() if name in code)
    assert {"add.generic", "add.cortex-a55", "take.generic", "take.cortex-a55"} <= needs.keys() & code.keys()


def test_loads_of_an_in_order_cores_version_are_split_in_the_linked_code(linked: Path) -> None:
    """An `ins` for each `ldr x` in the A55's loop; the generic version has whole vectors."""
    assert joins(linked / "app", "add.cortex-a55") >= 2 and joins(linked / "app", "add.generic") == 0


def joins(path: Path, function: str) -> int:
    """Count `ins vD.d[1], xN` in a function's code (Arm ARM, INS (general))."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        [symbol] = table.get_symbol_by_name(function) or []
        section = elf.get_section(symbol["st_shndx"])
        start = symbol["st_value"] - section["sh_addr"]
        code = section.data()[start : start + symbol["st_size"]]
    return sum(word & 0xFFFFFC00 == 0x4E181C00 for (word,) in struct.iter_unpack("<I", code))


@needs_qemu
@pytest.mark.long
def test_a_file_with_versions_beside_one_with_machine_code(linked: Path, folder: Path) -> None:
    """One selector serves both: the group of its bitcode has the name of the group of its machine code."""
    for name in ("add.o", "main.o"):
        shutil.copy(linked / name, folder / name)
    assert launch(folder, "clang", "-O2", "-c", "take.c").returncode == 0
    done = shell(folder, "clang", "-O2", "-flto", "-fuse-ld=lld", "-static", "add.o", "take.o", "main.o", "-o", "app")
    assert done.returncode == 0, done.stderr
    assert run(folder / "app", A55)[0] == run(linked / "app", A55)[0]
    assert set(run(folder / "app", A55)[1]) == set(counts("cortex-a55"))


@pytest.mark.long
@needs_qemu
def test_bitcode_of_another_language(folder: Path, mavcg: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """IR with a Rust name, as `rustc --emit=llvm-bc` writes it: `mavcg build k.bc` makes bitcode of it again."""
    name = "_ZN6kernel3add17h0123456789abcdefE"
    monkeypatch.chdir(folder)
    (folder / "k.ll").write_text(SAXPY.replace("@saxpy", f"@{name}"))
    words = ("--hot", name, "--cores", "cortex-a55", "--target", "aarch64-linux-musl", "--keep-slower", "-o", "k.bc")
    done = mavcg("build", "--ir", "k.ll", *words, "--runtime", "static")
    assert done.status == 0, done.stderr
    declared = f"{KERNEL.format('add')};"
    main = MAIN.replace(declared, f'{declared[:-1]} __asm__("{name}");').replace("take(y, x, 1003, -.3f);", "")
    (folder / "main.c").write_text(main)
    linked = shell(folder, "clang", "-O2", "-flto", "-fuse-ld=lld", "-static", "main.c", "k.bc", "-o", "app")
    assert linked.returncode == 0, linked.stderr
    little, other = (run(folder / "app", cpu) for cpu in (A55, OTHER))
    assert little[0] == other[0] and little[1][0].endswith(" cortex-a55 1") and other[1][0].endswith(" generic 1")


def test_this_machines_versions(folder: Path, mavcg: Any) -> None:
    """The same for the machine that tests, where zig is called as itself; the results are those without versions.

    The recorded extensions are those of the code that the link generates: of what the core has, not all.
    """
    write_toml(folder, CORES)
    zig = (zig_program(), "cc", "-O2")
    for name in ("add", "take"):
        done = launch(folder, *zig, "-flto", "-c", f"{name}.c")
        assert done.returncode == 0 and f"{name} (generic, {CORES[0]}" in done.stderr, done.stderr
    # lld generates code for bitcode, flag or none.
    linked = shell(folder, *zig, "add.o", "take.o", "main.c", "-o", "app")
    assert linked.returncode == 0, linked.stderr
    labels = {name for name, _ in function_symbols(folder / "app")}
    assert {f"add.{CORES[0]}", "add.generic", f"take.{CORES[0]}"} <= labels
    printed = {shell(folder, "./app", MAVCG_CPU_MAP=f"all={core}").stdout for core in ("generic", *CORES)}
    assert len(printed) == 1 and printed != {""}
    needs, code = inspected(folder / "app", mavcg), function_extensions(folder / "app")
    assert {name: frozenset(needs[name]) for name in needs if name in code} == {n: code[n] for n in needs if n in code}
    assert set(needs[f"add.{CORES[0]}"]) < usable_extensions(load_core(CORES[0]))


@pytest.mark.long
def test_a_clang_of_an_older_llvm_keeps_its_own_object(folder: Path) -> None:
    write_clang(folder, "aarch64-linux-musl", "echo '#define __clang_major__ 14'; exit")
    shell(folder, "clang", "-O2", "-flto", "-c", "add.c", "-o", "own.o")
    done = launch(folder, "clang", "-O2", "-flto", "-c", "add.c")
    assert done.returncode == 0
    assert "clang: is of LLVM 14, and its link cannot read bitcode with versions" in done.stderr
    assert (folder / "add.o").read_bytes() == (folder / "own.o").read_bytes()
    strict = launch(folder, "--strict", "clang", "-O2", "-flto", "-c", "add.c")
    assert strict.returncode != 0 and "LLVM 14" in strict.stderr
    cold = launch(folder, "clang", "-O2", "-flto", "-c", "main.c")
    assert (cold.returncode, cold.stderr) == (0, "")
