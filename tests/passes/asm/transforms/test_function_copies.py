"""Copies of functions within their file: which are refused and why, and that their own labels stay distinct."""

import pytest

from mavcg.passes.asm.analysis.blocks import functions_of
from mavcg.passes.asm.isa.source import parse_source
from mavcg.passes.asm.transforms.function_copies import (
    function_extent,
    generic_statement,
    mentions,
    rename_function,
    version_text,
    why_no_copy,
)

PLAIN = """\
	.globl f
	.type f, %function
f:
	cbz x0, .Lend
1:
	subs x0, x0, #1
	b.ne 1b
.Lend:
	ret
	.size f, .-f
"""


def why(text: str, name: str = "f") -> str:
    statements = parse_source("\t.text\n" + text)
    return why_no_copy(statements, next(f for f in functions_of(statements) if f.name == name))


@pytest.mark.parametrize(
    "beside",
    [
        "",
        "\t.globl t\nt:\n\ttbz w1, #3, 1f\n\ttbz w1, #3, t\n1:\n\tret\n",
        "\t.size f, .Lend-f\n",
        "\t.globl g\ng:\n\tbl f\n\tb f\n",
        "\t.data\n\t.xword f\n",
        "\t.globl g\ng:\n\tadrp x0, f\n\tadd x0, x0, :lo12:f\n\tret\n",
        "\t.globl g\ng:\n1:\n\tcbz x0, 1b\n\tret\n",
        "\t.hidden f\n\t.globl fine\nfine:\n\tb.eq fine\n\tret\n",
        '\t.section .debug_info,"",@progbits\n\t.xword .Lend\n\t.word .Lend-f\n\t.asciz "f"\n',
        "\t.section .debug_loc\n\t.xword .Lend\n\t.text\n\t.globl g\ng:\n\tret\n",
    ],
)
def test_what_may_stand_beside_a_function_with_copies(beside: str) -> None:
    assert why(PLAIN + beside) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PLAIN.replace("\t.globl f\n", ""), "it is local to its file; give it a .globl f"),
        (PLAIN + "\t.globl g\ng:\n\tb .Lend\n", "line 14: `b .Lend` names its label .Lend from outside"),
        (PLAIN + "\t.section .rodata\n\t.word .Lend - table\n", "names its label .Lend from outside"),
        (PLAIN + "\t.globl g\ng:\n\tb 1b\n", "line 14: `b 1b` goes into or out of it by a number"),
        (PLAIN.replace("1b", "2f") + "\t.globl g\ng:\n2:\n\tret\n", "line 8: `b.ne 2f` goes into or out of it"),
        (PLAIN.replace("\tret\n", "") + "\t.globl g\ng:\n\tret\n", "several entry points: its code runs on"),
        (
            PLAIN + "\t.section .debug_info\n\t.text\n\t.xword .Lend\n",
            "`.xword .Lend` names its label .Lend from outside",
        ),
        (PLAIN + "\t.section .debug_info\n\t.set g, f\n", "`.set g, f` gives it another name"),
        (PLAIN + "\t.set g, f\n", "line 12: `.set g, f` gives it another name"),
        (PLAIN + "g = f\n", "`g = f` gives it another name"),
        (PLAIN.replace("1:", "\ttbnz w1, #3, g\n1:") + "\t.globl g\ng:\n\tret\n", "reaches 32 KiB"),
        (PLAIN.replace("%function", "%gnu_indirect_function"), "it chooses a function by itself, at load"),
        (PLAIN.replace("\tret\n", '\tret\n\t.asciz "f"\n'), "a string in its code"),
        (PLAIN + "\t.variant_pcs f\n", "a calling convention of its own"),
        (PLAIN + "\t.globl g\ng:\n\ttbz x0, #1, f\n\tret\n", "`tbz x0, #1, f` does not reach a dispatcher"),
        (PLAIN + "\t.globl g\ng:\n\tadr x0, f\n\tret\n", "`adr x0, f` does not reach a dispatcher"),
        (PLAIN.replace("\tret\n", "\tb . - 8\n"), "counts from its own place"),
    ],
)
def test_what_has_no_copies_and_why(text: str, reason: str) -> None:
    assert reason in why(text)


def test_a_copy_has_its_own_labels_and_calls_itself() -> None:
    text = "f:\n\tcbz x0, .Lend\n1:\n\tbl f\n\tbl other_f\n\tb 1b\n.Lend:\tret\n"
    statements = parse_source("\t.globl f\n" + text)
    (function,) = functions_of(statements)
    inside = function_extent(statements, function)

    assert rename_function(statements[inside.start : inside.stop], "f", "f.cortex-a55", "$v1") == (
        '"f.cortex-a55":\n\tcbz x0, .Lend$v1\n1:\n\tbl "f.cortex-a55"\n\tbl other_f\n\tb 1b\n.Lend$v1:\tret\n'
    )


def test_directives_of_the_symbol_describe_the_generic_version_and_calls_stay() -> None:
    statements = parse_source("\t.globl f, g\n\t.type f, %function\n\tbl f\n\t.size f, .-f\n\t.xword f\n")
    texts = [generic_statement(s, "f", "f.generic") for s in statements]
    assert "".join(texts) == "\t.globl f.generic, g\n\t.type f.generic, %function\n\tbl f\n\n\t.xword f\n"


def test_debug_information_describes_the_generic_version() -> None:
    statements = parse_source('\t.xword f\n\t.word .Lend-f\n\t.asciz "f"\n')
    texts = [generic_statement(s, "f", "f.generic", in_debug=True) for s in statements]
    assert "".join(texts) == '\t.xword f.generic\n\t.word .Lend-f.generic\n\t.asciz "f"\n'


@pytest.mark.parametrize(("first", "added"), [("add x0, x0, x1", True), ("bti c", False), ("paciasp", False)])
def test_a_version_that_is_jumped_to_has_a_landing_pad(first: str, added: bool) -> None:
    text = f"f.generic:\n\t.cfi_startproc\n\t{first}\n\tret\n"
    assert ("hint #34" in version_text(text, "f.generic", landing=True)) == added
    assert "hint" not in version_text(text, "f.generic", landing=False)


def test_a_name_is_a_whole_word() -> None:
    yes = parse_source('\tbl f\n\tbl "f"\n\t.size f,.-f\nf:\n\tadrp x0, f\n')
    assert all(mentions(s, "f") for s in yes)
    no = parse_source('\tbl f2\n\tbl .f\n\tbl f.generic\n\tbl $f\n\tbl "f.generic"\n')
    assert not any(mentions(s, "f") for s in no)


def test_functions_and_labels_may_be_called_like_instructions() -> None:
    text = "add:\n/* add */\tadd x0, x0, x1\n\tsub x0, x0, #1\n\tcbz x0, sub\n\tb add\nsub:\tret\n"
    statements = parse_source("\t.globl add\n\t.type add, %function\n" + text)
    (function,) = functions_of(statements)
    inside = function_extent(statements, function)

    assert why_no_copy(statements, function) == ""
    assert rename_function(statements[inside.start : inside.stop], "add", "add.generic", "$v") == (
        "add.generic:\n/* add */\tadd x0, x0, x1\n\tsub x0, x0, #1\n\tcbz x0, sub$v\n\tb add.generic\nsub$v:\tret\n"
    )
