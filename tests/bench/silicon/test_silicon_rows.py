"""Figures beside a model's: a small repository of our own, from its commits to errors and directions of changes."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.silicon.compare import Row, before_and_after, instruction_cycles, rows_of
from bench.silicon.figures import Figure, SourceList, read_list
from bench.silicon.models import Run, analytic_cycles, simulated_cycles
from bench.silicon.runs import clone_paths
from bench.silicon.summary import summary
from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing

LOOP = """
#include "asm.h"
.global add_up
.type add_up, %function
add_up:
1:      ldr     q0, [x0], #16
{body}
        subs    x1, x1, #{step}
        b.gt    1b
        ret
.size add_up, .-add_up
.global calls_out
calls_out:
        bl      somewhere_else
        ret
"""
LIST = """
name      = "made"
url       = "https://example.org/made"
published = "this test"
folders   = ["src"]
includes  = ["src"]
[generated]
"src/asm.h" = ""

[[kernel]]
name = "old"
commit = "HEAD~1"
files = "src/loop.S"
symbol = "add_up"
arguments = "buf:4096 i:100"
macs = 400
macs_per_cycle = { cortex-a53 = 1.0 }

[[kernel]]
name = "calls"
commit = "HEAD"
files = "src/loop.S"
symbol = "calls_out"
arguments = "i:1"
macs = 400
macs_per_cycle = { cortex-a53 = 1.0 }

[[kernel]]
name = "loop"
commit = "HEAD"
files = "src/loop.S"
symbol = "add_up"
macs = 400
macs_per_cycle = { cortex-a53 = 1.0 }
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("made")
    (folder / "src").mkdir()

    def git(*words: str) -> None:
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q")
    for body, step in (("        fmla v1.4s, v0.4s, v0.4s", 4), ("        fmla v1.4s, v0.4s, v0.4s", 8)):
        (folder / "src/loop.S").write_text(LOOP.format(body=body, step=step))
        git("add", "-A")
        git("commit", "-q", "-m", "loop")
    yield folder


@pytest.fixture
def made(tmp_path: Path) -> SourceList:
    path = tmp_path / "made.toml"
    path.write_text(LIST)
    return read_list(path)


def test_calls_are_run_and_timed(clone: Path, made: SourceList) -> None:
    seen: list[Run] = []

    def counting(run: Run, timing: Timing) -> float:
        seen.append(run)
        assert timing.core == "cortex-a53"
        return float(len(run.ops))

    rows = {row.figure.name: row for row in rows_of(made, clone, counting)}
    assert rows["old"].modelled == 25 * 4 + 1  # 100 in steps of 4, and the return
    assert not any(op.unaligned for op in seen[0].ops)
    assert rows["calls"].modelled is None and "somewhere_else" in rows["calls"].why
    loop = rows["loop"].modelled  # by the pipeline model whatever the model of calls
    assert loop is not None and 0 < loop < 25


def test_the_analytic_model_is_linear_in_trips(clone: Path, made: SourceList) -> None:
    row = next(row for row in rows_of(made, clone, analytic_cycles) if row.figure.name == "old")
    assert row.modelled is not None and row.error == pytest.approx(row.modelled / 400 - 1)
    assert row.modelled >= 25 * 4  # an accumulator of latency 4 is in every trip


def test_calls_between_two_readings_of_the_clock_overlap(clone: Path, made: SourceList) -> None:
    """The next call begins beside the last product of one; what its caller executes is counted."""
    alone, row = (next(rows_of(replace(made, in_a_row=n), clone, analytic_cycles)) for n in (1, 4))
    assert alone.modelled is not None and row.modelled is not None
    assert alone.modelled - 4 < row.modelled < alone.modelled + 8


def test_the_simulator_is_a_model_of_calls(clone: Path, made: SourceList) -> None:
    """On a straight call without misses it takes what the pipeline model says, the branch's first cycles excepted."""
    rows = {row.figure.name: row for row in rows_of(made, clone, simulated_cycles)}
    analytic = next(row for row in rows_of(made, clone, analytic_cycles) if row.figure.name == "old")
    assert rows["old"].modelled is not None and analytic.modelled is not None
    assert analytic.modelled <= rows["old"].modelled <= analytic.modelled + 10
    assert rows["calls"].modelled is None and "somewhere_else" in rows["calls"].why


def test_cores_can_be_chosen_and_a_clone_can_be_missing(clone: Path, made: SourceList) -> None:
    assert list(rows_of(made, clone, analytic_cycles, ("cortex-a72",))) == []
    assert list(rows_of(made, None, analytic_cycles)) == []


def test_a_wrong_clone_is_refused() -> None:
    with pytest.raises(MavcgError, match="write NAME=FOLDER"):
        clone_paths(["dav1d"], {"dav1d": "https://example.org"})
    with pytest.raises(MavcgError, match="no such folder; clone https"):
        clone_paths(["dav1d=/nowhere/at/all"], {"dav1d": "https://example.org"})


def test_a_commit_that_is_not_there_is_named(clone: Path, made: SourceList, tmp_path: Path) -> None:
    path = tmp_path / "made.toml"
    path.write_text(LIST.replace('"HEAD~1"', '"0123456"'))
    with pytest.raises(MavcgError, match="commit 0123456"):
        list(rows_of(read_list(path), clone, analytic_cycles))


def figure(name: str, value: float, when: str = "after", kind: str = "cycles") -> Figure:
    return Figure("made", name, "cortex-a53", kind, value, "here", when=when)


def test_errors_and_directions() -> None:
    rows = [
        Row(figure("a", 100, "before"), 110),
        Row(figure("a", 80, "after"), 100),  # faster on silicon, faster by the model
        Row(figure("b", 100, "before"), 100),
        Row(figure("b", 120, "after"), 90),  # slower on silicon, faster by the model
        Row(figure("c", 0.98, kind="ratio"), 1.2),  # no change of 5 %
        Row(figure("d", 1.0), None, "a reason"),
    ]
    assert [(f.name, round(s, 2), round(m, 2)) for f, s, m in before_and_after(rows)] == [
        ("c", 0.98, 1.2),
        ("a", 0.8, 0.91),
        ("b", 1.2, 0.9),
    ]
    summarised = summary(rows)
    cycles = next(entry for entry in summarised["cores"] if entry["kind"] == "cycles")
    assert (cycles["figures"], cycles["modelled"]) == (5, 4)
    assert cycles["bias"] == pytest.approx((0.10 + 0.25 + 0 - 0.25) / 4, abs=1e-4)
    assert cycles["mean_abs_error"] == pytest.approx((0.10 + 0.25 + 0 + 0.25) / 4, abs=1e-4)
    assert [(entry["core"], entry["changes"], entry["right"]) for entry in summarised["changes"]] == [
        ("all", 2, 1),
        ("cortex-a53", 2, 1),
    ]
    assert summarised["not_modelled"] == [{"why": "a reason", "figures": 1}]


def test_instructions_by_rate_and_by_chain() -> None:
    def make_figure(code: str) -> Figure:
        return Figure("made", code, "cortex-a72", "instruction", 1.0, "here", code=code)

    assert instruction_cycles(make_figure("mul v{d}.4s, v{d}.4s, v16.4s")) == 2.0
    assert instruction_cycles(make_figure("mul v0.4s, v0.4s, v0.4s")) == 4.0
    assert instruction_cycles(make_figure("tbl v{d}.16b, {{v16.16b}}, v{d}.16b")) > 0
