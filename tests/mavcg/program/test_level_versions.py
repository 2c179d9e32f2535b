"""Several versions of one core: on machines that hide extensions the best one that can run does, with equal results."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mavcg.hardware.core import GENERIC
from mavcg.toolchain.zig import zig_program
from tests.conftest import zig_cache
from tests.machine import QEMU, needs_qemu
from tests.mavcg.program.static_link import STATIC

QEMU_X86 = shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64")
SOURCE = """\
#include <stdint.h>
int dot(const int8_t *a, const int8_t *b, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }
__attribute__((noinline)) int sum(const int8_t *a, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += a[i];
    return s;
}
int ones(const uint64_t *x, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += __builtin_popcountll(x[i] ^ n);
    return s;
}
int both(const int8_t *a, int n) { int s = 0; for (int i = 0; i < n; i++) s ^= a[i] * i; return s + sum(a, n); }
"""
MAIN = """\
#include <stdint.h>
#include <stdio.h>
int dot(const int8_t *, const int8_t *, int), both(const int8_t *, int), ones(const uint64_t *, int);
int main(void) {
    int8_t a[203], b[203];
    uint64_t x[37];
    for (int i = 0; i < 37; i++) x[i] = i * 0x123456789abcdefull;
    for (int i = 0; i < 203; i++) a[i] = (int8_t)(i * 7), b[i] = (int8_t)(i * 13 - 5);
    printf("%d %d %d\\n", dot(a, b, 203), both(b, 203), ones(x, 37));
    return 0;
}
"""
A55, A510, X2 = "midr=0x412fd050", "midr=0x410fd460", "midr=0x410fd480"


Built = dict[str, list[tuple[str, ...]]]


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mavcg: Any) -> Callable[..., Built]:
    """built(hot, cores, ..): the example as ./app; returns function -> (core, version, extensions..) of each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", zig_cache())
    Path("k.c").write_text(SOURCE)
    Path("main.c").write_text(MAIN)

    def build(hot: str, cores: str, *options: str, target: str = "aarch64-linux-musl") -> Built:
        settings = ["--cores", cores, "--target", target, "--runtime", "static", *options]
        mavcg("build", "--source", "k.c", "--hot", hot, *settings, "-o", "k.o")
        link = [zig_program(), "cc", "-target", target, *STATIC, "main.c", "k.o", "-o", "app"]
        subprocess.run(link, check=True)
        functions = json.loads(mavcg("inspect", "k.o", "--json").stdout)["functions"]
        return {f["name"]: [(v["core"], v["version"], *v["extensions"]) for v in f["versions"]] for f in functions}

    return build


def ran(cpu: str, emulator: str | None = QEMU, **environment: str) -> tuple[str, dict[str, str]]:
    """The program's output, and the version that each function ran on an emulated processor."""
    command = [str(emulator), "-cpu", cpu, "./app"]
    done = subprocess.run(command, env={"MAVCG_TRACE": "1", **environment}, capture_output=True, text=True, check=True)
    return done.stdout, dict(re.findall(r"^mavcg: (\w+) (\S+) 1$", done.stderr, re.MULTILINE))


@pytest.mark.long
@needs_qemu
def test_a_core_without_its_dot_products_runs_code_made_for_it(built: Callable[..., Built]) -> None:
    versions = built("dot", "cortex-a55")
    assert versions["dot"] == [
        (GENERIC, GENERIC),
        ("cortex-a55", "cortex-a55", "dotprod"),
        ("cortex-a55", "cortex-a55-v81"),
    ]

    output, everywhere = ran(f"max,{A55}")
    assert everywhere["dot"] == "cortex-a55"
    same, hidden = ran(f"cortex-a53,{A55}")
    assert (same, hidden["dot"]) == (output, "cortex-a55-v81")
    assert ran("cortex-a53") == (output, {name: GENERIC for name in everywhere})
    # A map that names a core means its best version that can run; a level has a name, too.
    assert ran("cortex-a53", MAVCG_CPU_MAP="all=cortex-a55")[1]["dot"] == "cortex-a55-v81"
    assert ran("max", MAVCG_CPU_MAP="all=cortex-a55")[1]["dot"] == "cortex-a55"
    assert ran("max", MAVCG_CPU_MAP="all=cortex-a55-v81")[1]["dot"] == "cortex-a55-v81"


@needs_qemu
def test_a_phone_with_sve_switched_off_runs_the_neon_version_of_the_same_core(built: Callable[..., Built]) -> None:
    versions = built("dot", "cortex-a510,cortex-x2", "--versions", "all", "--max-growth", "100000")
    sve = ("sve", "sve-bitperm", "sve2")
    of_a510 = [version for version in versions["dot"] if version[0] == "cortex-a510"]
    assert of_a510 == [
        ("cortex-a510", "cortex-a510-sve2", *sve),
        ("cortex-a510", "cortex-a510", "dotprod"),
        ("cortex-a510", "cortex-a510-v81"),
    ]

    output, offered = ran(f"max,{A510}")
    assert offered["dot"] == "cortex-a510-sve2"
    tried = {
        f"max,sve=off,{A510}": "cortex-a510",
        f"cortex-a76,{A510}": "cortex-a510",
        f"cortex-a53,{A510}": "cortex-a510-v81",
        f"max,{X2}": "cortex-x2-sve2",
        f"max,sve=off,{X2}": "cortex-x2",
        f"max,sve=off,pauth=off,{X2}": "cortex-x2",
    }
    for cpu, version in tried.items():
        same, instead = ran(cpu)
        assert (same, instead["dot"]) == (output, version), cpu


def test_one_version_a_core_is_what_there_was_before(built: Callable[..., Built]) -> None:
    assert [k[1] for k in built("dot", "cortex-a55", "--versions", "one")["dot"]] == [GENERIC, "cortex-a55"]


@pytest.mark.long
@needs_qemu
def test_functions_that_call_each_other_have_the_same_levels(built: Callable[..., Built]) -> None:
    """`both` calls the version of `sum` of its own level; no symbol is left undefined."""
    versions = built("both,sum", "cortex-a55", "--keep-slower", "--versions", "all")
    assert [k[1:] for k in versions["sum"]] == [(GENERIC,), ("cortex-a55", "dotprod"), ("cortex-a55-v81",)]

    output, everywhere = ran(f"max,{A55}")
    same, hidden = ran(f"cortex-a53,{A55}")
    assert same == output and everywhere["both"] == "cortex-a55"
    assert hidden["both"] in ("cortex-a55", "cortex-a55-v81") and ran("cortex-a53")[0] == output


@pytest.mark.long
@pytest.mark.skipif(QEMU_X86 is None, reason="qemu-x86_64 is not installed")
def test_a_server_whose_avx_512_is_hidden_runs_the_level_below(built: Callable[..., Built]) -> None:
    """No model knows x86 cores: their levels are made on request alone."""
    target = "x86_64-linux-musl"
    versions = built("ones", "skylake-avx512", "--versions", "all", "--max-growth", "100000", target=target)["ones"]
    core = "skylake-avx512"
    assert [version[1] for version in versions] == [GENERIC, core, f"{core}-avx2", f"{core}-base"]
    assert any(extension.startswith("avx512") for extension in versions[1]) and "avx2" in versions[2]
    assert not any(extension.startswith("avx512") for extension in versions[2])

    output, without = ran("Skylake-Server-v1", QEMU_X86)  # QEMU has no AVX-512
    assert without["ones"] == "skylake-avx512-avx2"
    same, neither = ran("Skylake-Server-v1,-avx2,-avx", QEMU_X86)
    assert (same, neither["ones"]) == (output, f"{core}-base")
    assert [k[1] for k in built("ones", "skylake-avx512", target=target)["ones"]] == [GENERIC, "skylake-avx512"]


def test_a_word_that_is_no_choice_is_refused(mavcg: Any, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(SOURCE)
    options = ["--hot", "dot", "--cores", "cortex-a55", "--versions", "some", "-o", tmp_path / "k.so"]
    done = mavcg("build", "--source", tmp_path / "k.c", *options)
    assert done.status == 2 and "--versions some: is not one, modelled or all; give one of them" in done.stderr
