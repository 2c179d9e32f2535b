"""Assembly files read: preprocessed, assembled, their places kept."""

import time
from pathlib import Path

import pytest

from mavcg.assembly.asm_source import AsmSource, assemble, read_asm_source
from mavcg.errors import MavcgError
from mavcg.passes.asm.analysis.blocks import functions_of
from mavcg.passes.asm.isa.source import parse_source

PLAIN = "\t.text\n\t.globl f\n\t.type f, %function\nf:\n\tadd x0, x0, #1\n\tret\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_plain_file_is_taken_as_it_is(tmp_path: Path) -> None:
    text = "// comment: é\n" + PLAIN
    source = read_asm_source(written(tmp_path, "k.s", text))

    assert source.text == text and not source.preprocessed
    assert source.line(5) == 5 and source.location(5) == f"{tmp_path}/k.s:5"


@pytest.mark.parametrize(
    "code",
    [
        "sdot v0.4s, v1.16b, v2.16b",
        "smmla v0.4s, v1.16b, v2.16b",
        "fmla v0.8h, v1.8h, v2.8h",
        "bfdot v0.4s, v1.8h, v2.8h",
        "aese v0.16b, v1.16b",
        "add z0.s, z0.s, z1.s",
        "ldapr x0, [x1]",
        "casal x0, x1, [x2]",
        "irg x0, x1",
    ],
)
def test_every_extension_assembles(tmp_path: Path, code: str) -> None:
    assert read_asm_source(written(tmp_path, "k.s", PLAIN.replace("add x0, x0, #1", code)))


def test_a_name_with_blanks_and_quotes_is_named_right(tmp_path: Path) -> None:
    path = written(tmp_path, 'a "b" \\c.s', "\tfrob x0\n")

    with pytest.raises(MavcgError) as error:
        read_asm_source(path)
    assert str(error.value).startswith(f"{path}:1:2: unrecognized instruction mnemonic")


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("\tadd x0, x0, q1\n", "1:14", "compatible register"),
        ("\tret\n\n\tfmla v0.4s, v1.4s,\n", "3:20", "unknown token"),
        ("\tret\n\t.macro m\n", "2:2", "macro"),
        ("f:\n\tret\nf:\n", "3:1", "already defined"),
        ("\tldr q0, [x0\n", "1:2", "too few operands"),
    ],
)
def test_garbled_text_is_an_error_with_line_and_column(tmp_path: Path, text: str, place: str, words: str) -> None:
    path = written(tmp_path, "k.s", text)

    with pytest.raises(MavcgError) as error:
        read_asm_source(path)
    assert str(error.value).startswith(f"{path}:{place}: ") and words in str(error.value)
    assert "\n" not in str(error.value)


def test_the_number_of_further_errors_is_told(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match=r"\(and 2 more\); mend the line"):
        read_asm_source(written(tmp_path, "k.s", "\tfrob\n\tfrob\n\tfrob\n"))


def test_a_binary_file_is_no_assembly(tmp_path: Path) -> None:
    (tmp_path / "k.s").write_bytes(b"\x7fELF\0\0\0\0")

    with pytest.raises(MavcgError, match="is not text"):
        read_asm_source(tmp_path / "k.s")


PREPROCESSED = """\
#include "names.h"
#ifdef WIDE
#define STEP 32
#else
#define STEP 16
#endif
\t.text
\t.globl NAME(f)
NAME(f):
\tadd x0, x0, #STEP
\tadd x1, x1, #0x10 // comment
\tret
"""


def test_a_file_with_preprocessor_lines_is_preprocessed(tmp_path: Path) -> None:
    written(tmp_path, "names.h", "#define NAME(x) p_##x\n")
    source = read_asm_source(written(tmp_path, "k.S", PREPROCESSED))

    assert source.preprocessed
    assert "p_f:" in source.text and "#16" in source.text and "STEP" not in source.text
    assert "# 1" not in source.text and str(tmp_path) not in source.text
    line = next(number for number, row in enumerate(source.text.splitlines(), 1) if "#16" in row)
    assert source.line(line) == 10 and source.location(line) == f"{tmp_path}/k.S:10"


def test_definitions_and_folders_for_the_preprocessor(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    written(tmp_path / "inc", "names.h", "#define NAME(x) x\n")

    source = read_asm_source(written(tmp_path, "k.S", PREPROCESSED), ["WIDE"], [tmp_path / "inc"])

    assert "#32" in source.text


def test_an_included_file_that_is_missing(tmp_path: Path) -> None:
    path = written(tmp_path, "k.S", PREPROCESSED)

    with pytest.raises(MavcgError) as error:
        read_asm_source(path)
    assert str(error.value).startswith(f"{path}:1:10: 'names.h' file not found")


def test_an_error_behind_a_macro_names_the_users_line(tmp_path: Path) -> None:
    path = written(tmp_path, "k.S", "#define R x0\n#define S(x) \\\n x\n\n\tadd R, R, S(q1)\n")

    with pytest.raises(MavcgError) as error:
        read_asm_source(path)
    assert str(error.value).startswith(f"{path}:5:")


def test_errors_of_the_passes_name_the_users_line(tmp_path: Path) -> None:
    source = read_asm_source(written(tmp_path, "k.S", "#define N 1\n\n\n" + PLAIN))
    line = next(number for number, row in enumerate(source.text.splitlines(), 1) if "add" in row)

    with pytest.raises(MavcgError) as error, source.places_in_errors():
        raise MavcgError(f"{source.file}:{line}:7: what")
    assert str(error.value) == f"{tmp_path}/k.S:8:7: what"


def test_hash_lines_of_a_plain_file_are_comments(tmp_path: Path) -> None:
    source = read_asm_source(written(tmp_path, "k.s", "# include nothing\n" + PLAIN))

    assert not source.preprocessed


def test_a_result_that_does_not_assemble_is_found() -> None:
    with pytest.raises(MavcgError, match="out.s:2:"):
        assemble(AsmSource("\tret\n\tret x0, x1\n", "out.s"))


MACROS = """\
\t.text
\t.globl f
\t.type f, %function
sum .req v0
\t.macro row n
\t.if \\n > 0
\trow (\\n - 1)
\t.endif
\tfmla sum.4s, v1.4s, v2.s[\\n]
\t.endm
f:
1:
\t.rept 2
\tldr q1, [x0], #16
\t.endr
\trow 3
\tsubs x1, x1, #1
\tb.ne 1b
\tret
\t.size f, .-f
\t.section .rodata
\t.quad 1b - f, 7
"""


def test_macros_are_expanded(tmp_path: Path) -> None:
    source = read_asm_source(written(tmp_path, "k.s", MACROS))

    assert source.expanded
    (found,) = functions_of(parse_source(source.text))
    loop = next(block for block in found.blocks if block.in_loop)
    assert [line.effects.op_class for line in loop.lines if line.effects] == (
        ["ldr_q"] * 2 + ["fmla_lane_q"] * 4 + ["alu_flags", "branch_cond"]
    )
    assert not found.frozen and "armv9" not in source.text


def test_expanded_text_is_the_same_code(tmp_path: Path) -> None:
    path = written(tmp_path, "k.s", MACROS)

    assert assemble(read_asm_source(path)) == assemble(AsmSource(MACROS, "k.s"))


@pytest.mark.parametrize(
    ("depth", "place"), [(0, r":16:2: in a macro: "), (1, r":16:2: in a macro: "), (9, ":.*in a macro: ")]
)
def test_an_error_in_a_macro_names_the_line_that_calls_it(tmp_path: Path, depth: int, place: str) -> None:
    path = written(tmp_path, "k.s", MACROS.replace("row 3", f"row {depth}").replace("v1.4s, v2.s", "v1.4s, x2.s"))

    with pytest.raises(MavcgError, match=rf"k\.s{place}"):
        read_asm_source(path)


@pytest.mark.parametrize("suffix", ["s", "S"])
def test_an_unknown_directive_is_named_with_its_line(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"k.{suffix}"
    path.write_text("\t.text\nf:\n\t.fnord 3 // unlike .text\n\tret\n")

    with pytest.raises(MavcgError, match=rf"k\.{suffix}:3:2: unknown directive \.fnord; mend the line"):
        read_asm_source(path)


def test_an_unknown_directive_in_a_macro_is_named_with_the_line_of_the_call(tmp_path: Path) -> None:
    path = tmp_path / "k.S"
    path.write_text("\t.macro m\n\t.fnord 3\n\t.endm\nf:\n\tm\n\tret\n")

    with pytest.raises(MavcgError, match=r"k\.S:5:2: in a macro: unknown directive \.fnord"):
        read_asm_source(path)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (".rept 100000\nadd x0, x0, x1\n.endr", 3),
        (".rept 0x1000\n.rept 1000\n.rept 1000 // a lot\nadd x0, x0, x1\n.endr\n.endr\n.endr", 3),
        (".rept 20000\n.irp r, x0, x1, x2, x3\nadd \\r, \\r, #1\n.endr\n.endr", 3),
        (".rept 20000; .irpc n, 0123\nadd x\\n, x\\n, #1\n.endr; .endr", 3),
    ],
)
def test_repetitions_without_measure_are_refused_at_once(tmp_path: Path, body: str, line: int) -> None:
    path = tmp_path / "k.S"
    path.write_text(f"\t.text\nf:\n{body}\n\tret\n")

    began = time.monotonic()
    with pytest.raises(MavcgError, match=rf"k\.S:{line}:1: expands to \d+ lines or more, and files of up to 60000"):
        read_asm_source(path)
    assert time.monotonic() - began < 1


@pytest.mark.long
def test_what_expands_to_too_much_by_an_expression_is_refused_when_it_has(tmp_path: Path) -> None:
    path = tmp_path / "k.S"
    path.write_text("\t.set N, 70\n\t.text\nf:\n\t.rept N * 1000\n\tadd x0, x0, x1\n\t.endr\n\tret\n")

    with pytest.raises(MavcgError, match=r"k\.S: its macros and repetitions expand to 700\d\d lines, and"):
        read_asm_source(path)


def test_what_expands_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mavcg.assembly.asm_source._ASSEMBLER_SECONDS", 1)
    path = tmp_path / "k.S"
    path.write_text("\t.set N, 100000\n\t.text\nf:\n\t.rept N\n\t.rept N\n\tadd x0, x0, x1\n\t.endr\n\t.endr\n\tret\n")

    with pytest.raises(MavcgError, match=r"k\.S: assembling takes more than 1 seconds of CPU time"):
        read_asm_source(path)


def test_repetitions_of_the_usual_size_expand(tmp_path: Path) -> None:
    path = tmp_path / "k.S"
    path.write_text("\t.text\nf:\n\t.rept 16\n\t.irp r, x0, x1\n\tadd \\r, \\r, #1\n\t.endr\n\t.endr\n\tret\n")

    assert read_asm_source(path).text.count("add\tx1, x1, #1") == 16


@pytest.mark.parametrize(
    ("written_line", "left"),
    [
        ("\t.func f\n", "\n"),
        (".endfunc\n", "\n"),
        ("\t.func f, f ; nop\n", "; nop\n"),
        ("x:\t.endfunc // x265\n", "x:\n"),
        ('\t.ascii "; .func f"\n', '\t.ascii "; .func f"\n'),
        ("\t.function\n", None),
    ],
)
def test_marks_of_functions_for_debug_formats_are_left_out(tmp_path: Path, written_line: str, left: str | None) -> None:
    path = written(tmp_path, "k.s", PLAIN + written_line)
    if left is None:
        with pytest.raises(MavcgError, match="k.s:7:"):
            read_asm_source(path)
    else:
        assert read_asm_source(path).text == PLAIN + left


def test_the_macros_of_x265_are_read(tmp_path: Path) -> None:
    text = """
.macro endfunc
    .size f, . - f
    .endfunc
    .purgem endfunc
.endm
"""
    function = (
        ".macro function name\n    .globl \\name\n    .type \\name, %function\n    .func \\name\n\\name:\n.endm\n"
    )
    source = read_asm_source(written(tmp_path, "k.S", f"{text}{function}function f\n\tret\nendfunc\n"))
    assert [f.name for f in functions_of(parse_source(source.text, "k.S"), "k.S")] == ["f"]
