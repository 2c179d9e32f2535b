"""Files to statements: nothing lost, errors at the right place, garbage refused in words."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.passes.asm.analysis.blocks import functions_of
from mavcg.passes.asm.isa.source import Statement, parse_source
from tests.conftest import examples

_PIECES = st.sampled_from(
    [
        "add x0, x0, #1",
        "\tldr\tq0, [x1], #16",
        "ret",
        "b.ne .Lloop",
        "nop",
        ".Lloop:",
        "1:",
        '"f.cortex-a55":',
        "f:",
        "\t.p2align 4",
        '\t.ascii "a; // b /* c"',
        '.asciz "q\\"r:s"',
        ".byte ';', '\"', ':'",
        "mov w0, #'/'",
        "// comment; nop: \"'",
        "/* com ; ment */",
        "/* two\nlines */",
        '# 12 "file.c"',
        "x = 5",
        "a .req x1",
        "ld1 { v0.4s, v1.4s }, [x0], #32",
        "\n",
        "\n\n",
        "\r\n",
        ";",
        " ; ",
        "\t",
        "  ",
        "",
        " // tail",
        "// APP\n",
        "// NO_APP\n",
        ".if 1\n",
        ".endif\n",
        ".rept 2\n",
        ".endr\n",
        ".macro m a\n",
        "\\a\n",
        ".endm\n",
    ]
)

REAL = """\t.text
\t.globl\tscale
\t.p2align\t2
\t.type\tscale,@function
scale:                                  // @scale
\t.cfi_startproc
// %bb.0:
\tstp\tx29, x30, [sp, #-16]!           // 16-byte Folded Spill
\t.cfi_def_cfa_offset 16
\tmov\tx29, sp
\tcbz\tw2, .LBB0_2
.LBB0_1:                                // =>This Inner Loop Header: Depth=1
\tldr\tq1, [x0], #16
\tfmul\tv1.4s, v1.4s, v0.s[0]
\tsubs\tw2, w2, #4
\tstr\tq1, [x1], #16
\tb.ne\t.LBB0_1
.LBB0_2:
\tldp\tx29, x30, [sp], #16             // 16-byte Folded Reload
\tret
.Lfunc_end0:
\t.size\tscale, .Lfunc_end0-scale
\t.cfi_endproc
\t.ident\t"clang; // version"
"""


def code(text: str) -> list[Statement]:
    return [s for s in parse_source(text, "f.s") if s.kind != "blank"]


@settings(max_examples=examples(400, 13))
@given(st.lists(st.tuples(_PIECES, st.sampled_from(["\n", "\n", "\r\n", ";", " ", ""])), max_size=14))
def test_the_texts_of_the_statements_are_the_file(pieces: list[tuple[str, str]]) -> None:
    text = "".join(piece + end for piece, end in pieces)
    try:
        statements = parse_source(text, "f.s")
    except MavcgError as error:
        assert re.match(r"f\.s:\d+:\d+: ", str(error))
        return
    assert "".join(s.text for s in statements) == text
    lines = text.split("\n")
    for s in statements:
        if s.kind != "blank":  # it begins where line and column say, but for a comment in it
            assert lines[s.line - 1][s.column - 1 :].startswith(s.code.split("\n")[0][:3].rstrip(" :"))


@settings(max_examples=examples(400, 13))
@given(st.text(alphabet=st.sampled_from(list("ax0v.4s[]{}(),#!:;\"'/*\\ \t\r\n\x00é٣-+=")), max_size=40))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    try:
        statements = parse_source(text, "f.s")
        assert "".join(s.text for s in statements) == text
        functions_of(statements, "f.s")
    except MavcgError as error:
        assert re.match(r"f\.s:\d+:\d+: [^\n]*; [^\n]*$", str(error), re.DOTALL), str(error)


def test_truncated_and_garbled_files_are_read_or_refused_with_their_place() -> None:
    pick = random.Random(3)
    garbled = [REAL[:at] for at in range(len(REAL))]
    for _ in range(1500):
        letters = list(REAL)
        for _ in range(pick.randint(1, 4)):
            letters[pick.randrange(len(letters))] = chr(pick.choice((pick.randrange(128), pick.randrange(32, 127))))
        garbled.append("".join(letters))
    refused = 0
    for text in garbled:
        try:
            statements = parse_source(text, "f.s")
            assert "".join(s.text for s in statements) == text
            functions_of(statements, "f.s")
        except MavcgError as error:
            refused += 1
            match = re.match(r"f\.s:(\d+):(\d+): ", str(error))
            assert match, str(error)
            lines = text.split("\n")
            assert 1 <= int(match[1]) <= len(lines)
            assert 1 <= int(match[2]) <= len(lines[int(match[1]) - 1]) + 1
    assert refused > 300


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("nop\n  ldr x0, [x1\n", "f.s:2:3", r"'\[' is not closed"),
        ("nop; ldr x0, x1]\n", "f.s:1:6", r"'\]' closes nothing"),
        ("f: ld1 { v0.4s, [x0]\n", "f.s:1:4", "closes nothing|not closed"),
        ("\tadd x0, , x1\n", "f.s:1:2", "an operand is missing"),
        ("\tadd x0, x1,\n", "f.s:1:2", "an operand is missing"),
        ('nop\n\t.ascii "abc\n', "f.s:2:9", "a string is not closed"),
        ("nop\nnop /* no end\nnop\n", "f.s:2:5", "a comment /\\* is not closed"),
        ("nop\n\x7fELF\x02\x01", "f.s:2:1", "is not assembly"),
        ("nop\n}\n", "f.s:2:1", "is not an instruction"),
        ("nop\n.rept 3\nnop\n", "f.s:3:1", "the file ends inside"),
        (".if X\n", "f.s:1:1", "the file ends inside"),
        ("/* two\nlines */ ldr x0, [x1\n", "f.s:2:10", "is not closed"),
        ("add x٣, x1, x2 ]\n", "f.s:1:1", "closes nothing"),
    ],
)
def test_errors_name_line_and_column(text: str, place: str, what: str) -> None:
    with pytest.raises(MavcgError, match=rf"^{re.escape(place)}: .*(?:{what})"):
        parse_source(text, "f.s")


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("f:\n\tcbz x0, .Lgone\n\tret\n", "f.s:3:2", ".Lgone is nowhere in the file"),
        ("f:\n\tadd x0, x1\n", "f.s:3:2", "has 2 operands"),
        ("f: nop; ldp x0, [x1]\n", "f.s:2:9", "has 2 operands"),
    ],
)
def test_errors_within_functions_name_line_and_column(text: str, place: str, what: str) -> None:
    with pytest.raises(MavcgError, match=rf"^{re.escape(place)}: .*{re.escape(what)}"):
        functions_of(parse_source(".globl f\n" + text, "f.s"), "f.s")


def test_several_statements_on_a_line() -> None:
    text = code("f: b.eq 1f; nop ;1: ret // end; nop\n")
    assert [(s.kind, s.code, s.column) for s in text] == [
        ("label", "f:", 1),
        ("instr", "b.eq 1f", 4),
        ("instr", "nop", 13),
        ("label", "1:", 18),
        ("instr", "ret", 21),
    ]


def test_labels_in_quotes() -> None:
    (label,) = code('"f.cortex-a55":\n')
    assert label.name == "f.cortex-a55"


def test_characters_are_no_strings_and_end_no_statement() -> None:
    text = code("mov w0, #'\"'\n.byte ';', '\\'', '/'\nnop\n")
    assert [s.code for s in text] == ["mov w0, #'\"'", ".byte ';', '\\'', '/'", "nop"]


@pytest.mark.parametrize(
    ("lines", "meant"),
    [
        ("a .req x1\nadd a, A, x2", "add\tx1, x1, x2"),
        ("w .req w1\ncmp w, #1", "cmp\tw1, #1"),
        ("v .req v3\nfmla v.4s, v1.4s, v2.s[0]", "fmla\tv3.4s, v1.4s, v2.s[0]"),
        ("acc .req v3.4s\nfadd acc, acc, v1.4s", "fadd\tv3.4s, v3.4s, v1.4s"),
        ("a .req x1\nb .req a\nadd x0, x2, b", "add\tx0, x2, x1"),  # an alias of an alias is a register too
        ("a .req x1\na .req x2\nmov x0, a", "mov\tx0, x1"),  # assemblers ignore the second, and warn
        ("a .req x1\n.unreq a\na .req x2\nmov x0, a", "mov\tx0, x2"),
        ("p .req x1\nldr q0, [p], #16", "ldr\tq0, [x1], #16"),
    ],
)
def test_names_for_registers(lines: str, meant: str) -> None:
    assert str(code(lines)[-1].instr) == meant


def test_the_inside_of_macros_is_not_read() -> None:
    text = code(".macro m a, b\n add \\a, \\b\n .if 1\n .endif\n.endm\nnop\n.rept 2\nnop\n.endr\n")
    kinds = [s.kind for s in text]
    assert kinds == ["directive", *["macro"] * 3, "directive", "instr", "directive", "macro", "directive"]


def test_assignments_are_directives() -> None:
    assert [s.kind for s in code("x=5\ny = x + 1\nz == 3\nnop\n")] == ["directive"] * 3 + ["instr"]


def test_inline_assembly_is_marked() -> None:
    text = code("nop\n\t//APP\n\tadd x0, x0, #1\n\t//NO_APP\n#APP\nret\n#NO_APP\nnop\n")
    assert [s.inline for s in text] == [False, True, True, False]
