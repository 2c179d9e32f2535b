"""128-bit loads as two halves: the IR, what stays whole, the assembly that LLVM makes of it, and the results."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mavcg.assembly.tuning_options import Tuning
from mavcg.passes.ir.split_vector_loads import count_splits, split_vector_loads
from mavcg.profiles.folders import files
from mavcg.profiles.load import cores_for
from mavcg.program.version_values import VersionOptions
from mavcg.program.versions import make_versions
from mavcg.toolchain.codegen import canonical
from mavcg.toolchain.target import parse_target

ARM = parse_target("aarch64-linux-musl")
LOOP = """\
define void @scale(ptr %p, ptr %end) {
  %first = load <4 x float>, ptr %p, align 4
  br label %loop

loop:                                             ; preds = %loop, %0
  %q = phi ptr [ %p, %0 ], [ %next, %loop ]
  %v = load <4 x float>, ptr %q, align 4, !tbaa !0
  %s = fmul <4 x float> %v, %first
  store <4 x float> %s, ptr %q, align 4
  %next = getelementptr inbounds i8, ptr %q, i64 16
  %done = icmp eq ptr %next, %end
  br i1 %done, label %exit, label %loop

exit:                                             ; preds = %loop
  ret void
}

!0 = !{!1, !1, i64 0}
!1 = !{!"float", !2, i64 0}
!2 = !{!"omnipotent char"}
"""
LOAD = "load <4 x float>, ptr %q, align 4, !tbaa !0"
# A loop that no kernel of this project has: f32, f64 and narrow integers, unaligned pointers, a count of any size.
SOURCE = """
#include <stdint.h>
void blend(const float *a, const double *w, const uint8_t *m, const int16_t *d, float *out, long n) {
    for (long i = 0; i < n; i++) out[i] = a[i] * (float)w[i] + (float)((m[i] ^ 0x5a) - d[i]);
}
"""
MAIN = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
void blend(const float *a, const double *w, const uint8_t *m, const int16_t *d, float *out, long n);
int main(void) {
    static float a[107], out[107]; static double w[107]; static uint8_t m[107]; static int16_t d[107];
    uint32_t x = 1;
    for (int i = 0; i < 107; i++) {
        x = x * 1664525u + 1013904223u;
        a[i] = (float)(int32_t)x / 65536.0f; w[i] = 1.0 / (i + 3) - 0.125; m[i] = x >> 24; d[i] = (int16_t)(x >> 7);
    }
    a[11] = __builtin_nanf(""); a[12] = -0.0f; a[13] = __builtin_inff(); w[14] = 1e300; a[15] = 1e-42f;
    for (long n = 0; n <= 100; n += n < 40 ? 1 : 20) {
        memset(out, 0, sizeof out);
        blend(a + 1, w + 3, m + 5, d + 1, out + 2, n);
        for (int i = 0; i < 107; i++) { uint32_t bits; memcpy(&bits, &out[i], 4); printf("%08x\n", bits); }
    }
    return 0;
}
"""


def test_a_loop_before_and_after(golden: object) -> None:
    after = split_vector_loads(canonical(LOOP))

    assert golden == f"{canonical(LOOP)}\n; after\n{canonical(after)}"
    assert count_splits(canonical(LOOP), after) == 1


def test_a_second_time_changes_nothing() -> None:
    once = canonical(split_vector_loads(canonical(LOOP)))

    assert canonical(split_vector_loads(once)) == once


@pytest.mark.parametrize(
    "kind", ["<2 x double>", "<16 x i8>", "<8 x i16>", "<4 x i32>", "<2 x i64>", "<8 x half>", "<16 x float>"]
)
def test_every_type_of_128_bits(kind: str) -> None:
    text = canonical(LOOP.replace("fmul", "add" if "i" in kind else "fmul").replace("<4 x float>", kind))

    assert count_splits(text, canonical(split_vector_loads(text))) == 1


@pytest.mark.parametrize(
    "load",
    [
        LOAD.replace("load", "load volatile"),
        LOAD.replace("load <4 x float>", "load atomic <2 x i64>").replace(", align", " monotonic, align"),
        LOAD.replace("!tbaa !0", "!nontemporal !3"),
        LOAD.replace("ptr %q", "ptr addrspace(1) null"),
        LOAD.replace("<4 x float>", "<2 x ptr>"),
    ],
)
def test_what_has_to_be_one_access_stays(load: str) -> None:
    text = f"{LOOP}!3 = !{{i32 1}}\n".replace(LOAD, f"{LOAD}\n  %w = {load}")

    # Text alone: not every LLVM has an atomic load of a vector.
    assert f"  %w = {load}\n" in split_vector_loads(text) and f"  %v = {LOAD}\n" not in split_vector_loads(text)


def test_a_load_for_a_structure_load_stays() -> None:
    narrow = "%e = shufflevector <4 x float> %v, <4 x float> poison, <2 x i32> <i32 0, i32 2>"
    text = LOOP.replace("  %s =", f"  {narrow}\n  %s =")

    assert split_vector_loads(text).count(LOAD) == 1


def test_loads_of_an_outer_loop_stay() -> None:
    """Only where the loads are most frequent: the paper's algorithm 3.1 looks into innermost loops."""
    outer = "outer:\n  %o = load <4 x float>, ptr %p, align 4\n  br label %loop\n\nloop:"
    text = LOOP.replace("  br label %loop\n\nloop:", f"  br label %outer\n\n{outer}").replace("%0", "%outer")
    text = canonical(
        text.replace("label %exit, label %loop", "label %again, label %loop").replace(
            "exit: ", "again:\n  br i1 %done, label %exit, label %outer\n\nexit: "
        )
    )
    after = split_vector_loads(text)

    assert count_splits(text, after) == 1
    assert "%o = load <4 x float>, ptr %p, align 4\n" in after and "%first = load <4 x float>" in after


def test_both_halves_have_the_pointer_of_the_whole_load() -> None:
    after = split_vector_loads(canonical(LOOP))

    low, at = re.search(r"load <2 x float>, ptr (%\S+),", after), re.search(r"i8, ptr (%\S+), i64 8", after)
    assert low and at and low[1] == at[1] == "%q"


def test_a_name_that_is_taken_stops_the_split() -> None:
    text = LOOP.replace("  %next =", "  %v.half = add i64 0, 0\n  %next =")

    assert split_vector_loads(text).count(LOAD) == 1


def test_numbered_values_and_quoted_names() -> None:
    for name in ("%7", '%"v of q"'):
        text = split_vector_loads(LOOP.replace("%v ", f"{name} ").replace("%v,", f"{name},"))
        if name == "%7":
            text = text.replace("%7", "%1").replace('"7.', '"1.')  # LLVM wants numbers in order
        assert count_splits(canonical(LOOP), canonical(text)) == 1


def own_core(folder: Path, monkeypatch: pytest.MonkeyPatch, loads: str) -> None:
    """Put a Cortex-A55 with this [loads] in place of the profile that ships."""
    text = files("cores")["cortex-a55"].read_text()
    (folder / "cores").mkdir()
    (folder / "cores/cortex-a55.toml").write_text(re.sub(r"(?s)\[loads\].*?\n\n", f"[loads]\n{loads}\n\n", text))
    monkeypatch.setenv("MAVCG_PROFILES", str(folder))


IN_IR = 'split_in_ir = { value = true, source = "this test" }'


def test_no_core_asks_for_it() -> None:
    assert not [core for core in cores_for(["cortex-a53", "cortex-a55", "cortex-a55-r0"]) if core.policy.split_in_ir]


def test_the_split_survives_llvm(ir: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = assembly_of(ir)
    own_core(tmp_path, monkeypatch, IN_IR)
    split = assembly_of(ir)

    # LLVM's whole loads are there without the pass, and none is left in a loop with it.
    assert re.search(r"ld[rp]\tq", _loops(whole)) and not re.search(r"\tmov\tv\d+\.d\[1\], x", _loops(whole))
    assert not re.search(r"ld[rpu]+\tq|ld1\t\{ v\d+\.d \}", _loops(split))
    inserts = len(re.findall(r"\tmov\tv\d+\.d\[1\], x", _loops(split)))
    assert inserts == len(re.findall(r"\tldu?r\tx", _loops(split))) >= 4
    assert len(re.findall(r"\tld(?:u?r|p)\td", _loops(split))) >= inserts // 2


def test_only_the_core_that_asks_has_split_loads(
    ir: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_core(tmp_path, monkeypatch, IN_IR)
    by_core = {label: _loops(assembly_of(ir, label)) for label in ("cortex-a55", "exynos-m4", "generic")}

    assert [label for label, asm in by_core.items() if re.search(r"\tmov\tv\d+\.d\[1\], x", asm)] == ["cortex-a55"]
    assert all(re.search(r"ld[rp]\tq", by_core[label]) for label in ("exynos-m4", "generic"))


def assembly_of(ir: Callable[..., str], label: str = "cortex-a55") -> str:
    cores = cores_for(["cortex-a55"] if label == "cortex-a55" else ["cortex-a55", "exynos-m4"])
    made = make_versions(
        ir(SOURCE, flags=["-O3"]), "a.c", "3", ["blend"], VersionOptions(cores, ARM, tuning=Tuning(on=False))
    )
    return next(body.asm for body in made.bodies if body.label == label)


def _loops(asm: str) -> str:
    """Return the blocks that LLVM calls headers of loops; loads elsewhere may be whole."""
    blocks = re.split(r"(?m)^(?=\.LBB)", asm)
    return "".join(block for block in blocks if "Loop Header" in block)


def test_the_same_bits(build_versions: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_core(tmp_path, monkeypatch, IN_IR)
    built = build_versions({"main.c": MAIN, "blend.c": SOURCE}, "blend", ["cortex-a55"], target=ARM, flags=("-O3",))
    ran = built.versions_run("cortex-a55")

    assert ran["blend"] == "cortex-a55"
    assert built.run("cortex-a55") == built.run("generic") == built.run(plain=True)
