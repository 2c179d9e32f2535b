"""Which CPU and features a version is compiled for, and the attribute texts that say so."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.hardware.core import Core
from mavcg.passes.ir.attributes import (
    base_features,
    choose_cpu,
    cpu_attributes_of,
    features_of,
    has_attribute,
    without_cpu,
)
from mavcg.passes.ir.module_text import parse_module
from mavcg.profiles.load import load_cores
from mavcg.toolchain.zig import run_zig

A75_R0 = Core("cortex-a75-r0", "aarch64", "out", "cortex-a75", "", llvm_features=("-dotprod",))
A55_R0 = Core("cortex-a55-r0", "aarch64", "in", "cortex-a55", "", llvm_tune="cortex-a53", llvm_features=("-dotprod",))


def test_what_the_program_was_compiled_with_wins_over_the_core() -> None:
    choice = choose_cpu(A75_R0, ("+neon", "+dotprod"), narrow_floats=False)
    assert choice.text == '"target-cpu"="cortex-a75" "target-features"="-dotprod,+neon,+dotprod"'
    assert choose_cpu(A75_R0, ("-neon",), False).features == ("-dotprod", "-neon")


def test_a_tune_is_said_and_a_core_without_features_says_none() -> None:
    assert choose_cpu(A55_R0, (), False).text == (
        '"target-cpu"="cortex-a55" "tune-cpu"="cortex-a53" "target-features"="-dotprod"'
    )
    assert choose_cpu(Core("x", "x86_64", "out", "znver3", ""), (), False).text == '"target-cpu"="znver3"'


def test_extensions_that_round_halves_otherwise_need_the_programs_word() -> None:
    core = Core("n", "aarch64", "out", "neoverse-n1", "")
    assert choose_cpu(core, (), narrow_floats=True).features == ("-fullfp16", "-fp16fml", "-bf16")
    assert choose_cpu(core, ("+fullfp16",), narrow_floats=True).features == ("-fp16fml", "-bf16", "+fullfp16")
    assert choose_cpu(core, (), narrow_floats=False).features == ()


def test_what_no_instruction_shows_is_left_out_unless_the_program_has_it() -> None:
    """With lse2 a plain load of 16 bytes is atomic: the code looks like that for a core without it."""
    core = Core("x2", "aarch64", "out", "cortex-x2", "", extensions=("lse", "lse2"))
    assert choose_cpu(core, (), narrow_floats=False).features == ("-lse2",)
    assert choose_cpu(core, ("+lse2",), narrow_floats=False).features == ("+lse2",)


@pytest.fixture(scope="module")
def compiled_features(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, str], tuple[str, ...]]:
    """compiled_features(tool, arch, cpu): what zig's driver ("cc") or plain "clang" writes into target-features."""
    folder = tmp_path_factory.mktemp("features")
    (folder / "f.c").write_text("void f(void) {}\n")

    def compiled_features(tool: str, arch: str, cpu: str) -> tuple[str, ...]:
        target = ["-target", f"{arch}-linux-musl"] if tool == "cc" else [f"--target={arch}-linux-musl"]
        option = "-march" if arch == "x86_64" and tool == "clang" else "-mcpu"
        spelled = cpu.replace("-", "_") if tool == "cc" else cpu
        run_zig(tool, [*target, f"{option}={spelled}", "-w", "-S", "-emit-llvm", "-o", "f.ll", "f.c"], cpu, folder)
        return features_of((folder / "f.ll").read_text())

    return compiled_features


# What LLVM implies and zig writes out: parts of the ISA that clang does not name (AArch64Features.td, X86.td).
IMPLIED = {
    "aarch64": "CONTEXTIDREL2 altnzcv am ccdp ccpp el2vmsa el3 fptoint lor lse2 mpam nv pan pan-rwv rcpc-immo sel2 "
    "specrestrict tlb-rmi tracev8.4 uaops vh",
    "x86_64": "64bit cmov ermsb fsrm nopl",
}


@pytest.mark.parametrize("cpu", ["cortex-a76", "exynos-m4", "apple-m1", "neoverse-v1", "znver4", "alderlake"])
def test_of_zigs_list_only_the_isa_is_left(compiled_features: Callable[..., Any], cpu: str) -> None:
    arch = "x86_64" if cpu in ("znver4", "alderlake") else "aarch64"
    zigs = compiled_features("cc", arch, cpu)
    assert len(zigs) > 100  # should zig write short lists one day, most of base_features can go
    clangs = {entry for entry in compiled_features("clang", arch, cpu) if entry[0] == "+"}
    extra = set(base_features(zigs, arch)) - clangs
    assert extra <= {f"+{name}" for name in IMPLIED[arch].split()}
    assert clangs - set(base_features(zigs, arch)) <= {"+sgx"}  # which zig leaves out


def test_zigs_negative_entries_do_not_switch_off_what_a_core_has(compiled_features: Callable[..., Any]) -> None:
    generic = compiled_features("cc", "aarch64", "generic")
    assert "-dotprod" in generic and "-lse" in generic
    assert [entry for entry in base_features(generic, "aarch64") if entry[0] == "-"] == []
    assert base_features(("-neon", "-dotprod", "+crc", "+fuse-aes"), "aarch64") == ("-neon", "+crc")
    assert base_features(("-sse2", "-avx", "+sse3", "+slow-shld"), "x86_64") == ("-sse2", "+sse3")


GROUP = 'noinline nounwind optnone uwtable "frame-pointer"="none" "target-cpu"="generic" "target-features"="+a,-b" cold'


def test_cpu_and_optnone_leave_a_group() -> None:
    assert without_cpu(GROUP) == 'nounwind uwtable "frame-pointer"="none" cold'
    assert without_cpu('noinline nounwind "tune-cpu"="generic"') == "noinline nounwind"
    assert cpu_attributes_of(GROUP) == '"target-cpu"="generic" "target-features"="+a,-b"'
    assert features_of(GROUP) == ("+a", "-b") and features_of("nounwind") == ()


def test_an_attribute_is_a_word_outside_quotes() -> None:
    text = 'nounwind memory(none) "cold"="x" "a cold b" noreturn_not alignstack(16) #1'
    assert has_attribute(text, "nounwind") and has_attribute(text, "memory") and has_attribute(text, "alignstack")
    assert not has_attribute(text, "cold") and not has_attribute(text, "noreturn")


ALL_CORES = load_cores()


@given(
    st.sampled_from(sorted(ALL_CORES)),
    st.lists(st.sampled_from(["+dotprod", "+fullfp16", "+neon", "-neon", "+sve", "+avx2", "+fma", "+bf16"])),
    st.booleans(),
)
def test_the_last_word_on_a_feature_of_the_program_is_the_programs(name: str, base: list[str], narrow: bool) -> None:
    features = choose_cpu(ALL_CORES[name], base, narrow).features
    last = {entry[1:]: entry for entry in features}
    wanted = {entry[1:]: entry for entry in dict.fromkeys(base)}
    contradictory = {entry[1:] for entry in base if ("-" if entry[0] == "+" else "+") + entry[1:] in base}
    assert all(last[feature] == entry for feature, entry in wanted.items() if feature not in contradictory)


def test_what_march_and_target_say_is_the_base(ir: Callable[..., str]) -> None:
    source = 'int f(int x) { return x; } __attribute__((target("dotprod"))) int g(int x) { return x; }'
    module = parse_module(ir(source, flags=("-O2", "-march=armv8.2-a+crypto")))
    functions = module.objects.functions
    bases = {name: base_features(features_of(functions[name].attributes), "aarch64") for name in "fg"}
    assert "+aes" in bases["f"] and "+dotprod" not in bases["f"]
    assert "+aes" in bases["g"] and "+dotprod" in bases["g"]
    assert choose_cpu(A75_R0, bases["g"], False).text.endswith(",".join(bases["g"]) + '"')
