"""`mavcg explain`, run as a user runs it."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from mavcg.assembly.asm_input import read_asm_input
from mavcg.assembly.loop_estimates import estimate_function
from mavcg.assembly.schedule_picture import as_text
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from mavcg.toolchain.zig import run_zig


def test_the_picture_is_that_of_the_loop(mavcg: Any, dot_file: Path) -> None:
    done = mavcg("explain", dot_file, "dot", "--core", "cortex-a55")

    core = load_core("cortex-a55")
    code = read_asm_input(dot_file, core, ["dot"])
    (loop,) = estimate_function(code, code.functions[0], load_timing(core))
    assert loop.estimate is not None
    assert done.status == 0, done.stderr
    assert done.stdout == f"dot, loop at .L1 (line 7)\n{as_text(loop.estimate)}\n"
    assert "not a measurement" in done.stdout and "slot 1" in done.stdout


def test_the_version_of_the_core_in_a_library(mavcg: Any, dot_library: Path) -> None:
    in_order = mavcg("explain", dot_library, "dot", "--core", "cortex-a55")
    out_of_order = mavcg("explain", dot_library, "dot", "--core", "cortex-a76")

    assert in_order.stdout.startswith("dot.cortex-a55, loop at 0x") and "ins v1.d[1], x9" not in out_of_order.stdout
    assert "mov v1.d[1], x9" in in_order.stdout or "ins v1.d[1], x9" in in_order.stdout
    assert (
        out_of_order.stdout.startswith("dot.generic, loop at 0x") and "busy cycles of each unit" in out_of_order.stdout
    )


def test_svg(mavcg: Any, dot_file: Path) -> None:
    done = mavcg("explain", dot_file, "dot", "--core", "cortex-a55", "--svg", "dot.svg")

    assert done.status == 0, done.stderr
    picture = ElementTree.parse(dot_file.parent / "dot.svg").getroot()
    assert picture.tag.endswith("svg")
    assert "dot, loop at .L1 (line 7)" in "".join(picture.itertext())
    assert "dot.svg: loop at .L1" in done.stderr


def test_a_picture_for_each_loop(mavcg: Any, dot_file: Path) -> None:
    done = mavcg("explain", dot_file, "rows", "--core", "cortex-a55", "--svg", "rows.svg", "--blocks")

    assert done.status == 0, done.stderr
    assert sorted(path.name for path in dot_file.parent.glob("*.svg")) == ["rows.1.svg", "rows.2.svg", "rows.3.svg"]
    assert done.stdout.count("rows, block of a loop at") == 2 and "rows, loop at .L3" in done.stdout
    assert "block of a loop" not in mavcg("explain", dot_file, "rows", "--core", "cortex-a55").stdout


LOOPS = """\
\t.text
\t.globl f
\t.type f, %function
f:
.Lcold:
\tfmla v0.4s, v1.4s, v2.4s
\tfmla v3.4s, v1.4s, v2.4s
\tfmla v4.4s, v1.4s, v2.4s
\tsubs x2, x2, #1
\tb.ne .Lcold
.Lrows:
\tmov x3, x1
.Lhot:
\tldr q1, [x0], #16
\tfmla v0.4s, v1.4s, v2.4s
\tsubs x3, x3, #1
\tb.ne .Lhot
\tsubs x2, x2, #1
\tb.ne .Lrows
\tret
\t.size f, .-f
"""


@pytest.mark.long
def test_the_hottest_loop_comes_first_and_alone(mavcg: Any, here: Path) -> None:
    """The inner loop of a nest, although a loop before it has the larger body."""
    (here / "loops.s").write_text(LOOPS)
    explain = ["explain", "loops.s", "f", "--core", "cortex-a55"]

    one = mavcg(*explain, "--svg", "one.svg")
    assert one.stdout.startswith("f, loop at .Lhot") and ".Lcold" not in one.stdout, one.stderr
    assert [path.name for path in here.glob("*.svg")] == ["one.svg"]
    assert "1 more loops of f are not shown" in one.stderr and "--all" in one.stderr

    for asked in (["--loops", "2"], ["--all"]):
        both = mavcg(*explain, *asked, "--svg", "two.png").stdout
        assert both.index(".Lhot") < both.index(".Lcold")
        assert sorted(path.name for path in here.glob("two*")) == ["two.1.png", "two.2.png"]
    document = json.loads(mavcg(*explain, "--json").stdout)
    assert document["hottest_by"] == "nesting and trip counts"
    assert [(loop["label"], loop["runs"]) for loop in document["loops"]] == [(".Lhot", 64), (".Lcold", 8)]
    assert "--loops 2: has no effect with --all" in mavcg(*explain, "--loops", "2", "--all").stderr


@pytest.fixture
def loops_library(here: Path) -> Path:
    """The function of LOOPS with its samples in app.txt: 3 in .Lcold, 1 in .Lhot, 1 in its return, 9 elsewhere."""
    (here / "loops.s").write_text(LOOPS)
    run_zig("cc", ["-target", "aarch64-linux-musl", "-shared", "-nostdlib", "loops.s", "-o", "loops.so"], "loops.so")
    lines = [
        f" app 1 [000] 1.0: 10 cycles: 40 f+{offset} (/b/loops.so)" for offset in ("0x0", "0x4", "0x10", "0x18", "0x2c")
    ]
    lines += [" app 1 [000] 1.0: 10 cycles: 40 g+0x18 (/b/app)"] * 9
    (here / "app.txt").write_text("\n".join(lines) + "\n")
    return here / "loops.so"


def test_a_profile_says_which_loop_is_hot(mavcg: Any, loops_library: Path, here: Path) -> None:
    """The samples lie in the loop that nesting and trip counts put behind; also through a saved profile."""
    explain = ["explain", loops_library, "f", "--core", "cortex-a55", "--json"]
    assert [loop["runs"] for loop in json.loads(mavcg(*explain).stdout)["loops"]] == [64, 8]
    assert mavcg("profile", "--import", "app.txt", "-o", "app.json").status == 0

    for profile in ("app.txt", "app.json"):
        done = mavcg(*explain, "--profile", profile)
        document = json.loads(done.stdout)
        assert document["hottest_by"] == "samples of the profile", done.stderr
        assert [(loop["runs"], loop["samples"]) for loop in document["loops"]] == [(8, 30.0), (64, 10.0)]
    text = mavcg(*explain[:-1], "--profile", "app.json")
    assert text.stdout.count("f, loop at") == 1 and "is the hottest by samples of the profile;" in text.stderr


@pytest.mark.parametrize(
    ("file", "sampled", "words"),
    [("loops.so", "g", "has no samples in f"), ("loops.s", "f", "assembly has none; name the library itself")],
)
def test_a_profile_that_says_nothing_of_the_function(
    mavcg: Any, loops_library: Path, file: str, sampled: str, words: str
) -> None:
    profile = loops_library.with_name("app.txt")
    profile.write_text(profile.read_text().replace(" f+", f" {sampled}+"))
    done = mavcg("explain", file, "f", "--core", "cortex-a55", "--profile", "app.txt")
    assert done.status == 2 and words in done.stderr and done.stdout == ""


@pytest.mark.parametrize("place", [".L3", "29", "0x1d"])
def test_one_loop_by_its_place(mavcg: Any, dot_file: Path, place: str) -> None:
    done = mavcg("explain", dot_file, "rows", "--core", "cortex-a55", "--loop", place, "--json")

    assert done.status == 0, done.stderr
    (loop,) = json.loads(done.stdout)["loops"]
    assert loop["label"] == ".L3" and loop["line"] == 29


def test_a_place_without_a_loop_lists_the_places(mavcg: Any, dot_file: Path) -> None:
    done = mavcg("explain", dot_file, "rows", "--core", "cortex-a55", "--loop", ".L9")

    assert done.status == 2 and ".L3 (line 29)" in done.stderr


def test_straight_line_code_of_a_function_without_loops(mavcg: Any, dot_file: Path) -> None:
    done = mavcg("explain", dot_file, "plain", "--core", "cortex-a55")

    assert done.status == 0, done.stderr
    assert done.stdout.startswith("plain, block at plain (line ") and "mul x0, x0, x0" in done.stdout


def test_json_holds_the_picture_and_the_figures(mavcg: Any, dot_file: Path) -> None:
    document = json.loads(mavcg("explain", dot_file, "dot", "--core", "cortex-a55", "--json").stdout)

    assert document["function"] == "dot" and document["model"] == "in-order"
    (loop,) = document["loops"]
    assert loop["cycles"] == 7.0 and "ldr q1, [x0], #16" in loop["picture"]


def test_a_latency_may_be_assumed(mavcg: Any, dot_file: Path) -> None:
    done = mavcg("explain", dot_file, "dot", "--core", "cortex-a55", "--set", "fmla_q->fmla_q.acc=30")

    assert "30 cycles per iteration" in done.stdout


def test_what_cannot_be_drawn_is_an_error(mavcg: Any, dot_file: Path) -> None:
    dot_file.write_text(dot_file.read_text().replace("\tfmla v0.4s, v1.4s, v2.4s\n", "\tldxr x9, [x0]\n"))
    done = mavcg("explain", dot_file, "dot", "--core", "cortex-a55", "--svg", "dot.svg")

    assert done.status == 2 and "ldxr" in done.stderr and not (dot_file.parent / "dot.svg").exists()
    assert "no estimate" in mavcg("explain", dot_file, "dot", "--core", "cortex-a55").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dot.s", "dto", "--core", "cortex-a55"], "did you mean dot?"),
        (["dot.s", "dot", "--core", "znver3"], "is x86_64"),
        (["none.so", "dot", "--core", "cortex-a55"], "none.so"),
        (["dot.s", "dot", "--core", "cortex-a55", "--svg", "none/dot.svg"], "the folder none is not there"),
    ],
)
def test_bad_input_is_refused_with_a_reason(mavcg: Any, dot_file: Path, arguments: list[str], words: str) -> None:
    done = mavcg("explain", *arguments)

    assert done.status == 2 and words in done.stderr and done.stdout == "", done.stderr
