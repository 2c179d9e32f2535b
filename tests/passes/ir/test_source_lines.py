"""The source's line of IR: by clang's debug information, also in text that LLVM does not read."""

from pathlib import Path

import pytest

from mavcg.passes.ir.source_lines import enclosing_function, line_of_code, line_of_function
from mavcg.program.sources.to_ir import compile_to_ir
from tests.conftest import ARM, unit_of

HEADER = "\nstatic int twice(int x) {\n  return x * 2; }\n"
SOURCE = '#include "other.h"\nint f(int x) {\n  x += 40;\n  return twice(x) * 5;\n}\nint g(void) { return 7; }\n'


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("lines")
    (folder / "other.h").write_text(HEADER)
    (folder / "a b.c").write_text(SOURCE)
    return compile_to_ir(unit_of(folder / "a b.c"), ARM, keep_debug=True).text


def number(text: str, part: str) -> int:
    """The line of IR with these words, from 1."""
    [found] = [at for at, line in enumerate(text.split("\n"), 1) if part in line and "!DI" not in line]
    return found


def named(place: str) -> str:
    return Path(place).name


def test_a_function_is_found_where_it_is_defined(text: str) -> None:
    assert [named(line_of_function(text, name)) for name in ("f", "g", "twice")] == ["a b.c:2", "a b.c:6", "other.h:2"]
    assert line_of_function(text, "h") == ""


PLACES = [("add nsw i32", "a b.c:3", "f"), (", 5,", "a b.c:4", "f"), (", 2,", "other.h:3", "twice")]


@pytest.mark.parametrize(("part", "place", "function"), PLACES)
def test_an_instruction_is_found_where_it_was_written(text: str, part: str, place: str, function: str) -> None:
    at = number(text, part)
    assert named(line_of_code(text, at)) == place and enclosing_function(text, at) == function
    lines = text.split("\n")
    lines.insert(at - 1, "  %! has no location, and does not parse")
    spoiled = "\n".join(lines)
    assert named(line_of_code(spoiled, at)) == place and enclosing_function(spoiled, at) == function


def test_text_outside_of_functions_and_without_lines_has_no_place(text: str) -> None:
    assert line_of_code(text, 1) == "" == enclosing_function(text, 1)
    plain = "define i32 @f() {\n  ret i32 1\n}\n"
    assert line_of_code(plain, 2) == "" == line_of_function(plain, "f") and enclosing_function(plain, 2) == "f"
    assert line_of_code(plain, 99) == ""
    assert line_of_code("define i32 @f() !dbg !3 {\n  ret i32 1\n}\n!3 = !DISubprogram(scope: !3, line: 1)\n", 2) == ""
