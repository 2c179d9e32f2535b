"""Functions taken out of a compiler's assembly."""

import re

import pytest

from mavcg.passes.asm.transforms import remove_definitions
from mavcg.passes.asm.transforms.remove_definitions import (
    CannotSeparate,
    add_aliases,
    defined_symbols,
    remove_functions,
    words_in_function,
)

FILE = """\
\t.text
\t.type\tleaf, @function
leaf:
.LFB0:
\tcall\tother@PLT
.LFE0:
\t.size\tleaf, .-leaf
\t.globl\tdot
\t.type\tdot, @function
dot:
.LFB1:
\taddl\t$1, calls.0(%rip)
\tcall\tleaf
\tjmp\t.L2
.L2:
\tret
.LFE1:
\t.size\tdot, .-dot
\t.globl\tcold
\t.type\tcold, @function
cold:
\tcall\tdot
\tcall\tleaf
\t.size\tcold, .-cold
\t.local\tcalls.0
\t.comm\tcalls.0,4,4
\t.comm\tshared,8,8
\t.section\t.data.rel
table:
\t.quad\tdot
\t.size\ttable, 8
"""


def test_symbols() -> None:
    symbols = defined_symbols(FILE)
    assert {name: (s.kind, s.is_global, s.bytes) for name, s in symbols.items()} == {
        "leaf": ("function", False, None),
        "dot": ("function", True, None),
        "cold": ("function", True, None),
        "calls.0": ("object", False, 4),
        "shared": ("object", True, 8),
        "table": ("", False, 8),
    }


def test_a_function_goes_and_references_stay() -> None:
    made = remove_functions(FILE, {"dot": "dot"}, (), "t1")
    start, end = FILE.index("\t.globl\tdot"), FILE.index("\t.globl\tcold")
    assert made == FILE[:start] + FILE[end:]
    assert "dot" not in defined_symbols(made) and "\tcall\tdot\n" in made and "\t.quad\tdot" in made


def test_a_static_function_becomes_a_hidden_one_of_the_other_object() -> None:
    made = remove_functions(FILE, {"leaf": "leaf.t1"}, (), "t1")
    assert made.startswith("\t.hidden\tleaf.t1\n\t.set\tleaf, leaf.t1\n\t.text\n")
    assert "leaf:" not in made and made.count("\tcall\tleaf\n") == 2


def test_code_that_others_refer_to_stays_under_another_name() -> None:
    """Debug information names the labels of a function's code."""
    made = remove_functions(FILE + "\t.section .debug_info\n\t.quad\t.LFB1\n", {"dot": "dot"}, (), "t1")
    assert "dot.t1.plain:\n.LFB1:" in made and "\t.size\tdot.t1.plain, .-dot.t1.plain" in made
    assert "\t.globl\tdot" not in made and "\ndot:" not in made


def test_aliases_follow_their_owner() -> None:
    text = FILE + "\t.set\tdot.localalias, dot\n\t.set\tfolded, dot\n\t.globl\tours\n\t.set\tours, dot\n"
    made = remove_functions(text, {"dot": "dot"}, {"ours"}, "t1")
    assert "\t.hidden\tdot.t1\n\t.set\tdot.localalias, dot.t1\n" in made
    assert "\t.set\tfolded, dot.t1.plain\n" in made and "dot.t1.plain:" in made
    assert "ours" not in made


COMDAT = """\
\t.section\t.text._Z1fv,"axG",@progbits,_Z1fv,comdat
\t.weak\t_Z1fv
\t.type\t_Z1fv, @function
_Z1fv:
\tret
\t.size\t_Z1fv, .-_Z1fv
"""


def test_a_comdat_group_is_left_to_the_other_object() -> None:
    made = remove_functions(COMDAT, {"_Z1fv": "_Z1fv"}, (), "t1")
    assert "@progbits,_Z1fv.plain,comdat" in made and "_Z1fv:" not in made and ".weak" not in made
    with pytest.raises(CannotSeparate, match="_Z1gv is in one comdat group with it"):
        remove_functions(COMDAT + "\t.weak\t_Z1gv\n_Z1gv:\n\tret\n", {"_Z1fv": "_Z1fv"}, (), "t1")


def test_the_last_section_of_a_function_that_goes_stays_in_force() -> None:
    text = FILE.replace(".LFE1:", "\t.section\t.rodata\n.L9:\n\t.long\t1\n\t.text\n.LFE1:")
    made = remove_functions(text, {"dot": "dot"}, (), "t1")
    assert ".rodata" not in made and made.index("\t.text\n\t.globl\tcold") > 0


def test_words_of_a_function() -> None:
    assert "calls.0" in words_in_function(FILE, "dot") and "calls.0" not in words_in_function(FILE, "cold")
    assert words_in_function(FILE, "none") == frozenset()


def test_further_names() -> None:
    quoted = add_aliases("x:\n", {"x.t1.cortex-a55": "x"}).splitlines()[-1]
    assert quoted == '\t.set\t"x.t1.cortex-a55", x'  # the assembler takes a bare hyphen for a minus
    assert add_aliases("x:\n", {"x.t1": "x"}).endswith("\t.globl\tx.t1\n\t.hidden\tx.t1\n\t.set\tx.t1, x\n")


def test_lines_are_read_a_few_times_however_many_functions_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each function read all lines; a file of a hundred thousand lines took seconds."""
    matches = 0

    class Counting:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self.pattern = pattern

        def match(self, line: str) -> re.Match[str] | None:
            nonlocal matches
            matches += 1
            return self.pattern.match(line)

    body = "\t.globl\t{0}\n\t.type\t{0}, @function\n{0}:\n.L{0}:\n\tjmp\t.L{0}\n\t.size\t{0}, .-{0}"
    names = [f"f{number}" for number in range(200)]
    text = "\n".join(body.format(name) for name in names)
    monkeypatch.setattr(remove_definitions, "_DIRECTIVE", Counting(remove_definitions._DIRECTIVE))
    monkeypatch.setattr(remove_definitions, "_LABEL", Counting(remove_definitions._LABEL))

    rest = remove_functions(text, {name: name for name in names[1:]}, (), "x")

    assert rest == body.format("f0")
    assert matches <= 8 * len(text.split("\n"))
