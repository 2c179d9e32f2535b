"""Generated modules with every kind of call go through every IR pass; LLVM reads the result, with the same calls."""

import re

import llvmlite.binding as llvm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.passes.ir.arithmetic import (
    CallText,
    declare_fma,
    explicit_fmuladd,
    fuse_contracted,
    read_call,
    without_fast_math,
)
from mavcg.passes.ir.clone import make_version
from mavcg.passes.ir.definition_text import relabel_module, with_cpu
from mavcg.passes.ir.dispatch import Dispatch, RuntimeNames, add_dispatchers
from mavcg.passes.ir.hot_module import HotModule, version_symbol
from mavcg.passes.ir.module_text import parse_module, with_entities
from mavcg.passes.ir.protection import protect
from mavcg.passes.ir.refuse import outlined_regions, why_not
from mavcg.passes.ir.shared import keep_for_versions
from mavcg.passes.ir.split_vector_loads import split_vector_loads
from mavcg.toolchain.codegen import canonical
from tests.conftest import examples

PARAMETERS = 'ptr %0, float %1, ptr %"quoted @value(", ptr addrspace(1) %far, ptr %half.fmuladd.x'
HEAD = r"""
%"a type @t(" = type { i32, float }
@data = global i32 0
@"text %0" = private constant [33 x i8] c"%r = fadd fast float @llvm.fma.(\00"
declare float @llvm.fmuladd.f32(float, float, float)
declare i32 @personality(...)
declare void @direct(ptr)
declare void @"quoted @direct("(ptr)
define internal void @local(ptr %p) {
  ret void
}
define void @f(PARAMETERS) personality ptr @personality {
  br label %"loop half:"
"loop half:":
  %i = phi i64 [ 0, %2 ], [ %next, %"last block" ]
  %next = add i64 %i, 1
"""
TAIL = """
  %"fmuladd.of @x" = notail call nnan contract noundef float @llvm.fmuladd.f32(float noundef %1,
      float nofpclass(nan) %1, float 1.0), !fpmath !0
  %v = load <4 x float>, ptr %0, align 4
  store <4 x float> %v, ptr %"quoted @value("
  %more = icmp ult i64 %next, 100
  br i1 %more, label %"loop half:", label %done
done:
  %m = fmul contract float %"fmuladd.of @x", %1
  %s = fadd contract float %m, 2.0
  store float %s, ptr %0
  musttail call void %half.fmuladd.x(PARAMETERS)
  ret void
aside:
  unreachable
bad:
  %pad = landingpad { ptr, i32 }
          cleanup
  resume { ptr, i32 } %pad
}
attributes #0 = { nounwind "k"="call fast void @direct(" }
!0 = !{float 2.5}
"""
CALLEES = (
    "%0",
    '%"quoted @value("',
    "%half.fmuladd.x",
    "@direct",
    '@"quoted @direct("',
    "@local",
    "dso_local_equivalent @direct",
    "dso_local_equivalent @local",
    "no_cfi @local",
    "no_cfi @direct",
    "inttoptr (i64 4096 to ptr)",
    "getelementptr inbounds (i8, ptr @local, i64 4)",
    "getelementptr inrange(-8, 8) (i8, ptr @data, i64 0)",
    "null",
    "poison",
    "undef",
)
RESULTS = (
    "void",
    "float",
    "i32",
    "ptr",
    "<4 x float>",
    "[2 x half]",
    '%"a type @t("',
    "{ <2 x i64>, ptr addrspace(1) }",
)
RESULT_ATTRIBUTES = {
    "void": ("",),
    "float": ("noundef", "inreg nofpclass(nan)"),
    "i32": ("signext", "range(i32 0, 10)"),
    "ptr": ("noundef nonnull align 8 dereferenceable(4)", '"text"="@x("'),
    "<4 x float>": ("nofpclass(inf)",),
}
CONVENTIONS = ("fastcc", "coldcc", "cc 42", "preserve_mostcc", "swiftcc", "x86_regcallcc", "aarch64_vector_pcs")
ARGUMENTS = (
    "ptr %0",
    "ptr noundef nonnull align 8 @data",
    "float 1.0",
    "i32 range(i32 0, 3) 2",
    '%"a type @t(" zeroinitializer',
    "ptr getelementptr (i8, ptr @data, i64 4)",
    "<2 x i32> <i32 1, i32 2>",
    "[2 x i32] [i32 1, i32 2]",
    "ptr @local",
    "ptr byval(i64) align 8 %0",
    "ptr addrspace(1) %far",
    "<2 x float> splat (float 2.0)",
)
AFTER = ("", " #0", ' nounwind memory(none) "x"="call @y("')
BUNDLES = ("", ' [ "deopt"(i32 1, ptr @local), "b\\22 @x("(float %1) ]')
ASSEMBLY = ('asm "", ""', r'asm sideeffect alignstack inteldialect "nop # @f( \22 \0A", "~{memory}"')


@st.composite
def calls(draw: st.DrawFn, number: int) -> str:
    """A call, invoke or callbr of any kind, as an instruction of @f."""
    result = draw(st.sampled_from(RESULTS))
    opcode = draw(st.sampled_from(("call", "call", "tail call", "notail call", "invoke", "callbr")))
    may_have_flags = opcode.endswith("call") and result in ("float", "<4 x float>")
    flags = draw(st.sampled_from(("", "fast", "nnan contract", "reassoc nsz"))) if may_have_flags else ""
    attributes = draw(st.sampled_from(("", *RESULT_ATTRIBUTES.get(result, ()))))
    name = "" if result == "void" else draw(st.sampled_from((f"%call.{number}", f'%"call @{number}("'))) + " = "
    if opcode == "callbr":
        after = draw(st.sampled_from(AFTER))
        return (
            f'  callbr void asm sideeffect "nop # @f(", "!i"(){after}\n'
            f"          to label %n{number} [label %aside]\nn{number}:"
        )
    arguments = draw(st.lists(st.sampled_from(ARGUMENTS), max_size=4))
    callee = draw(st.sampled_from(CALLEES))
    function_type, space, convention = result, "", draw(st.sampled_from(("", *CONVENTIONS)))
    if draw(st.booleans()):
        function_type = f"{result} ({', '.join(filter(None, [*map(type_of, arguments), '...']))})"
    elif draw(st.booleans()):
        callee, space = "%far", "addrspace(1)"
    elif opcode.endswith("call") and result == "void" and draw(st.booleans()):
        callee, arguments, convention = draw(st.sampled_from(ASSEMBLY)), [], ""
    words = (opcode, flags, convention, attributes, space, function_type, callee)
    text = f"  {name}{' '.join(filter(None, words))}({', '.join(arguments)})"
    text += draw(st.sampled_from(AFTER)) + draw(st.sampled_from(BUNDLES))
    return text if opcode != "invoke" else f"{text}\n          to label %n{number} unwind label %bad\nn{number}:"


def type_of(argument: str) -> str:
    match = re.match(r'%"[^"]*"|[<\[][^>\]]*[>\]]|\w+(?: addrspace\(1\))?', argument)
    assert match is not None, argument
    return match[0]


@st.composite
def modules(draw: st.DrawFn) -> str:
    """A module whose function @f makes up to six calls, before a multiply-add, a vector load and a musttail call."""
    made = [draw(calls(number)) for number in range(draw(st.integers(1, 6)))]
    text = "\n".join((HEAD, *made, '  br label %"last block"', '"last block":', TAIL))
    return canonical(text.replace("PARAMETERS", PARAMETERS))


def instructions(text: str, function: str = "f") -> list[str]:
    """The calls of a function by llvmlite's objects, without what passes are meant to change."""
    module = llvm.parse_assembly(text)
    module.verify()
    found = module.get_function(function)
    made = [i for block in found.blocks for i in block.instructions if i.opcode in ("call", "invoke", "callbr")]
    groups = dict(re.findall(r"^attributes (#\d+) = (.*)$", str(module), re.MULTILINE))
    lines = [plain(str(i)) for i in made if not re.search(r"@llvm\.fm|asm \"\", \"=r,0\"", str(i))]
    return [re.sub(r"#\d+", lambda m: groups[m[0]], line) for line in lines]


def plain(line: str) -> str:
    """A line without the number that llvmlite's context adds to a type's name when a second module has it."""
    return re.sub(r'(?<=@t\()[.\d]+(?=")', "", line).strip()


def without_flags(lines: list[str]) -> list[str]:
    flagged = re.compile(r'^((?:%"[^"]*"|%[\w.]+) = (?:tail |notail )?call)(?: (?:fast|nnan|contract|reassoc|nsz))+ ')
    return [flagged.sub(r"\1 ", line) for line in lines]


@settings(max_examples=examples(100, 10))
@given(modules())
def test_arithmetic_leaves_calls_as_they_are(text: str) -> None:
    for fused in ({"float"}, set()):
        explicit = declare_fma(explicit_fmuladd(text, fused))
        assert instructions(explicit) == instructions(text)
        contracted = declare_fma(fuse_contracted(explicit, fused))
        assert instructions(contracted) == instructions(text)
        assert contracted.count("call float @llvm.fma.f32(") == (1 if fused else 0)
        plain = without_fast_math(contracted)
        assert instructions(plain) == without_flags(instructions(text))
        assert "%r = fadd fast float @llvm.fma.(" in plain


@settings(max_examples=examples(100, 10))
@given(modules())
def test_versions_make_the_calls_of_their_function(text: str) -> None:
    module = parse_module(text)
    assert str(parse_module(str(module))) == str(module) and why_not(module, "f", "aarch64") is None
    assert outlined_regions(module, "f") == ()
    hot = HotModule(module, frozenset({"f"}), "tag")
    version = make_version(hot, "f", "generic")
    with_cpus = canonical(str(with_cpu(version.module, {s: '"target-cpu"="a"' for s in version.module.definitions()})))

    made = instructions(with_cpus, "f.generic")
    assert [line.replace(".tag", "").replace("@local.generic", "@local") for line in made] == instructions(text)
    moved = str(relabel_module(with_cpus, "generic", "other"))
    assert [line.replace(".other", ".generic") for line in instructions(moved, "f.other")] == made
    base = keep_for_versions(hot, version.needs)
    runtime = RuntimeNames("offset", "core_of_cpu", "select", 8192)
    base = add_dispatchers(hot, base, [Dispatch("f", (version_symbol(hot, "f", "generic"),), runtime)])
    assert instructions(str(base), "f")[-1].startswith("musttail call void %mavcg.target(ptr %0")
    instructions(str(with_entities(base, base.entities)), "f")


@settings(max_examples=examples(100, 10))
@given(modules())
def test_load_splitting_and_protection_leave_calls_as_they_are(text: str) -> None:
    split = split_vector_loads(text)
    assert instructions(split) == instructions(text)
    assert "%v.low = load <2 x float>" in split or '%"v.low" = load' in split
    assert instructions(protect(text, "aarch64")) == instructions(text)


@settings(max_examples=examples(100, 10))
@given(modules())
def test_the_reader_agrees_with_llvms_objects(text: str) -> None:
    read = [call for line in text.split("\n") if (call := read_call(line))]
    module = llvm.parse_assembly(text)
    objects = [
        i
        for function in module.functions
        for block in function.blocks
        for i in block.instructions
        if i.opcode in ("call", "invoke", "callbr")
    ]
    assert len(read) == len(objects)
    for call, instruction in zip(read, objects, strict=True):
        assert plain(str(instruction).split("\n")[0]) == plain(str(call))
        assert plain(str(instruction.type)).partition(" = ")[0] == plain(call.return_type)
        operands = [str(operand) for operand in instruction.operands]
        if call.symbol:
            assert re.search(rf"@\"?{re.escape(call.symbol)}\"?\(", operands[-1])
        elif call.callee != "poison" and not call.callee.startswith("%"):
            assert operands[-1].strip().endswith(call.callee)


@pytest.mark.parametrize("line", ["  ret void", "  %x = add i32 1, 2", "call:", "  #dbg_value(ptr @call, !1, !2, !3)"])
def test_other_lines_are_no_calls(line: str) -> None:
    assert read_call(line) is None


def test_a_call_through_a_value_is_not_taken_for_a_declaration() -> None:
    # Found in opus's tonality_analysis: the text between a call and the next symbol was the declaration's type.
    text = """define void @f(ptr %0, float %x) {
  call void %0(ptr null)
  %r = call float @llvm.fma.f32(float %x, float %x, float %x)
  ret void
}
"""
    declared = declare_fma(text)
    assert declared == text + "declare float @llvm.fma.f32(float, float, float)\n"
    assert read_call("  call void %0(ptr null)") == CallText("  ", "", "call", (), "", "void", "%0", ("ptr null",), "")
