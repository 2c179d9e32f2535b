"""Figures of long buffers: what the further bytes of a longer call cost, of code that a script writes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from bench.silicon.compare import before_and_after, rows_of
from bench.silicon.figures import SourceList, read_list, read_lists
from bench.silicon.models import Run
from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing

# A perlasm script in small: its output's name decides how much one iteration adds, as sha512-armv8.pl's does.
SCRIPT = """
($flavour, $output) = @ARGV;
die "no flavour\\n" if $flavour ne "linux64";
open STDOUT, ">", $output;
$step = $output =~ /step8/ ? 8 : 4;
print <<"___";
.globl add_up
.type add_up,%function
add_up:
\tpaciasp
1:\tsubs x1,x1,#$step
\tb.ne 1b
\tautiasp
\tret
___
"""
LIST = """
name      = "streams"
url       = "https://example.org/streams"
commit    = "HEAD"
published = "this test"
folders   = ["arm"]
most_instructions = 60

[[stream]]
name            = "sum"
files           = "arm/step8.pl"
symbol          = "add_up"
arguments       = "buf:64 i:{bytes}"
bytes           = [16, 64]
cycles_per_byte = { cortex-a53 = 0.5, cortex-a57 = 2 }

[[stream]]
name            = "too long"
files           = "arm/step8.pl"
symbol          = "add_up"
arguments       = "buf:64 i:{bytes}"
bytes           = [16, 640]
cycles_per_byte = { cortex-a53 = 0.5 }
"""
needs_perl = pytest.mark.skipif(shutil.which("perl") is None, reason="needs perl, which runs such scripts")


def instructions(run: Run, timing: Timing) -> float:
    return float(len(run.ops))


@pytest.fixture
def streams(tmp_path: Path) -> SourceList:
    (tmp_path / "streams.toml").write_text(LIST)
    return read_list(tmp_path / "streams.toml")


def clone_of(folder: Path, script: str) -> Path:
    (folder / "arm").mkdir()
    (folder / "arm/step8.pl").write_text(script)
    return committed(folder)


def committed(folder: Path) -> Path:
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "script"]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)
    return folder


def test_a_figure_is_of_the_further_bytes(streams: SourceList) -> None:
    figures = {figure.core: figure for figure in streams.figures if figure.name == "sum"}

    assert (figures["cortex-a53"].value, figures["cortex-a57"].value) == (24, 96)
    assert [call.arguments for call in (*figures["cortex-a53"].less, *figures["cortex-a53"].calls)] == [
        "buf:64 i:16",
        "buf:64 i:64",
    ]


@needs_perl
def test_the_shorter_call_is_taken_off(streams: SourceList, tmp_path: Path) -> None:
    rows = {row.figure.name: row for row in rows_of(streams, clone_of(tmp_path, SCRIPT), instructions)}

    assert rows["sum"].modelled == 2 * (64 - 16) / 8  # neither the return nor the hints around it
    assert rows["too long"].modelled is None and rows["too long"].why == "a call of more than 60 instructions"


@needs_perl
def test_what_a_script_complains_of_is_said(streams: SourceList, tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match=r"step8\.pl: out of words"):
        list(rows_of(streams, clone_of(tmp_path, 'die "out of words\\n";'), instructions))


def test_the_cryptographic_loops_are_of_six_cores() -> None:
    (source,) = (each for each in read_lists() if each.name == "cryptogams")

    assert {figure.core for figure in source.figures} == {
        "apple-firestorm",
        "cortex-a53",
        "cortex-a57",
        "cortex-a76",
        "cortex-x2",
        "exynos-m1",
    }
    assert len(source.figures) == 49 and not any(figure.seen for figure in source.figures)


LIMBS = """
name      = "limbs"
url       = "https://example.org/limbs"
commit    = "HEAD"
published = "this test"
folders   = ["arm"]
includes  = ["arm"]

[generated]
"config.m4" = "define(`L', `.L$1')"

[[stream]]
name            = "add and subtract"
files           = "arm/both.asm:OPERATION_{variant}"
symbol          = "go_{variant}"
variants        = ["add", "sub"]
arguments       = "i:{limbs}"
limbs           = [2, 6]
limbs_each      = 2
cycles_per_limb = { cortex-a53 = "2.5-3.5" }

[[stream]]
name            = "add and subtract"
when            = "before"
files           = "arm/both.asm:OPERATION_sub"
symbol          = "go_sub"
arguments       = "i:{limbs}"
limbs           = [2, 6]
limbs_each      = 2
cycles_per_limb = { cortex-a53 = 4 }
"""
BOTH = """
include(`../config.m4')
ifdef(`OPERATION_add', `define(`EXTRA', `nop')define(`func', `go_add')')
ifdef(`OPERATION_sub', `define(`EXTRA', `')define(`func', `go_sub')')
\t.globl func
\t.type func, %function
func:
L(top):\tsubs x0, x0, #1
\tEXTRA
\tb.ne L(top)
\tret
"""


def test_a_figure_of_two_functions_in_m4_is_held_against_their_mean(tmp_path: Path) -> None:
    (tmp_path / "limbs.toml").write_text(LIMBS)
    source = read_list(tmp_path / "limbs.toml")
    (tmp_path / "clone/arm").mkdir(parents=True)
    (tmp_path / "clone/arm/both.asm").write_text(BOTH)
    clone = committed(tmp_path / "clone")

    after, before = rows_of(source, clone, instructions)

    assert (after.figure.value, before.figure.value) == (3 * 4 * 2, 4 * 4 * 2)  # the middle of the range
    assert (after.modelled, before.modelled) == (4 * (3 + 2) / 2, 4 * 2)
    ((figure, silicon, modelled),) = before_and_after([after, before])
    assert (figure.name, silicon, modelled) == ("add and subtract", 0.75, 1.25)


def test_options_and_the_name_that_a_script_looks_at(tmp_path: Path) -> None:
    text = LIMBS.replace("arm/both.asm:OPERATION_{variant}", "arm/by_name.pl:step8 -DTWICE").replace(
        "go_{variant}", "go"
    )
    (tmp_path / "limbs.toml").write_text(text.split('\n[[stream]]\nname            = "add and subtract"\nwhen')[0])
    (tmp_path / "clone/arm").mkdir(parents=True)
    script = (
        SCRIPT.split("print")[0]
        + """
print "\\t.globl go\\n\\t.type go,%function\\ngo:\\n";
print "1:\\n#ifdef TWICE\\n\\tnop\\n#endif\\n";
print "\\tnop\\n" if $step == 8;
print "\\tsubs x0,x0,#1\\n\\tb.ne 1b\\n\\tret\\n";
"""
    )
    (tmp_path / "clone/arm/by_name.pl").write_text(script)

    (row,) = rows_of(read_list(tmp_path / "limbs.toml"), committed(tmp_path / "clone"), instructions)

    assert row.modelled == 4 * 4  # with the instructions that the option and the name add


def test_gmp_s_figures_are_those_of_its_comments() -> None:
    (source,) = (each for each in read_lists() if each.name == "gmp")

    assert {figure.core for figure in source.figures} == {
        "apple-firestorm",
        "cortex-a53",
        "cortex-a55",
        "cortex-a57",
        "cortex-a72",
        "cortex-a73",
    }
    assert len(source.figures) == 70 and sum(bool(figure.reason) for figure in source.figures) == 6
    assert not any(figure.seen for figure in source.figures)
