"""Where llvmlite's module objects end and text begins (docs/design/cloning-as-text.md)."""

import llvmlite.binding as llvm
import pytest

MODULE = """
define i32 @f(i32 %x) "target-cpu"="znver3" {
  %y = call i32 @g(i32 %x)
  ret i32 %y
}
define i32 @g(i32 %x) {
  ret i32 %x
}
"""


def test_objects_walk_rename_and_clone_a_module() -> None:
    module = llvm.parse_assembly(MODULE)
    copy = module.clone()
    copy.get_function("f").name = "f.znver2"
    copy.get_function("g").linkage = "internal"
    copy.get_function("f.znver2").add_function_attribute("noinline")
    calls = [
        list(instruction.operands)[-1].name
        for function in module.functions
        for block in function.blocks
        for instruction in block.instructions
        if instruction.opcode == "call"
    ]

    assert calls == ["g"] and b'"target-cpu"="znver3"' in b"".join(module.get_function("f").attributes)
    assert "define internal i32 @g" in str(copy) and "define i32 @f.znver2" in str(copy)
    module.link_in(copy)
    assert sorted(f.name for f in module.functions if f.name.startswith("f")) == ["f", "f.znver2"]


@pytest.mark.parametrize("attribute", ['"target-cpu"="znver2"', "target-cpu", "target-features"])
def test_objects_set_no_attribute_with_a_value_of_its_own(attribute: str) -> None:
    function = llvm.parse_assembly(MODULE).get_function("f")

    with pytest.raises(ValueError, match="no such attribute"):
        function.add_function_attribute(attribute)


def test_objects_remove_nothing_and_make_no_instruction() -> None:
    function = llvm.parse_assembly(MODULE).get_function("f")
    call = next(iter(next(iter(function.blocks)).instructions))

    changes = {"clone", "erase", "delete", "delete_body", "remove_function_attribute", "set_operand", "insert_before"}
    assert not changes & {name for value in (function, call) for name in dir(value)}
    with pytest.raises(AttributeError):
        call.operands = ()


def test_objects_list_no_aliases_no_users_and_no_parts_of_constants() -> None:
    module = llvm.parse_assembly(
        """
@v = constant i32 0
@al = alias i32, ptr @v
@table = global [1 x ptr] [ptr @v]
declare i32 @person(...)
define ptr @f() personality ptr @person {
  ret ptr getelementptr (i8, ptr @table, i64 1)
}
"""
    )
    table, f = module.get_global_variable("table"), module.get_function("f")
    [constant] = next(iter(next(iter(f.blocks)).instructions)).operands

    assert {each.name for each in (*module.functions, *module.global_variables)} == {"v", "table", "f", "person"}
    for value in (table, constant):
        with pytest.raises(ValueError, match="expected instruction value"):
            assert list(value.operands)
    assert not {"users", "uses", "personality", "comdat", "is_thread_local"} & set(dir(f))
