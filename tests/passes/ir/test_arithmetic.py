"""Multiply-adds and fast-math decided once, as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.passes.ir.arithmetic import (
    declare_fma,
    explicit_fmuladd,
    fuse_contracted,
    has_fast_math,
    has_narrow_floats,
    has_ordered_reduction,
    sums_of_products,
    without_fast_math,
)
from mavcg.passes.ir.attributes import fused_types
from mavcg.toolchain.codegen import canonical

MULADDS = """\
declare float @llvm.fmuladd.f32(float, float, float)
declare <4 x float> @llvm.fmuladd.v4f32(<4 x float>, <4 x float>, <4 x float>)
declare half @llvm.fmuladd.f16(half, half, half)
declare float @llvm.experimental.constrained.fmuladd.f32(float, float, float, metadata, metadata)

define float @scalar(float %a, float %b, float %c) {
  %1 = tail call noundef float @llvm.fmuladd.f32(float noundef %a, float %b, float 1.000000e+00)
  %"a b" = call nnan contract float @llvm.fmuladd.f32(float %1, float %b, float %c), !fpmath !0
  ret float %"a b"
}

define <4 x float> @vector(<4 x float> %a, <4 x float> %b) {
  %r = call <4 x float> @llvm.fmuladd.v4f32(<4 x float> %a, <4 x float> splat (float 2.000000e+00), <4 x float> %b)
  ret <4 x float> %r
}

define half @narrow(half %a, half %b, half %c) {
  %r = call half @llvm.fmuladd.f16(half %a, half %b, half %c)
  ret half %r
}

define float @strict(float %a, float %b, float %c) strictfp {
  %r = call float @llvm.experimental.constrained.fmuladd.f32(float %a, float %b, float %c, metadata \
!"round.dynamic", metadata !"fpexcept.ignore") strictfp
  ret float %r
}

!0 = !{float 2.5}
"""
CONTRACTED = """\
define float @sums(float %a, float %b, float %c) {
  %m1 = fmul contract float %a, %b
  %r1 = fadd contract float %m1, %c
  %m2 = fmul fast float %r1, 2.000000e+00
  %r2 = fsub fast float %m2, %c
  %m3 = fmul contract float %r2, %b
  %r3 = fsub contract float %c, %m3, !fpmath !0
  %m4 = fmul contract float %r3, %b
  %r4 = fadd contract float %c, %m4
  ret float %r4
}

define float @not_these(float %a, float %b) {
  %plain = fmul float %a, %b
  %r1 = fadd contract float %plain, %b
  %twice = fmul contract float %r1, %b
  %r2 = fadd contract float %twice, %a
  %r3 = fadd contract float %twice, %r2
  %once = fmul contract float %r3, %b
  %r4 = fadd float %once, %a
  %reassociated = fmul reassoc float %r4, %b
  %r5 = fadd reassoc float %reassociated, %a
  ret float %r5
}

define half @narrow(half %a, half %b) {
  %m = fmul contract half %a, %b
  %r = fadd contract half %m, %a
  ret half %r
}

define <2 x double> @vectors(<2 x double> %a, <2 x double> %b) {
  %m = fmul contract <2 x double> %a, splat (double 3.000000e+00)
  %n = fmul contract <2 x double> %b, %b
  %r = fadd contract <2 x double> %m, %n
  ret <2 x double> %r
}

!0 = !{float 2.5}
"""


@pytest.mark.parametrize("fused", ["", "float", "float,half"])
def test_explicit_fmuladd(golden: object, fused: str) -> None:
    text = declare_fma(explicit_fmuladd(canonical(MULADDS), fused.split(",")))
    assert golden == canonical(text)  # which LLVM reads


def test_no_fmuladd_is_left() -> None:
    for fused in ((), ("float", "double", "half")):
        text = explicit_fmuladd(canonical(MULADDS), fused)
        assert [line for line in text.split("\n") if "fmuladd" in line and not line.startswith("declare")] == []


def test_fuse_contracted(golden: object) -> None:
    assert golden == canonical(declare_fma(fuse_contracted(canonical(CONTRACTED), ("float", "double"))))


def test_text_without_any_stays_as_it_is() -> None:
    text = canonical("define float @f(float %a) {\n  %r = fadd contract float %a, 1.0\n  ret float %r\n}\n")
    assert explicit_fmuladd(text, ("float",)) == text
    assert fuse_contracted(text, ("float",)) == text
    assert declare_fma(text) == text


FLAGS = st.lists(st.sampled_from(["nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc"]), unique=True)
OPERATIONS = {
    "fadd {} float %a, %b": "float",
    "fneg {} float %a": "float",
    "fcmp {} olt float %a, %b": "i1",
    "select {} i1 true, float %a, float %b": "float",
    "call {} float @llvm.sqrt.f32(float %a)": "float",
    "tail call {} noundef float @llvm.sqrt.f32(float %a)": "float",
    "frem {} float %a, %b": "float",
    "fpext {} float %a to double": "double",
}


@given(FLAGS, st.sampled_from(list(OPERATIONS)))
def test_every_flag_of_every_operation_goes(flags: list[str], operation: str) -> None:
    text = (
        "declare float @llvm.sqrt.f32(float)\n"
        f"define void @f(float %a, float %b) {{\n  %r = {operation.format(' '.join(flags))}\n  ret void\n}}\n"
    )
    printed = canonical(text)
    assert has_fast_math(printed) == bool(flags)
    assert without_fast_math(printed) == canonical(text.replace(f"{' '.join(flags)} ", "", 1) if flags else text)


def test_words_that_only_look_like_flags_stay() -> None:
    body = "{\n  %nsz = fadd float %nnan, 1.0\n  ret float %nsz\n}"
    printed = canonical(f'define float @fast(float %nnan) nounwind "no-nans-fp-math"="true" {body}')
    assert not has_fast_math(printed)
    assert canonical(without_fast_math(printed)) == canonical(f"define float @fast(float %nnan) nounwind {body}")


def test_sums_of_products_counts_fadd_and_fsub_of_fmul() -> None:
    printed = canonical(CONTRACTED)
    assert sums_of_products(printed, {"float"}) == 9
    assert sums_of_products(printed, {"half"}) == 1
    assert sums_of_products(printed, {"double"}) == 1
    assert sums_of_products(printed, set()) == 0


def test_narrow_floats_and_reductions_are_seen() -> None:
    assert has_narrow_floats(MULADDS) and not has_narrow_floats("define float @behalf(float %half_of) {")
    assert has_ordered_reduction("%r = call float @llvm.vector.reduce.fadd.v4f32(float %s, <4 x float> %v)")
    assert not has_ordered_reduction("%r = call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> %v)")


@pytest.mark.parametrize(
    ("arch", "base", "expected"),
    [
        ("aarch64", [], {"float", "double"}),
        ("aarch64", ["+fullfp16"], {"float", "double", "half"}),
        ("x86_64", ["+avx2"], set()),
        ("x86_64", ["+avx2", "+fma"], {"float", "double"}),
        ("x86_64", ["+fma", "+avx512fp16"], {"float", "double", "half"}),
    ],
)
def test_fused_where_the_program_itself_fuses(arch: str, base: list[str], expected: set[str]) -> None:
    assert fused_types(arch, base) == expected
