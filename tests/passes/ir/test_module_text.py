"""IR text taken apart and put together again; symbols found and renamed; linkage changed."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.passes.ir.definition_text import rename_symbols, with_linkage
from mavcg.passes.ir.grammar import quote, unquote
from mavcg.passes.ir.module_text import Entity, linkage, parse_module, with_entities
from mavcg.toolchain.codegen import canonical

PROGRAMS = Path(__file__).parent / "programs"
ZOO = (PROGRAMS / "zoo.ll").read_text()


def as_printed(text: str) -> str:
    """Canonical text. LLVM numbers the struct types of a name that it has met before in this process."""
    text = re.sub(r'%"([^"]*?)(?:\.\d+)+"', r'%"\1"', canonical(text))
    return re.sub(r"%([-\w$.]+?)(?:\.\d+)+(?![-\w$.])", r"%\1", text)


def test_the_zoo_comes_back_as_it_was() -> None:
    assert as_printed(str(parse_module(canonical(ZOO)))) == as_printed(ZOO)


@pytest.mark.sample(1)
@pytest.mark.parametrize("source", ["kernels.c", "cxx_cases.cpp", "one.cpp"])
@pytest.mark.parametrize("flags", [("-O2",), ("-O0", "-fno-PIC"), ("-O3", "-fexceptions", "-fno-unique-section-names")])
def test_compilers_output_comes_back_as_it_was(ir: Callable[..., str], source: str, flags: tuple[str, ...]) -> None:
    suffix = Path(source).suffix
    text = (PROGRAMS / source).read_text().replace('#include "shared.h"', (PROGRAMS / "shared.h").read_text())
    printed = ir(text, suffix, flags=flags)
    assert as_printed(str(parse_module(printed))) == as_printed(printed)


def test_every_entity_has_its_kind_and_linkage() -> None:
    module = parse_module(canonical(ZOO))
    entities = module.entities
    found = {name: f"{entity.kind}, {linkage(entity)}" for name, entity in entities.items()}
    expected = {
        "0": "variable, private",
        "odd name": "variable, internal",
        "tls.alias": "alias, external",
        "outside": "variable, external",
        "weak_outside": "variable, extern_weak",
        "common": "variable, common",
        "linkonce_data": "variable, linkonce_odr",
        "protected_data": "variable, external",
        "inner": "alias, internal",
        "llvm.used": "variable, appending",
        "weak.alias": "alias, weak",
        "chosen": "ifunc, external",
        "described": "declare, external",
        "not_there": "declare, extern_weak",
        "odd function": "define, external",
        "hidden_one": "define, external",
        "linkonce": "define, linkonce_odr",
        "helper": "define, internal",
    }
    assert {name: found[name] for name in expected} == expected
    assert module.is_local("helper") and module.is_local("0") and not module.is_local("linkonce")
    assert entities["f"].body.endswith("\n}") and entities["outside"].body == ""


def references(text: str) -> set[str]:
    """Every @symbol that renaming would meet."""
    found: set[str] = set()
    rename_symbols(text, lambda name, is_callee: found.add(name) or name)  # type: ignore[func-returns-value]
    return found


def test_symbols_in_strings_asm_and_metadata_strings_are_no_references() -> None:
    entities = parse_module(canonical(ZOO)).entities
    assert references(entities["helper"].text) == {"helper", "outside"}
    assert references(entities["0"].text) == {"0"}
    assert references('!1 = !{ptr @local, !"ptr @gone"}') == {"local"}


def test_renaming_steps_over_text_and_knows_calls() -> None:
    text = '  call void @f(ptr @f, ptr @"f", ptr @"f g") ; $f "@f" c"@f\\22@f" @ff(@f.x(@f$('
    seen: list[tuple[str, bool]] = []

    def new_name(name: str, called: bool) -> str:
        seen.append((name, called))
        return "a b" if name == "f" and called else "1" if name == "f" else name

    renamed = '  call void @"a b"(ptr @"1", ptr @"1", ptr @"f g") ; $f "@f" c"@f\\22@f" @ff(@f.x(@f$('
    assert rename_symbols(text, new_name) == renamed
    assert seen == [("f", True), ("f", False), ("f", False), ("f g", False), ("ff", True), ("f.x", True), ("f$", True)]


@given(
    st.text(
        st.characters(codec="ascii", exclude_characters='"\\\n\0', categories=["L", "N", "P", "S", "Zs"]), min_size=1
    )
)
def test_any_name_can_be_spelled_and_renamed(name: str) -> None:
    assert unquote(quote(name)) == name
    caller = "a caller, whose name is long enough"
    spelled = f'define void @"{caller}"() {{\n  call void @"{name}"()\n  ret void\n}}\ndeclare void @"{name}"()\n'
    module = parse_module(canonical(spelled))
    assert set(module.entities) == {caller, name}
    renamed = rename_symbols(str(module), lambda n, _: "other" if n == name else n)
    assert set(parse_module(canonical(renamed)).entities) == {caller, "other"}


def test_comdats_and_metadata_of_what_is_gone_go(golden: object) -> None:
    module = parse_module(canonical(ZOO))
    kept = {
        name: module.entities[name]
        for name in ("local", "_ZN1AC2Ev", "table", "helper", ".str", "asm_known", "outside")
    }
    left = with_entities(module, {**kept, "__gxx_personality_v0": module.entities["__gxx_personality_v0"]})
    assert list(left.comdats) == ["_ZN1AC5Ev"]
    assert '!1 = !{ptr @local, !"ptr @gone"}' in left.metadata and "!2 = !{null, null, null}" in left.metadata
    assert golden == as_printed(str(left))


HEADERS = {
    "define dso_local hidden i32 @f() {": ("internal", "define internal dso_local i32 @f() {"),
    "define linkonce_odr protected i32 @f() {": ("internal", "define internal i32 @f() {"),
    "define weak_odr dso_local i32 @f() {": ("hidden", "define hidden i32 @f() {"),
    "define i32 @f() {": ("available_externally hidden", "define available_externally hidden i32 @f() {"),
    "define internal fastcc i32 @f() {": ("", "define fastcc i32 @f() {"),
    "@f = private unnamed_addr constant i32 1": ("hidden", "@f = hidden unnamed_addr constant i32 1"),
    "@f = linkonce_odr protected thread_local global i32 1": (
        "weak_odr",
        "@f = weak_odr protected thread_local global i32 1",
    ),
    "@f = internal dso_local global i32 1": ("hidden", "@f = hidden global i32 1"),
    "@f = alias i32, ptr @x": ("weak", "@f = weak alias i32, ptr @x"),
}


@pytest.mark.parametrize("header", HEADERS)
def test_another_linkage(header: str) -> None:
    wanted, expected = HEADERS[header]
    rest = "\n  ret i32 0\n}" if header.startswith("define") else ""
    changed = with_linkage(Entity("f", "define" if rest else "variable", header + rest), wanted)
    assert changed.text == expected + rest
    if "available_externally" not in wanted:
        extra = "" if "alias" not in header else "\n@x = global i32 1"
        assert "@f" in canonical(changed.text + extra)  # which LLVM takes


def test_an_emptied_attribute_group_stays_a_group() -> None:
    module = parse_module(canonical('define void @f() "target-cpu"="generic" {\n  ret void\n}\n'))
    emptied = {number: "" for number in module.attribute_groups}
    again = parse_module(canonical(str(type(module)(**{**vars(module), "attribute_groups": emptied}))))
    assert list(again.attribute_groups) == list(module.attribute_groups)


def test_vectors_are_seen_wherever_a_type_names_them() -> None:
    body = "define void @f(ptr %p) {\n  ret void\n}\n"
    assert not parse_module(body).names_vectors
    assert parse_module("%s = type { i32, <16 x float> }\n" + body.replace("ptr %p", "%s %p")).names_vectors
    assert parse_module(body.replace("ptr %p", "<vscale x 4 x i32> %p")).names_vectors
