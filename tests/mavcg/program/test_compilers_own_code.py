"""A core's version is the code that clang writes for it with -march: so it is no slower than that.

Only where the rounding of floating-point arithmetic may differ are they not the same (docs/design/one-answer.md).
"""

import re
from pathlib import Path

import pytest

from mavcg.profiles.load import load_core
from mavcg.program.version_values import VersionOptions
from mavcg.program.versions import make_versions
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import run_zig

TARGET = parse_target("x86_64-linux-gnu.2.17")
KERNELS = """
typedef unsigned char u8;
void prefix(int *restrict y, const int *restrict x, int n) { int s = 0; for (int i = 0; i < n; i++) y[i] = s += x[i]; }
long chase(const long *next, long n) { long at = 0; while (n--) at = next[at]; return at; }
unsigned crc(const u8 *p, int n, const unsigned *table) {
    unsigned c = ~0u;
    for (int i = 0; i < n; i++) c = table[(c ^ p[i]) & 255] ^ (c >> 8);
    return ~c;
}
void divide(unsigned *restrict y, const unsigned *restrict x, unsigned d, int n) {
    for (int i = 0; i < n; i++) y[i] = x[i] / d;
}
void product(int *restrict c, const int *restrict a, const int *restrict b) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int s = 0;
            for (int k = 0; k < 4; k++) s += a[4 * i + k] * b[4 * k + j];
            c[4 * i + j] = s;
        }
}
void histogram(int *restrict h, const u8 *restrict x, int n) { for (int i = 0; i < n; i++) h[x[i]]++; }
int dot(const signed char *restrict a, const signed char *restrict b, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}
int bits(const unsigned long *x, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += __builtin_popcountl(x[i]);
    return s;
}
void scale(float *restrict y, const float *restrict x, float a, int n) { for (int i = 0; i < n; i++) y[i] += x[i] * a; }
"""
FUNCTIONS = re.findall(r"^\w+ (\w+)\(", KERNELS, re.MULTILINE)
FLAGS = ("-target", TARGET.llvm_triple, "-O3", "-ffp-contract=off", "-fno-asynchronous-unwind-tables", "-S", "-o", "-")


def _instructions(asm: str, symbol: str) -> list[str]:
    """Return a function's instructions, without names of labels."""
    code = re.search(rf'^"?{re.escape(symbol)}"?:(.*?)^\.Lfunc_end', asm, re.DOTALL | re.MULTILINE)
    assert code is not None, symbol
    lines = (line.partition("#")[0].strip() for line in code[1].splitlines())
    return [re.sub(r"\.L\w+", "label", line) for line in lines if line and line[0] != "."]


@pytest.mark.parametrize("core", ["haswell", "znver4"])
def test_a_version_is_the_compilers_own_code(core: str, tmp_path: Path) -> None:
    known = load_core(core)
    (tmp_path / "k.c").write_text(KERNELS)
    source = str(tmp_path / "k.c")
    ir = run_zig("clang", [*FLAGS, "-Xclang", "-disable-llvm-passes", "-emit-llvm", source], "")
    versions = make_versions(ir, "k.c", "3", FUNCTIONS, VersionOptions([known], TARGET))
    by_clang = run_zig("clang", [*FLAGS, f"-march={known.llvm_cpu}", source], "")
    own = {body.function: _instructions(body.asm, body.symbol) for body in versions.bodies if body.label == core}
    assert len(FUNCTIONS) == 9 and own == {name: _instructions(by_clang, name) for name in FUNCTIONS}
