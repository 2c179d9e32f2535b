"""What a call may do is inferred from a body, and stated where callers see a dispatcher or another module's copy."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from mavcg.passes.ir.call_effects import CallEffects, with_effects
from mavcg.passes.ir.clone import make_version
from mavcg.passes.ir.dispatch import Dispatch, RuntimeNames, add_dispatchers
from mavcg.passes.ir.hot_module import HotModule
from mavcg.passes.ir.module_text import parse_module
from mavcg.toolchain.codegen import CodegenJob, canonical, compile_all
from mavcg.toolchain.target import host_target, parse_target
from tests.conftest import x86_core_of_this_machine

ARM = parse_target("aarch64-linux-musl")
SOURCE = """
#define NOINLINE __attribute__((noinline))
extern int elsewhere(int), counter;
volatile int device;
NOINLINE float taper(float x) { return 1 / (1 + x * x); }
NOINLINE float first(const float *a) { return a[0] + taper(a[1]); }
NOINLINE void store(float *a, float x) { *a = x; }
NOINLINE int counted(int x) { counter++; return x; }
NOINLINE int outside(int x) { return elsewhere(x); }
NOINLINE int polled(void) { return device; }
static NOINLINE float inner(float x) { return x * 3 - 1 / x; }
__attribute__((weak)) float replaceable(float x) { return x; }
float weigh(const float *a, int n, float x) {
    float s = 0;
    for (int i = 0; i < n; i++) s += a[i] * taper(x);
    return s + inner(x);
}
"""


@pytest.fixture(scope="module")
def text(ir: Callable[..., str]) -> str:
    return ir(SOURCE)


def test_effects_are_those_of_the_body(text: str) -> None:
    effects = parse_module(text).effects

    assert {"memory(none)", "nounwind", "willreturn", "nosync"} <= {*effects["taper"].call}
    assert "memory(none)" in effects["inner"].call
    assert "memory(argmem: read)" in effects["first"].call and effects["first"].arguments == (
        ("readonly", "captures(none)"),
    )
    assert "memory(argmem: write)" in effects["store"].call and "writeonly" in effects["store"].arguments[0]
    assert effects["store"].arguments[1] == ()
    for name in ("counted", "outside", "polled", "replaceable"):
        assert "memory(none)" not in effects[name].call and "memory(read)" not in effects[name].call, name
    assert "willreturn" not in effects["outside"].call and "nosync" not in effects["polled"].call


def test_the_module_itself_is_unchanged(text: str) -> None:
    module = parse_module(text)
    assert module.effects and str(module) == str(parse_module(text)) and str(module.objects.module) == text


@pytest.mark.parametrize(
    ("header", "stated"),
    [
        ("define float @f(ptr noundef %a) #0 {", "define float @f(ptr readonly noundef %a) nounwind #0 {"),
        (
            "define internal fastcc i32 @f(ptr captures(none) readnone %a) unnamed_addr #1 comdat {",
            "define internal fastcc i32 @f(ptr readonly %a) unnamed_addr nounwind #1 comdat {",
        ),
        ("declare void @f(ptr)", "declare void @f(ptr readonly) nounwind"),
        ('define void @"f(x"(ptr %"readonly a") {', 'define void @"f(x"(ptr %"readonly a") nounwind {'),
        ("declare void @f(ptr byval({ i32, i8 }))", "declare void @f(ptr readonly byval({ i32, i8 })) nounwind"),
    ],
)
def test_a_header_states_them(header: str, stated: str) -> None:
    assert with_effects(header, CallEffects(("nounwind",), (("readonly",),))) == stated


def test_a_version_hoists_calls_of_other_hot_functions(text: str) -> None:
    hot = HotModule(parse_module(text), frozenset({"weigh", "taper", "inner"}), "1f2e")
    module = str(make_version(hot, "weigh", "cortex-a76").module)
    header = re.search(r"^define available_externally hidden .*@taper\.cortex-a76\(.*$", canonical(module), re.M)
    assert header

    [optimised] = compile_all([CodegenJob(module, ARM, "weigh", "2", emit="ir")], 1, lambda: None)
    assert isinstance(optimised, str)
    blocks = re.split(r"^\S+:", optimised.partition("@weigh.cortex-a76(")[2].partition("\n}")[0], flags=re.M)
    callers = [block for block in blocks if "call float @taper.cortex-a76(" in block or "fastcc float @taper" in block]
    assert len(callers) == 1 and not re.search(r"= phi .*\n", callers[0]), optimised


def test_a_dispatcher_states_them_and_its_slow_path_does_not(text: str) -> None:
    hot = HotModule(parse_module(text), frozenset({"taper"}), "1f2e")
    dispatch = Dispatch("taper", ("taper.generic",), RuntimeNames("offset", "core_of_cpu", "select", 8192))
    made = {called: add_dispatchers(hot, hot.module, [dispatch], called).entities for called in (True, False)}
    assert "memory(none)" in made[True]["taper"].header and "willreturn" in made[True]["taper"].header
    assert "memory" not in made[True]["taper.slow"].header + made[False]["taper"].header


@pytest.mark.long
def test_callers_of_a_dispatcher_hoist_its_calls(build_versions: Any) -> None:
    core = x86_core_of_this_machine() if host_target().arch == "x86_64" else "cortex-a76"
    main = """
    #include <stdio.h>
    float weigh(const float *, int, float), a[1000];
    int main(void) { printf("%g\\n", weigh(a, 1000, 0.5f)); return 0; }
    """
    files = {"a.c": "int counter; int elsewhere(int x) { return x; }\n" + SOURCE, "main.c": main}
    built = build_versions(files, "taper", [core])

    assert built.run() == built.run(plain=True)
    assert built.run(core, trace=True).splitlines() == [f"mavcg: taper {core} 1"]
