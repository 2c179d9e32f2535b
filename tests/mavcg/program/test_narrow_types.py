"""Versions of code with halves, bfloat16 and 8-bit matrix products: tuned, and with the results of generic code."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mavcg.toolchain.zig import zig_program
from tests.conftest import zig_cache
from tests.machine import QEMU, needs_qemu

AXPY = """\
void axpy(const _Float16 *x, const _Float16 *b, _Float16 *y, long n) {
    for (long i = 0; i < n; i++) y[i] += b[0] * x[i];
}
"""
HALVES = """\
#include <arm_neon.h>
void fmas(const float16_t *a, const float16_t *b, float16_t *c, long k) {
    float16x8_t s[4] = {vdupq_n_f16(0), vdupq_n_f16(0), vdupq_n_f16(0), vdupq_n_f16(0)};
    for (long p = 0; p < k; p++) {
        float16x8_t x = vld1q_f16(a + 8 * p), y = vld1q_f16(b + 8 * p);
        s[0] = vfmaq_laneq_f16(s[0], y, x, 0), s[1] = vfmaq_laneq_f16(s[1], y, x, 3);
        s[2] = vfmaq_laneq_f16(s[2], y, x, 5), s[3] = vfmaq_f16(s[3], y, x);
    }
    for (int i = 0; i < 4; i++) vst1q_f16(c + 8 * i, s[i]);
}
"""
MATRIX = """\
#include <arm_neon.h>
void smm(const int8_t *a, const int8_t *b, int *c, long k) {
    int32x4_t s[4] = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};
    for (long p = 0; p < k; p++, a += 32, b += 32) {
        int8x16_t x0 = vld1q_s8(a), x1 = vld1q_s8(a + 16), y0 = vld1q_s8(b), y1 = vld1q_s8(b + 16);
        s[0] = vmmlaq_s32(s[0], x0, y0), s[1] = vmmlaq_s32(s[1], x0, y1);
        s[2] = vmmlaq_s32(s[2], x1, y0), s[3] = vmmlaq_s32(s[3], x1, y1);
    }
    for (int i = 0; i < 4; i++) vst1q_s32(c + 4 * i, s[i]);
}
void bmm(const bfloat16_t *a, const bfloat16_t *b, float *c, long k) {
    float32x4_t s = vdupq_n_f32(0), t = s;
    for (long p = 0; p < k; p++, a += 8, b += 8) {
        s = vbfmmlaq_f32(s, vld1q_bf16(a), vld1q_bf16(b));
        t = vbfdotq_f32(t, vld1q_bf16(a), vld1q_bf16(b));
    }
    vst1q_f32(c, s), vst1q_f32(c + 4, t);
}
"""
MAIN = """\
#include <stdint.h>
#include <stdio.h>
%s
static _Alignas(16) uint16_t a[600], b[600], c[600];
int main(void) {
    void (*const run[])(const void *, const void *, void *, long) = {%s};
    for (unsigned f = 0; f < sizeof run / sizeof *run; f++) {
        for (int k = 0; k < 20; k++) {
            for (int i = 0; i < 600; i++) a[i] = 0x3a00 + i * 97 %% 999, b[i] = 0xbb00 - i * 31 %% 799;
            for (int i = 0; i < 600; i++) c[i] = 0x3c00 + i;
            run[f](a, b, c, k);
            uint32_t digest = 0;
            for (int i = 0; i < 600; i++) digest = digest * 31 + c[i];
            printf("%%x ", digest);
        }
    }
    return 0;
}
"""


@pytest.mark.sample(1)
@needs_qemu
@pytest.mark.parametrize(
    ("march", "core", "source", "names", "tuned"),
    [
        ("armv8.2-a+fp16", "cortex-a55", HALVES + AXPY, ("fmas", "axpy"), {"fmas", "axpy"}),
        ("armv8.6-a+fp16+bf16+i8mm", "cortex-a510", MATRIX, ("smm", "bmm"), {"smm"}),
        ("armv8-a", "cortex-a55", AXPY, ("axpy",), set()),
    ],
    ids=["halves", "matrix products", "halves in a program for Armv8.0"],
)
def test_versions_have_the_results_of_generic_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mavcg: Any,
    march: str,
    core: str,
    source: str,
    names: tuple[str, ...],
    tuned: set[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", zig_cache())
    Path("k.c").write_text(source)
    declared = "\n".join(f"void {name}(const void *, const void *, void *, long);" for name in names)
    Path("main.c").write_text(MAIN % (declared, ", ".join(names)))
    options = ["--cores", core, "--target", "aarch64-linux-musl", "--runtime", "static", "--keep-slower"]
    inputs = ["--source", "k.c", f"--flag=-march={march}", "--hot", ",".join(names)]
    done = mavcg("build", *inputs, *options, "-o", "k.o", "--json")
    assert done.status == 0, done.stderr
    functions = {f["name"]: f["versions"] for f in json.loads(done.stdout)["functions"]}
    assert tuned <= {name for name, versions in functions.items() if versions[1]["model"]["loops_tuned"]}
    # What rounds differently is in no version, unless the program itself is built with it.
    assert not any({"fullfp16", "bf16"} & {*version["extensions"]} for v in functions.values() for version in v)
    link = [zig_program(), "cc", "-target", "aarch64-linux-musl", "-static", "-O1", "main.c", "k.o", "-o", "app"]
    subprocess.run(link, check=True)

    outputs = {}
    for label in ("generic", core):
        environment = {"MAVCG_CPU_MAP": f"all={label}", "MAVCG_TRACE": "1"}
        ran = subprocess.run([str(QEMU), "-cpu", "max", "./app"], env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert f" {label} 20" in ran.stderr or all(v[1]["shares_body_with"] for v in functions.values())
        outputs[label] = ran.stdout
    assert outputs["generic"] == outputs[core] and len(set(outputs[core].split())) > 10
