"""Programs for x86-64 on processors that hide extensions: each version runs only where its instructions are offered."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mavcg.toolchain.zig import zig_program
from tests.conftest import zig_cache
from tests.mavcg.program.static_link import STATIC

QEMU = shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64")
FUNCTIONS = """\
#include <stdint.h>
void saxpy(float *y, const float *x, float a, int n) { for (int i = 0; i < n; i++) y[i] += a * x[i]; }
int popc(const uint64_t *x, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += __builtin_popcountll(x[i] ^ n);
    return s;
}
uint64_t mix(uint64_t a, uint64_t b, int n) {
    for (int i = 0; i < n; i++) a = (a << (b & 63)) ^ (b & ~a) ^ i;
    return a;
}
void swap(uint32_t *p, int n) { for (int i = 0; i < n; i += 3) p[i] = __builtin_bswap32(p[i]); }
int step(const int *next, int n) { int at = 0; for (int i = 0; i < n; i++) at = next[at]; return at; }
"""
MAIN = """\
#include <stdint.h>
#include <stdio.h>
void saxpy(float *, const float *, float, int), swap(uint32_t *, int);
int popc(const uint64_t *, int), step(const int *, int);
uint64_t mix(uint64_t, uint64_t, int);
int main(void) {
    float x[33], y[33];
    uint64_t words[33];
    uint32_t halves[33];
    int next[33];
    for (int i = 0; i < 33; i++) {
        x[i] = (float)i, y[i] = 1, words[i] = i * 0x123456789abcdefull;
        halves[i] = i * 0x10203u, next[i] = (i * 7 + 3) % 33;
    }
    saxpy(y, x, 2, 33), swap(halves, 33);
    unsigned long long mixed = mix(5, 9, 33);
    printf("%g %d %llu %u %d\\n", y[32], popc(words, 33), mixed, halves[30], step(next, 33));
    return 0;
}
"""
NAMES = ("saxpy", "popc", "mix", "swap", "step")
# LLVM's name of an extension that Haswell has -> QEMU's.
HIDDEN = {name: name for name in "sse3 ssse3 sse4.1 sse4.2 popcnt cx16 movbe bmi2 f16c fma avx avx2".split()}
HIDDEN |= {"lzcnt": "abm", "bmi": "bmi1", "pclmul": "pclmulqdq"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with versions for Haswell and newer cores, built by `mavcg launch` and linked statically."""
    folder = tmp_path_factory.mktemp("x86")
    (folder / "f.c").write_text(FUNCTIONS)
    (folder / "main.c").write_text(MAIN)
    hot = ", ".join(f'"{name}"' for name in NAMES)
    cores = '["haswell", "icelake-server", "znver4"]'
    (folder / "mavcg.toml").write_text(
        f"[build]\nhot = [{hot}]\ncores = {cores}\nmax_growth = 100000\nkeep_slower = true\nruntime = 'static'\n"
    )
    environment = os.environ | {"ZIG_GLOBAL_CACHE_DIR": zig_cache()}
    target = ["-target", "x86_64-linux-musl"]
    from mavcg.cli.app import run

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ZIG_GLOBAL_CACHE_DIR", zig_cache())
        assert run(["launch", zig_program(), "cc", *target, "-mcpu=x86_64", "-O2", "-c", "f.c", "-o", "f.o"]) == 0
    link = [zig_program(), "cc", *target, *STATIC, "main.c", "f.o", "-o", "app"]
    subprocess.run(link, cwd=folder, env=environment, check=True)
    return folder


def run_on(folder: Path, cpu: str) -> tuple[str, dict[str, str]]:
    """The program's output, and the version that each function ran, on an emulated processor."""
    command = [str(QEMU), "-cpu", cpu, "./app"]
    done = subprocess.run(command, cwd=folder, env={"MAVCG_TRACE": "1"}, capture_output=True, text=True, check=True)
    return done.stdout, dict(re.findall(r"^mavcg: (\w+) (\S+) 1$", done.stderr, re.MULTILINE))


def needs(folder: Path, mavcg: Any) -> dict[tuple[str, str], set[str]]:
    functions = json.loads(mavcg("inspect", folder / "f.o", "--json").stdout)["functions"]
    return {(f["name"], v["core"]): set(v["extensions"]) for f in functions for v in f["versions"]}


def test_inspect_names_what_the_instructions_of_each_version_need(folder: Path, mavcg: Any) -> None:
    """Exactly that: what the core and its compiler have beyond it does not count."""
    by_version = needs(folder, mavcg)

    assert by_version["saxpy", "haswell"] == {"avx", "avx2"} and by_version["mix", "haswell"] == {"bmi", "bmi2"}
    assert by_version["popc", "haswell"] == {"avx", "avx2", "popcnt"} and by_version["step", "znver4"] == set()
    assert "avx512vpopcntdq" in by_version["popc", "icelake-server"] and "fma" not in by_version["saxpy", "znver4"]
    assert not any(by_version[name, "generic"] for name in NAMES)


@pytest.mark.skipif(QEMU is None, reason="qemu-x86_64 is not installed")
def test_every_extension_of_haswell_hidden_in_turn(folder: Path, mavcg: Any) -> None:
    by_version = needs(folder, mavcg)
    output, ran = run_on(folder, "Haswell")
    assert ran == dict.fromkeys(NAMES, "haswell")

    for extension, hidden in HIDDEN.items():
        same, instead = run_on(folder, f"Haswell,-{hidden}")
        assert same == output
        for name in NAMES:  # a table checks what of a generation one version needs, and the rest of it
            wanted = "generic" if by_version[name, "haswell"] else "haswell"
            assert instead[name] == wanted, (extension, name)


@pytest.mark.skipif(QEMU is None, reason="qemu-x86_64 is not installed")
def test_a_server_whose_avx_512_is_hidden(folder: Path) -> None:
    """QEMU has no AVX-512: the processor says Ice Lake, and what needs no AVX-512 there runs."""
    output, ran = run_on(folder, "Icelake-Server,model=106")

    assert output == run_on(folder, "Haswell")[0]
    assert not {"popc", "swap"} & {name for name, version in ran.items() if version == "icelake-server"}
    assert ran["step"] == "icelake-server"


@pytest.mark.long
def test_code_that_is_not_understood_needs_all_that_its_compiler_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mavcg: Any
) -> None:
    """Data in code, here behind a jump, is no instruction: the build says that it has not read the code."""
    from mavcg.cli.app import run

    assembly = '__asm__ volatile("jmp 1f\\n.long 0x18fcf462\\n1: incl %0" : "+m"(*p))'
    (tmp_path / "odd.c").write_text(
        f"void odd(int *p, int n) {{ for (int i = 0; i < n; i++) {{ {assembly}; p[1] += __builtin_popcount(i); }} }}\n"
    )
    monkeypatch.chdir(tmp_path)
    build = ["build", "--source", "odd.c", "--target", "x86_64-linux-gnu", "--cores", "haswell", "--hot", "odd"]
    assert run([*build, "--max-growth", "1000000", "-o", "libodd.so"]) == 0
    [function] = json.loads(mavcg("inspect", tmp_path / "libodd.so", "--json").stdout)["functions"]
    [haswell] = [version for version in function["versions"] if version["core"] == "haswell"]

    assert {"avx2", "fma", "bmi2", "movbe"} <= set(haswell["extensions"]) and haswell["extensions_assumed"] is True
    assert "extensions_assumed" not in function["versions"][0]
    assert "(assumed)" in mavcg("inspect", tmp_path / "libodd.so").stdout
