"""Expansion of assembly that is written in m4."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.silicon.m4 import expand
from mavcg.errors import MavcgError

# In the manner of GMP's mpn/arm64: a comment macro, operands with names, one text for two functions.
CONFIG = "define(`C', `\ndnl')\ndefine(`L', `.L$1')\ndefine(`PROLOGUE', `\t.globl $1\n$1:')\n"
SOURCE = """dnl  two functions
include(`../config.m4')
C\t     cycles
C Some core\t2
changecom(blah)
define(`rp', `x0')
define(`n',  x1)
ifdef(`OPERATION_add', `
  define(`OP',\tadd)
  define(`func',\tmp_add)')
ifdef(`OPERATION_sub', `
  define(`OP',\t`sub')
  define(`func',\tmp_sub)', `')
define(`TWICE', `OP\t$1, $1, #$2
\tOP\t$1, $1, #$2')
define(`NOTHING', `dnl')

PROLOGUE(func)
L(top):\tTWICE( x4, (1,2))\t\tC eats the rest
\tNOTHING(\tx9)
\tOP\trp, rp, n, lsl #3
\tcbnz\tn, L(top)+4
\tret\t`quoted n'
"""


def folder_with(tmp_path: Path) -> Path:
    (tmp_path / "config.m4").write_text(CONFIG)
    (tmp_path / "mpn").mkdir()
    return tmp_path / "mpn"


def code(text: str) -> list[str]:
    return [line for line in map(str.strip, text.splitlines()) if line]


@pytest.mark.parametrize("operation", ["add", "sub"])
def test_macros_arguments_and_conditions(operation: str, tmp_path: Path) -> None:
    text = expand(SOURCE, {f"OPERATION_{operation}": ""}, folder_with(tmp_path))

    assert code(text) == [
        f".globl mp_{operation}",
        f"mp_{operation}:",
        f".Ltop:\t{operation}\tx4, x4, #(1,2)",
        f"{operation}\tx4, x4, #(1,2)",
        f"{operation}\tx0, x0, x1, lsl #3",
        "cbnz\tx1, .Ltop+4",
        "ret\tquoted n",
    ]


@pytest.mark.skipif(shutil.which("m4") is None, reason="needs m4 (Debian: m4), which this module is held against")
@pytest.mark.parametrize("operation", ["add", "sub"])
def test_m4_itself_expands_to_the_same_text(operation: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "all.m4").write_text(f"changecom`'define(`OPERATION_{operation}')" + SOURCE)

    done = subprocess.run(["m4", "all.m4"], cwd=folder, env=os.environ, capture_output=True, text=True, check=True)

    assert expand(SOURCE, {f"OPERATION_{operation}": ""}, folder) == done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nop\n`open", "a quotation has no end: '`open'"),
        ("define(`a', `b'", "a macro's arguments have no end"),
        ("eval(1 + 2)", "m4's eval is not known here"),
        ("include(`none.m4')", r"include\(none.m4\): no such file"),
    ],
)
def test_what_cannot_be_read_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match=message):
        expand(text, {}, tmp_path)


def test_a_word_that_m4_knows_is_text_without_arguments(tmp_path: Path) -> None:
    assert expand("index, len and eval", {}, tmp_path) == "index, len and eval"
