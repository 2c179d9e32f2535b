"""A machine that hides what its cores have: no version runs an instruction that the kernel does not offer.

The example is the one that found it: source built for plain Armv8.0, whose versions for newer cores have `ldadd`. Under
`qemu-aarch64 -cpu cortex-a53,midr=0x412fd050` the MIDR_EL1 says Cortex-A55 r2 and AT_HWCAP has no atomics, as under a
hypervisor that hides them.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mavcg.toolchain.zig import zig_program
from tests.conftest import zig_cache
from tests.machine import QEMU, needs_qemu

pytestmark = needs_qemu

COMPILER = "aarch64-linux-gnu-gcc"
SOURCE = """\
#include <stdatomic.h>
long hot_add(_Atomic long *p, int n) { long s = 0; for (int i = 0; i < n; i++) \
s += atomic_fetch_add_explicit(p, i, memory_order_relaxed); return s; }
"""
MAIN = """\
#include <stdio.h>
long hot_add(_Atomic long *p, int n);
int main(void) { _Atomic long p = 1; long s = hot_add(&p, 10); printf("%ld %ld\\n", s, (long)p); return 0; }
"""
# Where Debian's gcc-aarch64-linux-gnu is not installed, ziglang's clang stands in for it under its name.
STAND_IN = """\
#!/bin/sh
[ "$1" = -dumpmachine ] && { echo aarch64-linux-gnu; exit; }
exec %s cc -target aarch64-linux-gnu.2.36 -mcpu=generic "$@"
"""
A55, A53_AS_A55, A53 = "max,midr=0x412fd050", "cortex-a53,midr=0x412fd050", "cortex-a53"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh folder with the example, in which aarch64-linux-gnu-gcc is a command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", zig_cache())
    (tmp_path / "at.c").write_text(SOURCE)
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "mavcg.toml").write_text('[build]\nhot = ["hot_add"]\nboard = "exynos9820"\nruntime = "static"\n')
    if shutil.which(COMPILER) is None:
        tools = tmp_path / "bin"
        tools.mkdir()
        (tools / COMPILER).write_text(STAND_IN % zig_program())
        (tools / COMPILER).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return tmp_path


def launched(folder: Path) -> Path:
    """The program of the example, built as the issue builds it."""
    launch = [sys.executable, "-m", "mavcg.cli", "launch", COMPILER, "-O2", "-mno-outline-atomics", "-c", "at.c"]
    done = subprocess.run(launch, capture_output=True, text=True)
    assert done.returncode == 0 and "hot_add (generic, cortex-a55, cortex-a75, exynos-m4)" in done.stderr
    static = [zig_program(), "cc", "-target", "aarch64-linux-musl", "-static", "-O2", "main.c", "at.o", "-o", "app"]
    subprocess.run(static, check=True)
    return folder / "app"


def run(program: Path, cpu: str, **environment: str) -> tuple[int, str, str]:
    command = [str(QEMU), "-cpu", cpu, str(program)]
    done = subprocess.run(command, env={"MAVCG_TRACE": "1", **environment}, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_version_with_atomics_does_not_run_where_the_kernel_hides_them(folder: Path) -> None:
    program = launched(folder)

    assert run(program, A53_AS_A55) == (0, "130 46\n", "mavcg: hot_add generic 1\n")
    assert run(program, A53) == (0, "130 46\n", "mavcg: hot_add generic 1\n")
    assert run(program, A55) == (0, "130 46\n", "mavcg: hot_add cortex-a55 1\n")


@pytest.mark.long
def test_a_version_that_calls_one_with_atomics_needs_them_too(folder: Path, mavcg: Any) -> None:
    """Versions call each other without a second dispatch: what the callee needs, its caller needs."""
    caller = "long scaled(_Atomic long *p, float *x, int n) { for (int i = 0; i < n; i++) x[i] = x[i] * 3 + x[i] / n; "
    source = "__attribute__((noinline)) " + SOURCE.split("\n", 1)[1] + caller + "return hot_add(p, n) + (long)x[1]; }\n"
    (folder / "at.c").write_text("#include <stdatomic.h>\n" + source)
    main = MAIN.replace("hot_add(_Atomic long *p, int n);", "scaled(_Atomic long *p, float *x, int n);")
    (folder / "main.c").write_text(
        main.replace("long s = hot_add(&p, 10)", "float x[10] = {9, 7}; long s = scaled(&p, x, 10)")
    )
    options = [
        "--source",
        "at.c",
        "--hot",
        "hot_add,scaled",
        "--cores",
        "cortex-a55",
        "--runtime",
        "static",
        "--keep-slower",
    ]
    mavcg("build", *options, "--target", "aarch64-linux-musl", "-o", "at.o")
    static = [zig_program(), "cc", "-target", "aarch64-linux-musl", "-static", "-O2", "main.c", "at.o", "-o", "app"]
    subprocess.run(static, check=True)

    assert run(folder / "app", A55) == (0, "151 46\n", "mavcg: scaled cortex-a55 1\n")
    assert run(folder / "app", A53_AS_A55) == (0, "151 46\n", "mavcg: scaled cortex-a55-base 1\n")
    assert run(folder / "app", A53) == (0, "151 46\n", "mavcg: scaled generic 1\n")
    [function] = [
        f for f in json.loads(mavcg("inspect", "at.o", "--json").stdout)["functions"] if f["name"] == "scaled"
    ]
    extensions = [(v["version"], v["extensions"]) for v in function["versions"]]
    assert extensions == [("generic", []), ("cortex-a55", ["lse"]), ("cortex-a55-base", [])]


@pytest.mark.long
def test_nor_does_a_map_make_it(folder: Path) -> None:
    program = launched(folder)
    status, output, messages = run(program, A53, MAVCG_CPU_MAP="all=exynos-m4")

    assert (status, output) == (0, "130 46\n") and messages.endswith("mavcg: hot_add generic 1\n")
    assert "'all=exynos-m4' names a core whose instructions this processor does not all have" in messages
    assert run(program, A55, MAVCG_CPU_MAP="all=exynos-m4")[2] == "mavcg: hot_add exynos-m4 1\n"


@pytest.mark.long
def test_inspect_names_what_each_version_needs(folder: Path, mavcg: Any) -> None:
    launched(folder)
    [function] = json.loads(mavcg("inspect", "at.o", "--json").stdout)["functions"]

    extensions = {version["core"]: version["extensions"] for version in function["versions"]}
    assert extensions == {"generic": [], "cortex-a55": ["lse"], "cortex-a75": ["lse"], "exynos-m4": ["lse"]}
    assert "extensions" in mavcg("inspect", "at.o").stdout


@pytest.mark.long
def test_what_the_function_itself_may_use_is_no_need(folder: Path, mavcg: Any) -> None:
    """By its own target attribute it has atomics wherever the program calls it."""
    attribute = '__attribute__((target("arch=armv8.1-a"))) long hot_add'
    (folder / "at.c").write_text(SOURCE.replace("long hot_add", attribute))
    command = [sys.executable, "-m", "mavcg.cli", "launch", COMPILER, "-O2", "-c", "at.c"]
    subprocess.run(command, check=True, capture_output=True)
    [function] = json.loads(mavcg("inspect", "at.o", "--json").stdout)["functions"]

    assert len(function["versions"]) == 4 and not any(version["extensions"] for version in function["versions"])
