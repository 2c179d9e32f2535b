"""Branch protection of what is built: marks, landing pads of rescheduled versions, a processor that insists."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mavcg.objects.elf import open_elf, protection
from mavcg.toolchain.zig import run_tool, run_zig
from tests.machine import QEMU, needs_qemu
from tests.mavcg.conftest import Mavcg

SOURCE = """\
void axpy(float *restrict y, const float *restrict x, float a, int n) { for (int i = 0; i < n; i++) y[i] += a * x[i]; }
extern int twice(int);
int sum(const int *x, int n) { int s = 0; for (int i = 0; i < n; i++) s += twice(x[i]); return s; }
"""
# No C library: the emulator enforces landing pads only where the whole program is marked.
START = r"""
int twice(int x) { return 2 * x; }
extern void axpy(float *, const float *, float, int);
extern int sum(const int *, int);
static void leave(long status) {
    register long x8 __asm__("x8") = 94;
    register long x0 __asm__("x0") = status;
    __asm__ volatile("svc #0" : : "r"(x8), "r"(x0));
    __builtin_unreachable();
}
void start_in_c(void) {
    static float y[64], x[64];
    static int n[64];
    for (int i = 0; i < 64; i++) y[i] = (float)i, x[i] = 2.0f, n[i] = i;
    void (*volatile through_pointer)(float *, const float *, float, int) = axpy;
    through_pointer(y, x, 3.0f, 64);
    for (int i = 0; i < 64; i++) if (y[i] != (float)i + 6.0f) leave(1);
    if (UNMARKED) {
        extern void no_pad(void);
        void (*volatile bad)(void) = no_pad;
        bad();
    }
    leave(sum(n, 64) == 64 * 63 ? 0 : 2);
}
__asm__(".globl _start\n_start: bti c\n mov x29, #0\n bl start_in_c\n.globl no_pad\nno_pad: ret\n");
"""


def _code(path: Path, *more: str) -> dict[str, list[str]]:
    """Function -> its instructions, addresses left out."""
    found: dict[str, list[str]] = {}
    for line in run_tool(["llvm-objdump", "-d", "--no-show-raw-insn", *more, str(path)], "disassembling").splitlines():
        if start := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            found[start[1]] = instructions = []
        elif line.startswith(" "):
            instructions.append(line.split(":", 1)[1].strip())
    return found


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("protection")
    (folder / "k.c").write_text(SOURCE)
    return folder


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("llvm-objdump"), reason="llvm-objdump is not installed")
def test_tuned_arm_versions_and_dispatchers_begin_with_landing_pads(mavcg: Mavcg, sources: Path) -> None:
    out = sources / "libk.so"
    build = ["build", "--source", sources / "k.c", "--hot", "axpy,sum", "--cores", "cortex-a55,exynos-m4"]
    done = mavcg(*build, "--target", "aarch64-linux-gnu.2.17", "-o", out, "--json")
    assert done.status == 0, done.stderr
    assert '"loops_tuned": 1' in done.stdout  # machine passes have been over the A55's version
    assert protection(out) == ["BTI", "PAC", "GCS"]
    dynamic = next(section for section in open_elf(out).iter_sections() if section["sh_type"] == "SHT_DYNAMIC")
    assert any(tag.entry.d_tag == "DT_AARCH64_BTI_PLT" or tag.entry.d_tag == 0x70000001 for tag in dynamic.iter_tags())

    code = _code(out, "--mattr=+bti,+pauth")
    callable_by_pointer = [name for name in code if re.match(r"(axpy|sum)(\.[a-z0-9-]+)?$", name)]
    assert {"axpy", "axpy.slow", "axpy.generic", "axpy.cortex-a55", "sum"} <= set(callable_by_pointer)
    for name in callable_by_pointer:
        assert re.match(r"bti\s+c|paciasp|hint\s+#(34|25)", code[name][0]), (name, code[name][:3])
    signing = [i for i, text in enumerate(code["sum.cortex-a55"]) if re.match(r"paciasp|autiasp|retaa", text)]
    assert len(signing) >= 2
    # The whole price of a dispatch is the pad: 14 instructions and a branch were counted without.
    until_branch = next(i for i, text in enumerate(code["axpy"]) if re.match(r"br\s", text))
    assert until_branch == 15


@pytest.mark.skipif(not shutil.which("llvm-objdump"), reason="llvm-objdump is not installed")
def test_x86_versions_and_dispatchers_begin_with_endbr64(mavcg: Mavcg, sources: Path) -> None:
    out = sources / "libx.so"
    build = ["build", "--source", sources / "k.c", "--hot", "axpy", "--cores", "haswell,znver3"]
    done = mavcg(*build, "--target", "x86_64-linux-gnu.2.17", "-o", out)
    assert done.status == 0, done.stderr
    assert protection(out) == ["IBT", "SHSTK"]
    code = _code(out)
    for name in ("axpy", "axpy.slow", "axpy.generic", "axpy.haswell", "sum"):
        assert code[name][0] == "endbr64", name
    assert next(i for i, text in enumerate(code["axpy"]) if text.startswith("jmpq")) == 13  # 12 without the pad


@pytest.mark.long
def test_the_programs_own_choice_wins(mavcg: Mavcg, sources: Path) -> None:
    out = sources / "libown.so"
    build = ["build", "--source", sources / "k.c", "--flag=-mbranch-protection=none", "--hot", "axpy"]
    done = mavcg(*build, "--cores", "cortex-a55", "--target", "aarch64-linux-musl", "-o", out)
    assert done.status == 0, done.stderr
    assert protection(out) == []
    assert "libown.so is not marked for branch protection" in " ".join(done.stdout.split())


@needs_qemu
def test_it_runs_where_landing_pads_are_enforced(mavcg: Mavcg, sources: Path) -> None:
    build = ["build", "--source", sources / "k.c", "--hot", "axpy,sum", "--cores", "cortex-a55,cortex-a75"]
    done = mavcg(*build, "--target", "aarch64-linux-musl", "-o", sources / "k.o")
    assert done.status == 0, done.stderr
    assert protection(sources / "k.o") == ["BTI", "PAC", "GCS"]
    (sources / "start.c").write_text(START)
    ended = []
    for unmarked in (0, 1):
        flags = ["-target", "aarch64-linux-musl", "-mbranch-protection=standard", "-O1", "-ffreestanding", "-g0"]
        flags += ["-fno-builtin", "-fno-sanitize=all", "-fno-stack-protector", f"-DUNMARKED={unmarked}"]
        run_zig("cc", [*flags, "-c", "start.c", "-o", "start.o"], "compiling", sources)
        run_zig("ld.lld", ["-static", "-z", "force-bti", "start.o", "k.o", "-o", "program"], "linking", sources)
        assert "BTI" in protection(sources / "program")
        assert QEMU
        ended.append(subprocess.run([QEMU, "-cpu", "max", str(sources / "program")], capture_output=True).returncode)
    # The emulator does look: a call through a pointer to a function without a pad ends the program.
    assert ended[0] == 0 and ended[1] != 0
