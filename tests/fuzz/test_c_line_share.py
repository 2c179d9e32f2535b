"""The lines of C that count as a target's readers, and which of them inputs reach."""

import tomllib

import pytest

from fuzz.c_line_share import defined_functions, functions_of, line_share
from fuzz.line_share import READERS

SOURCE = """\
#include "a.h"
/* int in_a_comment(void) { */
static const struct table names[] = {{1, call(2)}};
int declared(int);
MAVCG_PRIVATE int two_lines(const struct a *a, int (*visit)(void *, int),
                            int b) {
    if (called(a)) { return 1; }
    return 0;
}
__attribute__((destructor)) static void at_the_end(void) {
}
static int short_one(void) { return other(); }
"""


def test_functions_are_those_that_a_file_defines() -> None:
    assert list(defined_functions(SOURCE)) == ["two_lines", "at_the_end", "short_one"]


@pytest.mark.parametrize("target", tomllib.loads(READERS.read_text())["c"])
def test_every_c_target_has_functions(target: str) -> None:
    assert len(functions_of(target)) > 4


def test_lines_count_by_their_innermost_region_and_once_for_all_units() -> None:
    """Lines 12 and 13 were not reached, line 15 by another unit only; what is no reader does not count."""

    def body(in_branch: int, in_other: int, file: int = 0) -> list[list[int]]:
        spans = [(10, 1, 16, 2, 5), (11, 12, 13, 6, in_branch), (15, 9, 15, 20, in_other), (12, 1, 12, 9, 7)]
        return [[*span, file + (at == 3), 0, 0] for at, span in enumerate(spans)]

    functions = [
        {"name": "a.c:f", "regions": body(0, 0)},
        {"name": "b.c:f", "regions": [[row[0] + 90, row[1], row[2] + 90, *row[3:]] for row in body(0, 3, file=2)]},
        {"name": "a.c:not_a_reader", "regions": body(0, 0)},
        {"name": "never", "regions": [[1, 1, 3, 2, 0, 0, 0, 0]]},
    ]
    export = {"data": [{"functions": functions}]}

    assert line_share(export, {"f", "never"}) == (5, 10)
    assert line_share(export, {"absent"}) == (0, 0)
