"""module_text against llvmlite's printer, and instructions made without checks against those with them."""

import gc
import weakref

import llvmlite.binding as llvm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir
from llvmlite.ir._utils import DuplicatedNameError, NameScope

from mavcg.kernels.builder.emit import (
    F32,
    F64,
    I8,
    I32,
    I64,
    KERNEL_TYPE,
    PTR,
    address,
    const,
    element,
    fma,
    row_count,
    vector,
)
from mavcg.kernels.builder.lanes import load_vector, splat
from mavcg.kernels.builder.module_text import Names, module_text, release
from mavcg.kernels.registry import emit
from tests.conftest import examples
from tests.kernels.test_self_contained import CORES, NODES, lowered

PLAIN_NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=5)


def begin(name: str = "f") -> tuple[ir.Module, ir.Function, ir.IRBuilder]:
    module = ir.Module("some kernels")
    module.triple = llvm.get_default_triple()
    function = ir.Function(module, KERNEL_TYPE, name)
    return module, function, ir.IRBuilder(function.append_basic_block("entry"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("core", CORES)
def test_kernels_are_printed_as_by_llvmlite(core: str) -> None:
    module = ir.Module("kernels")
    for spec in dict.fromkeys(step.spec for name in NODES for step in lowered(name)[2]):
        emit(module, spec, CORES[core])
    assert module_text(module) == str(module)


def test_a_released_module_is_freed_without_the_garbage_collector() -> None:
    module = ir.Module("kernels")
    for spec in dict.fromkeys(step.spec for step in lowered("softmax")[2]):
        emit(module, spec, CORES["x86_64"])
    last_instructions = [weakref.ref(block.instructions[-1]) for f in module.functions for block in f.blocks]
    assert last_instructions
    gc.disable()
    try:
        release(module)
        assert [freed() for freed in last_instructions] == [None] * len(last_instructions)
    finally:
        gc.enable()


def test_a_count_of_a_run_keeps_no_module() -> None:
    module, function, b = begin()
    row_count(b, 0)
    kept = weakref.ref(function)
    del module, function, b
    gc.collect()
    assert kept() is None


def test_every_form_is_printed_as_by_llvmlite() -> None:
    """Metadata, attributes, flags, several blocks, names to be quoted, globals, and named types."""
    module, function, b = begin('quoted "name" \\')
    args, first, last, _ = function.args
    module.context.get_identified_type("pair").set_body(I64, PTR)
    table = ir.GlobalVariable(module, ir.ArrayType(I8, 2), "table")
    table.initializer = ir.Constant(table.value_type, bytearray(b"\x00\xff"))
    module.add_named_metadata("notes", module.add_metadata(["one", const(2)]))
    external = ir.Function(module, ir.FunctionType(I32, [PTR], var_arg=True), "printf")
    plain = ir.Function(module, ir.FunctionType(I64, [I64, PTR]), "plain")
    loaded = b.load(b.gep(args, [first, const(-3)], source_etype=ir.ArrayType(F32, 4)), 'a"b', align=4, typ=F32)
    loaded.set_metadata("nontemporal", module.add_metadata([const(1, I32)]))
    b.store(loaded, args, align=1)
    b.store(table.initializer, table)
    total = b.fadd(loaded, ir.Constant(F32, 0.1), "back\\slash", flags=("nnan", "contract"))
    b.call(external, [table, b.fpext(total, ir.DoubleType())], "printed")
    b.call(plain, [first, args], "one", tail="musttail", arg_attrs={1: ("noalias",)}, attrs=("nounwind",))
    b.call(plain, [first, args], "one", cconv="fastcc")
    b.call(ir.Function(module, ir.FunctionType(F32, [F32]), "g"), [total], fastmath=("fast",))
    vectors = b.insert_element(ir.Constant(vector(F32, 4), ir.Undefined), total, const(0, I32))
    b.extract_element(b.shuffle_vector(vectors, vectors, ir.Constant(vector(I32, 2), [0, 7]), "x"), const(1, I32))
    with b.if_else(b.icmp_signed("<", first, last)) as (small, large):
        with small:
            b.asm(ir.FunctionType(ir.VoidType(), []), "nop", "", (), True)
        with large:
            b.switch(b.select(b.trunc(first, ir.IntType(1)), first, last), b.block).add_case(3, b.block)
    b.position_at_end(function.append_basic_block("after"))
    b.comment("a comment")
    b.ret_void()
    texts = module_text(module), str(module)
    del module.context.identified_types["pair"]  # the context is of all modules of a process
    assert texts[0] == texts[1]


@given(st.lists(PLAIN_NAMES, max_size=12), st.integers(1, 16))
@settings(max_examples=examples(300, 13))
def test_unchecked_instructions_are_those_of_llvmlite(names: list[str], lanes: int) -> None:
    """The same text, by the helpers of emit.py and by llvmlite's builder alone, whatever the names."""
    texts = []
    for unchecked in (False, True):
        module, function, b = begin()
        if unchecked:
            function.scope = Names(function.scope)
            function.blocks[0].scope = function.scope
        typ = vector(F32, lanes)
        if unchecked:
            value = load_vector(
                b, address(b, element(b, function.args[0], function.args[1], F64), 4, "p"), F32, name="x"
            )
        else:
            first = b.gep(function.args[0], [function.args[1]], inbounds=True, source_etype=F64)
            pointer = b.gep(first, [ir.Constant(I64, 4)], inbounds=True, name="p", source_etype=I8)
            value = b.load(pointer, "x", align=4, typ=F32)
        for name in names:
            if unchecked:
                wide = splat(b, value, lanes, name)
                fma(b, wide, wide, wide, name)
                continue
            wide = value
            if lanes > 1:
                empty = ir.Constant(typ, ir.Undefined)
                first_lane = b.insert_element(empty, value, ir.Constant(I32, 0))
                wide = b.shuffle_vector(first_lane, empty, ir.Constant(vector(I32, lanes), [0] * lanes), name)
            declared = f"llvm.fma.{f'v{lanes}f32' if lanes > 1 else 'f32'}"
            callee = module.globals.get(declared) or ir.Function(module, ir.FunctionType(typ, [typ] * 3), declared)
            b.call(callee, [wide, wide, wide], name)
        b.ret_void()
        texts.append(str(module))
        assert module_text(module) == str(module)
    assert texts[0] == texts[1]
    llvm.parse_assembly(texts[1]).verify()


@given(st.lists(st.tuples(st.sampled_from(["", "a", "a.1", "b", "b.2"]), st.booleans()), max_size=20))
def test_names_are_numbered_as_by_llvmlite(requests: list[tuple[str, bool]]) -> None:
    def names(scope: NameScope) -> list[str]:
        given_names = []
        for name, deduplicate in requests:
            try:
                given_names.append(scope.register(name, deduplicate))
            except DuplicatedNameError as error:
                given_names.append(f"duplicate {error}")
        return given_names

    assert names(Names(NameScope())) == names(NameScope())
