"""Equal machine code under other names is equal; anything else is not."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.passes.asm.analysis.identical import names_symbol, refine_keys, without_label

GENERIC = """\
\t.file\t"a.c"
\t.text
\t.hidden\tf.generic                       // -- Begin function f.generic
\t.globl\tf.generic
\t.p2align\t2
\t.type\tf.generic,@function
f.generic:                              // @f.generic
// %bb.0:
\tadd\tw0, w0, #1
\tbl\th.generic
\tret
.Lfunc_end0:
\t.size\tf.generic, .Lfunc_end0-f.generic
\t.p2align\t2                               // -- Begin function helper
\t.type\thelper.generic,@function
helper.generic:                         // @helper
\tret
\t.ident\t"clang"
"""
A55 = (
    GENERIC.replace("f.generic,", '"f.cortex-a55",')
    .replace("f.generic", '"f.cortex-a55"')
    .replace("h.generic", '"h.cortex-a55"')
    .replace("helper.generic", '"helper.cortex-a55"')
    .replace("p2align\t2", "p2align\t4")
    .replace("     // @f", " // @f")
)


def test_names_comments_and_entry_alignment_do_not_count() -> None:
    assert without_label(A55, "cortex-a55") == without_label(GENERIC, "generic")


def test_the_neutral_text(golden: object) -> None:
    assert golden == without_label(A55, "cortex-a55")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("w0, #1", "w0, #2"),
        ("\tret", "\tnop\n\tret"),
        ("h.cortex-a55", "h.cortex-a55-r0"),
        ("h.cortex-a55", "k.cortex-a55"),
        ("\tadd", "\t.p2align\t4, , 8\n\tadd"),
        ("\tret", '\tret\n\t.section\t.rodata\n\t.asciz\t"// not a comment"'),
        ("\tret", "\t//APP\n\tmov x1, x2 // theirs\n\t//NO_APP\n\tret"),
    ],
)
def test_other_code_is_other_code(before: str, after: str) -> None:
    assert before in A55
    assert without_label(A55.replace(before, after), "cortex-a55") != without_label(GENERIC, "generic")


def test_a_label_that_begins_another_one_is_left_alone() -> None:
    assert (
        without_label("\tbl\tf.cortex-a75-r0\n\tbl\tf.cortex-a75", "cortex-a75") == "\tbl\tf.cortex-a75-r0\n\tbl\tf.*"
    )


def test_x86_comments_go_and_immediates_stay() -> None:
    assert without_label("\tandl\t$7, %eax    # imm = 0x7\n# %bb.0:\n\tretq", "x") == "\tandl\t$7, %eax\n\tretq"


MACHO = """\
\t.globl\t_f.generic
\t.p2align\t2
_f.generic:                             ; @f.generic
; %bb.0:
\t; InlineAsm Start
\tadd\tw0, w0, #3 ; nop ; nop
\t; InlineAsm End
\tb\tLBB0_1                              ; =1
\t.p2align\t4
LBB0_1:
\tret
"""


def test_objects_for_macos_are_compared_too() -> None:
    other = MACHO.replace("_f.generic", '"_f.apple-firestorm"').replace("p2align\t2", "p2align\t6").replace("  ;", ";")
    assert without_label(other, "apple-firestorm") == without_label(MACHO, "generic")
    for before, after in (("; nop ; nop", "; nop"), ("p2align\t4", "p2align\t5"), ("b\tLBB0_1 ", "b\tLBB0_2 ")):
        assert before in other
        assert without_label(other.replace(before, after), "apple-firestorm") != without_label(MACHO, "generic")


def test_a_symbol_is_named_only_as_a_whole() -> None:
    assert names_symbol('\tbl\t"h.cortex-a75"', "h.cortex-a75")
    assert not names_symbol('\tbl\t"h.cortex-a75-r0"', "h.cortex-a75")
    assert not names_symbol('\tbl\t"oh.cortex-a75"', "h.cortex-a75")


def test_equal_callers_of_different_callees_are_different() -> None:
    keys = {
        ("f", "a"): "same",
        ("f", "b"): "same",
        ("f", "c"): "same",
        ("h", "a"): "1",
        ("h", "b"): "1",
        ("h", "c"): "2",
    }
    calls = {("f", label): frozenset({("h", label)}) for label in "abc"}
    refined = refine_keys(keys, calls)
    assert refined["f", "a"] == refined["f", "b"] != refined["f", "c"]


def test_a_difference_travels_through_any_number_of_calls() -> None:
    names = [f"f{i}" for i in range(6)]
    keys = {(name, label): name for name in names for label in "ab"} | {("f5", "b"): "other"}
    calls = {(f"f{i}", label): frozenset({(f"f{i + 1}", label)}) for i in range(5) for label in "ab"}
    refined = refine_keys(keys, calls)
    assert all(refined[name, "a"] != refined[name, "b"] for name in names)


def test_functions_that_call_each_other_can_be_equal() -> None:
    calls = {(f, x): frozenset({(g, x)}) for f, g in (("f", "g"), ("g", "f")) for x in "ab"}
    refined = refine_keys({("f", "a"): "1", ("f", "b"): "1", ("g", "a"): "2", ("g", "b"): "2"}, calls)
    assert refined["f", "a"] == refined["f", "b"] != refined["g", "a"]


NODES = [(f, label) for f in "fgh" for label in "abc"]


@given(
    st.fixed_dictionaries({node: st.sampled_from("12") for node in NODES}),
    st.dictionaries(st.sampled_from(NODES), st.frozensets(st.sampled_from(NODES), max_size=3)),
)
def test_equal_refined_keys_mean_equal_keys_of_all_callees(
    keys: dict[tuple[str, str], str], calls: dict[tuple[str, str], frozenset[tuple[str, str]]]
) -> None:
    refined = refine_keys(keys, calls)
    for one in NODES:
        for other in NODES:
            if refined[one] == refined[other]:
                assert keys[one] == keys[other]
                assert sorted(refined[c] for c in calls.get(one, ())) == sorted(
                    refined[c] for c in calls.get(other, ())
                )


@pytest.mark.skipif(not shutil.which("as"), reason="no assembler is installed")
def test_equal_texts_assemble_to_equal_code(tmp_path: object) -> None:
    """The neutral text of x86 code, assembled: what was dropped made no byte."""
    text = "\t.text\n\t.globl\tf.a\n\t.type\tf.a,@function\nf.a:  # @f.a\n\tleal\t1(%rdi), %eax # note\n\tretq\n"
    folder = str(tmp_path)
    codes = []
    for name, asm in (("one", text), ("two", without_label(text, "a").replace(".*", ".b"))):
        subprocess.run(["as", "--64", "-o", f"{folder}/{name}.o", "-"], input=asm + "\n", text=True, check=True)
        command = ["objcopy", "-O", "binary", "-j", ".text", f"{folder}/{name}.o", f"{folder}/{name}.bin"]
        subprocess.run(command, check=True)
        with open(f"{folder}/{name}.bin", "rb") as file:
            codes.append(file.read())
    assert codes[0] == codes[1] and codes[0]
