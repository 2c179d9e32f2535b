"""Labels that only debug information refers to, as clang and gcc write them."""

import pytest

from mavcg.passes.asm.analysis.labels import debug_labels
from mavcg.passes.asm.isa.source import parse_source

CODE = "\t.text\nf:\n.LVL1:\n\tadd x0, x0, #1\n.L2:\n\tcbnz x0, .L2\n\tret\n"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("", {".LVL1"}),
        ('\t.section\t.debug_loclists,"",@progbits\n\t.uleb128 .LVL1-.LVL1\n', {".LVL1"}),
        ('\t.section\t".debug_info"\n\t.8byte .LVL1\n\t.section .rodata\n\t.xword 0\n', {".LVL1"}),
        ("\t.section\t.eh_frame\n\t.8byte .LVL1-.\n", {".LVL1"}),
        ("\t.loc 1 2 3 view .LVL1\n", {".LVL1"}),
        ("\t.section\t.debug_info\n\t.xword 0\n\t.text\n\tadr x0, .LVL1\n", set()),
        ("\t.pushsection\t.debug_info\n\t.xword .LVL1\n\t.popsection\n\tnop\n", {".LVL1"}),
        ("\t.pushsection\t.debug_info\n\t.xword 0\n\t.popsection\n\t.xword .LVL1\n", set()),
        ("\t.section\t.debug_info\n\t.previous\n\t.xword .LVL1\n", set()),
        ("\t.section\t.debug_info\n\t.text\n\t.previous\n\t.xword .LVL1\n", {".LVL1"}),
        ('\t.section\t.gcc_except_table,"a"\n\t.uleb128 .LVL1-f\n', set()),
        ("\t.rept 2\n\tadr x0, .LVL1\n\t.endr\n", set()),
    ],
)
def test_labels_without_a_use_in_code_or_data(after: str, expected: set[str]) -> None:
    assert debug_labels(parse_source(CODE + after)) == expected


def test_labels_that_other_files_may_see_are_not_among_them() -> None:
    assert not debug_labels(parse_source("\t.text\nf:\nhelper:\n1:\n\tret\n"))
