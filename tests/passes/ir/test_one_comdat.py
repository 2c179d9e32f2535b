"""A module in one comdat group: what goes into it, and that LLVM reads it and keeps one of two copies."""

import llvmlite.binding as llvm
import pytest

from mavcg.passes.ir.module_text import parse_module
from mavcg.passes.ir.one_comdat import in_one_comdat

MODULE = """
@table = weak hidden global i64 0, align 8
@text = private unnamed_addr constant [13 x i8] c"x, align 4 {\\00", align 1
@unaligned = internal global i32 3
@elsewhere = external global i32
@optional = extern_weak global ptr, align 8
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 101, ptr @start, ptr null }]
declare void @library()
define internal void @start() #0 align 16 {
  call void @library()
  store i64 1, ptr @table
  ret void
}
define weak hidden i64 @get() {
  %v = load i64, ptr @table
  ret i64 %v
}
attributes #0 = { nounwind }
"""


def grouped(text: str) -> llvm.ModuleRef:
    module = llvm.parse_assembly(str(in_one_comdat(parse_module(str(llvm.parse_assembly(text))), "one.group")))
    module.verify()
    return module


def test_every_definition_is_in_the_group_and_nothing_else() -> None:
    lines = str(grouped(MODULE)).splitlines()
    assert "$one.group = comdat any" in lines
    inside = {line.split("@")[1].split("(")[0].split(" ")[0] for line in lines if "comdat($one.group)" in line}
    assert inside == {"table", "text", "unaligned", "start", "get"}
    assert any("@llvm.global_ctors" in line and "ptr @start, ptr @table" in line for line in lines)


def test_of_two_copies_one_constructor_stays() -> None:
    first = grouped(MODULE)
    first.link_in(grouped(MODULE))
    text = str(first)
    assert text.count("call void @library()") == 1 and text.count("ptr @start") == 1
    assert "@start." not in text and text.count("= weak hidden global i64") == 1


def test_constructors_need_a_variable_that_they_go_with() -> None:
    without = MODULE.replace("weak hidden global", "internal global")
    with pytest.raises(ValueError, match="no weak variable"):
        grouped(without)
