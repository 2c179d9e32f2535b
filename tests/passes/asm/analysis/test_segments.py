"""Fences, which instructions may not cross: inline assembly, directives, calls and unknown instructions."""

from collections.abc import Sequence

import pytest

from mavcg.passes.asm.analysis.blocks import Block, functions_of
from mavcg.passes.asm.analysis.segments import is_fence_free, segments_of
from mavcg.passes.asm.isa.source import Statement, parse_source


def block_of(body: str, index: int = 0) -> tuple[Block, Sequence[Statement]]:
    statements = parse_source(f"\t.text\n\t.globl f\nf:\n{body}\n")
    return functions_of(statements)[0].blocks[index], statements


def pieces(body: str, open_inline: bool = False) -> list[list[str]]:
    block, statements = block_of(body)
    code = [statements[line.statement].code for line in block.lines]
    return [code[s.first : s.stop] for s in segments_of(block, statements, open_inline)]


A, B, C = "add x1, x1, #1", "add x2, x2, #1", "add x3, x3, #1"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (f"{A}\n{B}\nret", [[A, B]]),
        (f"{A}\n// words\n\n{B}\nret", [[A, B]]),
        (f"{A}\nbl g\n{B}\nret", [[A], [B]]),
        (f"{A}\nblr x9\n{B}\nret", [[A], [B]]),
        (f"{A}\nmrs x9, fpcr\n{B}\nret", [[A], [B]]),
        (f"{A}\ndmb ish\n{B}\nret", [[A], [B]]),
        (f"{A}\nldar x9, [x0]\n{B}\nret", [[A], [B]]),
        (f"{A}\n.inst 0xd503201f\n{B}\nret", [[A], [B]]),
        (f"{A}\n.cfi_def_cfa_offset 16\n{B}\nret", [[A], [B]]),
        (f"{A}\n.loc 1 2 3\n{B}\nret", [[A, B]]),
        (f"{A}\n.Ltmp3:\n{B}\nret", [[A, B]]),  # no code or data refers to it
        (f"{A}\n.p2align 4\n{B}\nret", [[A], [B]]),
        (f"{A}\nmy_macro x1\n{B}\nret", [[A], [B]]),
        ("bl g\nret", []),
        (f"//APP\n{A}\n{B}\n//NO_APP\n{C}\nret", [[A, B], [C]]),
        (f"{A}\n//APP\n{B}\n//NO_APP\n{C}\nret", [[A], [B], [C]]),
        (f"{A}\n//APP\n{B}\n//NO_APP\n//APP\n{C}\n//NO_APP\nret", [[A], [B], [C]]),
        (f"{A}\n//APP\n//NO_APP\n{B}\nret", [[A], [B]]),  # a barrier of the compiler
        (f"{A}\n\t//APP\n\n\t//NO_APP\n{B}\nret", [[A], [B]]),
        (f'{A}\n#APP\n// 3 "a.c" 1\n\t\n// 0 "" 2\n#NO_APP\n{B}\nret', [[A], [B]]),  # the same by GCC
        (f'{A}\n#APP\n// 3 "a.c" 1\n\t// a mark\n// 0 "" 2\n#NO_APP\n{B}\nret', [[A, B]]),
        (f"{A}\n//APP\n\t// a mark\n//NO_APP\n{B}\nret", [[A, B]]),
        (f"{A}\n//APP\n// a mark\n//NO_APP\n//APP\n//NO_APP\n{B}\nret", [[A], [B]]),
    ],
)
def test_segments(body: str, found: list[list[str]]) -> None:
    assert pieces(body) == found


def test_open_inline_assembly_is_like_any_other() -> None:
    body = f"{A}\n//APP\n{B}\n//NO_APP\n//APP\n//NO_APP\n{C}\nret"
    assert pieces(body, open_inline=True) == [[A, B, C]]
    assert pieces(f"{A}\n//APP\n.inst 0xd503201f\n//NO_APP\n{B}\nret", open_inline=True) == [[A], [B]]


@pytest.mark.parametrize(
    ("body", "whole"),
    [
        (f"1: {A}\nb.ne 1b", True),
        (f"1:\n// words\n{A}\nb.ne 1b", True),
        (f"1: {A}\n.cfi_remember_state\nb.ne 1b", False),
        (f"1: {A}\nbl g\nb.ne 1b", False),
        (f"1: {A}\nmrs x9, fpcr\nb.ne 1b", False),
        (f"1: {A}\n//APP\n//NO_APP\nb.ne 1b", False),
        (f"1:\n//APP\n//NO_APP\n{A}\nb.ne 1b", False),  # between one round and the next
        (f"//APP\n//NO_APP\n1: {A}\nb.ne 1b", True),  # before the loop
        (f"1:\n//APP\n{A}\n//NO_APP\nb.ne 1b", False),
        (f"//APP\n1: {A}\n{B}\nb.ne 1b\n//NO_APP", True),  # a loop written as inline assembly
        (f"1:\n//APP\n// a mark\n//NO_APP\n{A}\nb.ne 1b", True),
    ],
)
def test_one_piece(body: str, whole: bool) -> None:
    block, statements = block_of(body + "\nret")
    assert is_fence_free(block, statements) == whole
