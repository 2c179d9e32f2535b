"""Versions and dispatchers of functions with odd company: constructors, comdats, labels, aliases, debug records."""

from pathlib import Path

import pytest

from mavcg.passes.ir.clone import make_version
from mavcg.passes.ir.dispatch import Dispatch, RuntimeNames, add_dispatchers
from mavcg.passes.ir.hot_module import HotModule, version_symbol
from mavcg.passes.ir.module_text import ModuleText, parse_module, with_entities
from mavcg.passes.ir.refuse import why_not
from mavcg.passes.ir.shared import keep_for_versions
from mavcg.toolchain.codegen import canonical

RUNTIME = RuntimeNames("offset", "core_of_cpu", "select", 8192)
CONSTRUCTOR = """
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @f, ptr null }]
define internal void @f() {
  ret void
}
"""
LABELS = """
define i32 @f(i32 %x) {
  %p = select i1 true, ptr blockaddress(@f, %a), ptr blockaddress(@f, %b)
  indirectbr ptr %p, [label %a, label %b]
a:
  ret i32 1
b:
  ret i32 %x
}
"""
COMDAT = """
$f = comdat any
define linkonce_odr i32 @f(i32 %x) comdat {
  %r = call i32 @"g h"(i32 %x)
  ret i32 %r
}
define internal i32 @"g h"(i32 %x) {
  ret i32 %x
}
"""
ALIASES = """
@al = alias i32 (i32), ptr @f
@chosen = ifunc i32 (i32), ptr @resolver
define internal ptr @resolver() {
  ret ptr @f
}
define i32 @f(i32 %x) {
  %r = call i32 @al(i32 %x)
  %s = call i32 @chosen(i32 %r)
  ret i32 %s
}
"""
VARIADIC_CALLEE = """
declare i32 @printf(ptr, ...)
@0 = private unnamed_addr constant [2 x i8] c"@\\00"
define i32 @f(i32 %x) {
  %r = call i32 (ptr, ...) @printf(ptr @0, i32 %x)
  call void asm sideeffect "nop // @0", ""()
  ret i32 %r
}
"""
DEBUG_RECORD = (Path(__file__).parent / "programs/debug_record.ll").read_text()
ALIGNED_STACK = "define i32 @f(i32 %x) alignstack(16) {\n  ret i32 %x\n}"
# What has to be in the version, and in the program with its dispatcher.
CASES = {
    CONSTRUCTOR: ("define hidden void @f.tag.generic()", "{ i32 1, ptr @f, ptr null }"),
    LABELS: ("blockaddress(@f.generic, %a), ptr blockaddress(@f.generic, %b)", "define i32 @f(i32 %x) #0 {"),
    COMDAT: ('call i32 @"g h.generic"(i32 %x)', "define linkonce_odr i32 @f(i32 %x) #0 comdat {"),
    ALIASES: ("call i32 @f.generic(i32 %x)", "@al = alias i32 (i32), ptr @f"),
    VARIADIC_CALLEE: ("call i32 (ptr, ...) @printf(ptr @unnamed.0.tag, i32 %x)", "@unnamed.0.tag = hidden"),
    DEBUG_RECORD: ("#dbg_value(ptr @g.tag,", "@g.tag = hidden global i32 0"),
    ALIGNED_STACK: ("define hidden i32 @f.generic(i32 %x)", " memory(none) alignstack=16 }"),
}


def versions_and_program(text: str) -> tuple[str, str]:
    """The generic version of f and the program around it, as LLVM prints them, which it does only for what it takes."""
    module = parse_module(canonical(text))
    assert why_not(module, "f", "aarch64") is None
    hot = HotModule(module, frozenset({"f"}), "tag")
    version = make_version(hot, "f", "generic")
    dispatch = Dispatch("f", (version_symbol(hot, "f", "generic"),), RUNTIME)
    program: ModuleText = add_dispatchers(hot, keep_for_versions(hot, version.needs), [dispatch])
    return canonical(str(version.module)), canonical(str(with_entities(program, program.entities)))


@pytest.mark.parametrize("text", CASES)
def test_llvm_takes_the_version_and_the_program(text: str) -> None:
    version, program = versions_and_program(text)
    in_version, in_program = CASES[text]
    assert in_version in version, version
    assert in_program in program, program
    assert "@select(ptr @f.function)" in program
