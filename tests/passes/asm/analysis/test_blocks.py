"""Functions and blocks as compilers and people write them, and code that must stay where it is."""

from pathlib import Path

import pytest

from mavcg.passes.asm.analysis.blocks import Function, functions_of
from mavcg.passes.asm.isa.source import parse_source
from mavcg.toolchain.zig import run_zig


def functions(text: str) -> tuple[Function, ...]:
    return functions_of(parse_source(text))


def function(body: str) -> Function:
    (found,) = functions(f"\t.text\n.globl f\nf:\n{body}\n")
    return found


def names(text: str) -> list[str]:
    return [f.name for f in functions(text)]


def test_functions_of_a_compiler(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(
        "static int table[4] = {1, 2, 3, 4};\n"
        "__attribute__((noinline)) static int inner(int x) { return x * table[x & 3]; }\n"
        "__attribute__((weak)) int weak(int x) { return x; }\n"
        "void scale(float *a, float k, int n) { for (int i = 0; i < n; i++) a[i] *= k; }\n"
        "int outer(int x) { return inner(x) + 1; }\n"
    )
    arguments = ["-target", "aarch64-linux-gnu.2.17", "-O2", "-g0", "-S", "a.c", "-o", "a.s", "-fno-sanitize=all"]
    run_zig("cc", arguments, "compiling", tmp_path)
    text = (tmp_path / "a.s").read_text()
    found = {f.name: f for f in functions(text)}
    assert set(found) == {"inner", "weak", "scale", "outer"}
    assert not any(f.frozen for f in found.values())
    loops = [b for i, b in enumerate(found["scale"].blocks) if b.loops_to_itself(i)]
    assert loops and all(b.in_loop and b.whole for b in loops)
    assert all(line.effects is not None for f in found.values() for b in f.blocks for line in b.lines)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (".text\n.globl a, b\na: ret\nb: ret\n", ["a", "b"]),
        (".text\n.globl a\na: ret\nhelper: ret\n", ["a"]),
        (".text\n.type a, %function\na: ret\n", ["a"]),
        (".text\n.type a, STT_FUNC\na: ret\n", ["a"]),
        ('.text\n.type "f.cortex-a55",@function\n"f.cortex-a55": ret\n', ["f.cortex-a55"]),
        (".data\n.globl a\na: .word 1\n.text\n.globl b\nb: ret\n", ["b"]),
        (".text\n.globl a\n.type a, %object\na: .word 1\n", []),
        ('.section .text.hot,"ax",@progbits\n.globl a\na: ret\n.section .rodata\n.globl t\nt: .word 1\n', ["a"]),
        ('.section code,"ax"\n.weak a\na: ret\n', ["a"]),
        (".globl a\na: ret\n", ["a"]),  # an assembler starts in .text
        ("", []),
    ],
)
def test_which_labels_are_functions(text: str, found: list[str]) -> None:
    assert names(text) == found


def test_a_function_ends_at_its_size_and_at_another_section() -> None:
    text = ".text\n.globl f\nf: ret\n.size f, .-f\nnop\n.globl g\ng: nop\n.pushsection .rodata\n.popsection\nret\n"
    statements = parse_source(text)
    f, g = functions_of(statements)
    assert statements[f.stop].code == ".size f, .-f"
    assert statements[g.stop].code == ".pushsection .rodata"
    assert g.blocks[-1].leaves and not g.frozen


def test_blocks_and_edges() -> None:
    f = function("cbz x0, 2f\n1: nop\nb.ne 1b\nb 3f\n2: bl g\nnop\n3: tbz x0, #3, 1b\nret")
    assert [b.labels for b in f.blocks] == [("f",), ("1",), (), ("2",), ("3",), ()]
    assert [b.successors for b in f.blocks] == [(3, 1), (1, 2), (4,), (4,), (1, 5), ()]
    assert [b.leaves for b in f.blocks] == [False] * 5 + [True]
    assert [b.in_loop for b in f.blocks] == [False, True, True, False, True, False]
    assert [i for i, b in enumerate(f.blocks) if b.loops_to_itself(i)] == [1]


def test_the_nearest_of_labels_with_one_number() -> None:
    f = function("1: nop\nb 1f\n1: nop\nb.eq 1b\nb.ne 1f\n1: ret")
    assert [b.successors for b in f.blocks] == [(1,), (1, 2), (3, 3), ()]


@pytest.mark.parametrize(
    ("body", "successors", "leaves"),
    [
        ("b g", (), True),
        ("b.eq g\nret", (1,), True),
        ("b.al f", (0,), False),
        ("b.nv f", (0,), False),
        ("br x0", (), True),
        ("blr x0\nnop", (), True),
        ("mrs x0, fpcr", (), True),
        ("ret", (), True),
    ],
)
def test_ends_of_blocks(body: str, successors: tuple[int, ...], leaves: bool) -> None:
    block = function(body).blocks[0]
    assert (block.successors, block.leaves) == (successors, leaves)


def test_a_loop_at_the_very_end_is_left_into_the_unknown() -> None:
    block = function("1: subs x0, x0, #1\nb.ne 1b").blocks[0]
    assert block.leaves and not block.loops_to_itself(0)


@pytest.mark.parametrize(
    "data", [".inst 0xd503201f", ".word 1", ".byte 1, 2, 3, 4", ".zero 4", ".float 1.0", ".4byte 0", '.ascii "abcd"']
)
def test_data_in_code_is_an_unknown_instruction(data: str) -> None:
    (block,) = function(f"nop\n{data}\nret").blocks
    assert [line.effects is None for line in block.lines] == [False, True, False]
    assert not block.whole


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("b .+8\nnop\nret", "line 4: `b .+8` counts"),
        ("cbz x0, . + 8\nret", "counts from its own place"),
        ("b #8\nnop\nret", "counts from its own place"),
        ("cbz x0, #8\nnop\nret", "counts from its own place"),
        ("adr x0, .\nret", "counts from its own place"),
        ("adr x0, #16\nret", "counts from its own place"),
        ("ldr x0, #8\nret", "counts from its own place"),
        ("1: b 1b+4\nret", "counts from its own place"),
        ("adr x0, f+16\nret", "counted in bytes from f"),
        (".Lt: nop\nret\n.data\n.word .Lt+4-other", "counted in bytes from .Lt"),
        (".org 64\nret", ".org depends"),
        ('.incbin "x"\nret', ".incbin depends"),
        (".rept 3\nnop\n.endr\nret", "a macro, a repetition or a condition"),
        (".if 1\nnop\n.endif\nret", ""),
    ],
)
def test_frozen_functions(body: str, why: str) -> None:
    found = functions(f"\t.text\n.globl f\nf:\n{body}\n")[0].frozen
    assert found and why in found


@pytest.mark.parametrize(
    "body",
    [
        "b.eq .Lx\n.Lx: ret",
        "bfi x0, x1, #3, #4\nret",
        "add x0, x0, #8\nret",
        "ldr x0, [x1, #8]\nret",
        "adrp x0, table\nadd x0, x0, :lo12:table+8\nret",
        "prfm pldl1keep, [x0, #64]\nret",
        "bic x0, x1, #8\nret",
        "fmov s0, #1.0\nret",
        "mov x0, #-1\nret",
        "ldr q0, [x0], #-16\nret",
        "sub x0, x0, x1\nret",
        "fmov s0, #.5\nret",
    ],
)
def test_functions_that_may_grow(body: str) -> None:
    assert function(body).frozen == ""


def test_descriptions_of_the_frame_part_a_block() -> None:
    assert not function("nop\n.cfi_def_cfa_offset 16\nret").blocks[0].whole
    assert function(".cfi_startproc\n.p2align 4\nnop\nret").blocks[0].whole
    assert function("nop\n// a comment\n\nret").blocks[0].whole


def test_targets_that_are_nowhere_are_an_error() -> None:
    from mavcg.errors import MavcgError

    with pytest.raises(MavcgError, match=r"^k\.s:3:2: .*\.LBB0_9 is nowhere"):
        functions_of(parse_source(".globl f\nf:\n\tb.ne .LBB0_9\n", "k.s"), "k.s")
