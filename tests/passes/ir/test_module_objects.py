"""Test llvmlite's objects of a module against its text: linkage, calls, and uses in the order of the text."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.passes.ir.definition_text import uses_in_body, uses_in_header
from mavcg.passes.ir.grammar import escape
from mavcg.passes.ir.module_objects import Call, Use, read_objects
from mavcg.passes.ir.module_text import ModuleText, linkage, parse_module
from mavcg.toolchain.codegen import canonical

PROGRAMS = Path(__file__).parent / "programs"


def assert_objects_as_in_text(module: ModuleText) -> None:
    """Assert that the operands of each body have the symbols that a scan of its text has, in the same order."""
    for name, function in module.objects.functions.items():
        entity = module.entities[name]
        in_text = uses_in_body(entity)
        assert [use for use in in_text if use in function.body.uses] == list(function.body.uses)
        instructions = [line for line in entity.body.split("\n") if "#dbg_" not in line and "metadata ptr" not in line]
        for use in set(in_text) - set(function.body.uses):
            assert not any(re.search(rf'@"?{re.escape(use.name)}"?(?![\w.$-])', line) for line in instructions)
        assert module.linkage(name) == linkage(entity)
    for name in module.objects.variables:
        assert module.linkage(name) == linkage(module.entities[name])


def test_the_zoo_by_objects_is_the_zoo_by_text() -> None:
    assert_objects_as_in_text(parse_module(canonical((PROGRAMS / "zoo.ll").read_text())))


@pytest.mark.parametrize("flags", [("-O0", "-g")])
def test_a_program_with_debug_information(ir: Callable[..., str], flags: tuple[str, ...]) -> None:
    module = parse_module(ir((PROGRAMS / "kernels.c").read_text(), flags=flags))
    assert len(module.definitions()) > 5
    assert_objects_as_in_text(module)


ODD = r"""
@0 = private unnamed_addr constant [4 x i8] c"@f\0A\00"
@"\01odd \22q" = global i32 0
@v = internal global i32 0
@al = alias i32 (i32), ptr @f
@chosen = ifunc i32 (i32), ptr @resolver
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @start, ptr null }]
declare i32 @printf(ptr, ...)
declare i32 @personality(...)
define internal ptr @resolver() {
  ret ptr @f
}
define internal void @start() {
  ret void
}
define i32 @f(i32 %x, ptr byval(<8 x float>) %y) cold alignstack(16) personality ptr @personality {
  br label %b
b:
  %c = load i8, ptr getelementptr (i8, ptr @0, i64 1)
  %s = call i32 (ptr, ...) @printf(ptr @"\01odd \22q", <8 x float> zeroinitializer)
  %t = call i32 @al(i32 %x)
  %u = call i32 @chosen(i32 %x)
  %p = select i1 true, ptr blockaddress(@f, %b), ptr @v
  call void %p(i32 1)
  call void asm sideeffect "nop\0A.globl @here", "r"(i32 %x)
  ret i32 %s
}
"""


def test_quoted_names_aliases_ifuncs_labels_varargs_and_assembly() -> None:
    module = parse_module(canonical(ODD))
    f = module.objects.functions["f"]
    assert f.body.uses == (
        Use("0", False),
        Use("printf", True),
        Use(r"\01odd \22q", False),
        Use("al", True),
        Use("chosen", True),
        Use("v", False),
    )
    assert f.body.assembly == ("nop\n.globl @here",)
    assert f.calls == (Call("printf", 256), Call("al", 0), Call("chosen", 0), Call(None, 0))
    assert (f.attributes, f.argument_attributes) == ("cold alignstack(16)", "byval(<8 x float>)")
    assert f.vector_bits == 0 and not f.is_variadic and module.objects.functions["printf"].is_variadic
    assert uses_in_header(module.entities["f"]) == (Use("personality", False),)
    assert_objects_as_in_text(module)


def test_objects_have_no_aliases_and_their_linkage_is_in_their_line() -> None:
    module = parse_module(canonical(ODD))
    assert [module.objects.linkage(name) for name in ("al", "chosen", "gone")] == [None, None, None]
    assert [module.linkage(name) for name in ("al", "chosen", "start", "llvm.global_ctors", "0")] == [
        "external",
        "external",
        "internal",
        "appending",
        "private",
    ]
    assert not module.is_local("gone")


def test_debug_records_name_symbols_that_no_operand_has() -> None:
    module = parse_module(canonical((PROGRAMS / "debug_record.ll").read_text()))
    assert module.objects.functions["f"].body.uses == ()
    assert uses_in_body(module.entities["f"]) == (Use("g", False),)


@pytest.mark.parametrize(("name", "spelled"), [("a b", "a b"), ('q"\\', r"q\22\5C"), ("\u00f6", r"\C3\B6")])
def test_names_are_spelled_as_llvm_prints_them(name: str, spelled: str) -> None:
    assert escape(name) == spelled
    assert list(read_objects(f'@"{spelled}" = global i32 0').variables) == [spelled]


def test_a_name_that_is_no_utf8_is_known_by_its_printed_form() -> None:
    assert list(read_objects(r'@"\FFx" = global i32 0').variables) == [r"\FFx"]
