"""The rules of cloning, as text: what a version's module holds, what the program's own module keeps."""

import re
from pathlib import Path

import pytest

from mavcg.passes.ir.clone import make_version
from mavcg.passes.ir.definition_text import with_cpu
from mavcg.passes.ir.dispatch import Dispatch, RuntimeNames, add_dispatchers, add_single_bodies
from mavcg.passes.ir.hot_module import HotModule, shared_name, version_symbol
from mavcg.passes.ir.module_text import ModuleText, linkage, parse_module, with_entities
from mavcg.passes.ir.refuse import why_not
from mavcg.passes.ir.shared import alias_target, keep_for_versions
from mavcg.toolchain.codegen import canonical

ZOO = (Path(__file__).parent / "programs" / "zoo.ll").read_text()
RUNTIME = RuntimeNames("mavcg_rseq_offset_set", "mavcg_core_of_cpu_set", "mavcg_select_set", 8192)


def zoo(*hot: str) -> HotModule:
    return HotModule(parse_module(canonical(ZOO)), frozenset(hot), "1f2e")


def printed(module: ModuleText) -> str:
    """As LLVM prints it, which it does only for what it takes; types without the numbers of this process."""
    return re.sub(r"%pair(?:\.\d+)+", "%pair", canonical(str(module)))


def test_a_version_and_what_it_takes_along(golden: object) -> None:
    version = make_version(zoo("f", "odd function"), "f", "cortex-a55")
    assert version.symbol == "f.cortex-a55"
    assert golden == printed(version.module)


def test_a_version_of_an_inline_function_merges_as_it_does(golden: object) -> None:
    version = make_version(zoo("linkonce"), "linkonce", "cortex-a55")
    assert version.needs == {"cold_one"}
    assert golden == printed(version.module)


def test_the_program_keeps_what_versions_need(golden: object) -> None:
    hot = zoo("f", "odd function")
    needs = make_version(hot, "f", "cortex-a55").needs | make_version(hot, "odd function", "cortex-a55").needs
    assert golden == printed(keep_for_versions(hot, needs))


def test_dispatchers(golden: object) -> None:
    """Of a plain function, a static one, one in a comdat of its own and one in a group."""
    hot = zoo("f", "local", "linkonce", "_ZN1AC2Ev")
    dispatches = [
        Dispatch(n, tuple(version_symbol(hot, n, label) for label in ("generic", "cortex-a55", "generic")), RUNTIME)
        for n in sorted(hot.hot)
    ]
    needs = make_version(hot, "f", "generic").needs
    made = add_dispatchers(hot, keep_for_versions(hot, needs), dispatches)
    assert golden == printed(with_entities(made, made.entities))


def test_a_single_body_has_the_names_that_versions_call() -> None:
    hot = zoo("f", "linkonce", "local")
    base = keep_for_versions(hot, make_version(hot, "f", "generic").needs)
    made = add_single_bodies(hot, base, {"linkonce": ["cortex-a55"], "local": ["generic", "cortex-a55"], "f": []})
    aliases = [line for line in printed(made).split("\n") if ".1f2e." in line or "linkonce.cortex" in line]
    assert aliases == [
        "@linkonce.cortex-a55 = weak_odr hidden alias i32 (i32), ptr @linkonce",
        "@local.1f2e.generic = hidden alias i32 (i32), ptr @local",
        "@local.1f2e.cortex-a55 = hidden alias i32 (i32), ptr @local",
    ]


def test_names_of_versions_and_of_what_they_share() -> None:
    hot = zoo("f", "local", "linkonce")
    assert version_symbol(hot, "f", "cortex-a55") == "f.cortex-a55"
    assert version_symbol(hot, "linkonce", "cortex-a55") == "linkonce.cortex-a55"  # one for the whole program
    assert version_symbol(hot, "local", "cortex-a55") == "local.1f2e.cortex-a55"  # another file may have a `local`
    assert (shared_name(hot, "table"), shared_name(hot, "outside")) == ("table.1f2e", "outside")


def test_only_aliases_that_nothing_replaces_stand_for_their_symbol() -> None:
    module = zoo().module
    found = {
        name: alias_target(module, module.entities[name]).name
        for name in ("f.alias", "weak.alias", "inner", "_ZN1AC1Ev")
    }
    assert found == {"f.alias": "f", "weak.alias": "weak.alias", "inner": "inner", "_ZN1AC1Ev": "_ZN1AC2Ev"}


def test_data_is_never_defined_twice() -> None:
    hot = zoo("f", "odd function", "linkonce", "makes")
    for name in sorted(hot.hot):
        for entity in make_version(hot, name, "cortex-a55").module.entities.values():
            if entity.kind == "variable":
                assert linkage(entity) in ("external", "extern_weak", "available_externally"), entity.text
            assert entity.kind != "alias"


def test_with_cpu_says_it_on_every_definition() -> None:
    version = make_version(zoo("local"), "local", "x")
    texts = dict.fromkeys(version.module.definitions(), '"target-cpu"="cortex-a55"')
    text = printed(with_cpu(version.module, texts))
    assert "@local.1f2e.x(i32 %x) unnamed_addr" in text
    assert text.count('"target-cpu"="cortex-a55"') >= 1 and '"target-cpu"="generic"' not in text


REFUSALS = {
    "define i32 @f(i32 %a, ...) {\n  ret i32 0\n}": "variadic",
    "define void @f() naked {\n  unreachable\n}": "naked",
    "define i32 @f() returns_twice {\n  ret i32 0\n}": "returns twice",
    "define void @f() presplitcoroutine {\n  ret void\n}": "coroutine",
    "define void @f(ptr inalloca(i32) %a) {\n  ret void\n}": "inalloca argument",
    "define void @f(ptr preallocated(i32) %a) {\n  ret void\n}": "preallocated argument",
    "define void @f(ptr byval(i32) %a) {\n  ret void\n}": {"aarch64": "byval", "x86_64": None},
    "define <8 x float> @f(<4 x float> %a) {\n  ret <8 x float> zeroinitializer\n}": {
        "aarch64": None,
        "x86_64": "passes a 256-bit vector",
    },
    'define <8 x float> @f() "target-features"="+avx" {\n  ret <8 x float> zeroinitializer\n}': None,
    'define void @f(<16 x i32> %a) "target-features"="+avx2,+avx" {\n  ret void\n}': {
        "aarch64": None,
        "x86_64": "512-bit",
    },
    'define void @f(<16 x i32> %a) "target-features"="+avx512f" {\n  ret void\n}': None,
    "declare void @f()": "no body",
    "define available_externally void @f() {\n  ret void\n}": "lives in another file",
    "@f = alias void (), ptr @g\ndefine void @g() {\n  ret void\n}": "it is an alias",
    "@f = global i32 0": "it is a variable",
    "define void @g() {\n  ret void\n}": "no body",
    'define void @f() {\n  call void asm ".globl here\\0Ahere:", ""()\n  ret void\n}': "defines the global symbol here",
    'define void @f() {\n  call void asm ".global\\09here\\0Ahere:", ""()\n  ret void\n}': "the global symbol here",
    '@v = internal global i32 0\ndefine void @f() {\n  call void asm "adrp x0, v", ""()\n  ret void\n}': "names v",
    'define void @f() {\n  call void asm "bl outside", ""()\n  ret void\n}\ndeclare void @outside()': None,
    "define void @f() {\nb:\n  br label %c\nc:\n  ret void\n}\n@t = global ptr blockaddress(@f, %c)": "stored in data",
    "declare <8 x i32> @g()\ndefine void @f() {\n  %r = call <8 x i32> @g()\n  ret void\n}": {
        "aarch64": None,
        "x86_64": "calls g with a 256-bit vector",
    },
    "define void @f(ptr %p) {\n  call void %p(<8 x i32> zeroinitializer)\n  ret void\n}": {
        "aarch64": None,
        "x86_64": "calls a function by its address",
    },
    "define internal <8 x i32> @g() {\n  ret <8 x i32> zeroinitializer\n}\n"
    "define void @f() {\n  %r = call <8 x i32> @g()\n  ret void\n}": None,  # copied along: both sides agree
    "declare void @g(ptr byval(<8 x i32>))\ndefine void @f(ptr %p) {\n  call void @g(ptr byval(<8 x i32>) %p)\n"
    "  ret void\n}": None,  # in memory
}


@pytest.mark.parametrize("text", REFUSALS)
def test_what_cannot_be_cloned_is_refused_with_its_reason(text: str) -> None:
    expected = REFUSALS[text]
    module = parse_module(canonical(text))
    for arch in ("aarch64", "x86_64"):
        wanted = expected[arch] if isinstance(expected, dict) else expected
        reason = why_not(module, "f", arch)
        assert reason is None if wanted is None else wanted in (reason or ""), reason


def test_declarations_with_metadata_in_front() -> None:
    text = (
        "declare !kind !0 i32 @outside(i32)\ndefine i32 @f(i32 %x) !kind !0 {\n  %r = call i32 @outside(i32 %x)\n"
        '  ret i32 %r\n}\n!0 = !{!"kind"}\n'
    )
    hot = HotModule(parse_module(canonical(text)), frozenset({"f"}), "1f2e")
    assert "declare i32 @outside(i32)" in printed(make_version(hot, "f", "x").module)
