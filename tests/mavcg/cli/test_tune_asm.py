"""`mavcg tune-asm`, run as a user runs it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.equivalence import compare
from mavcg.passes.asm import tune as tune_module

DOT = """\
\t.text
\t.globl dot
\t.type dot, %function
dot:
\tmovi v0.4s, #0
\tmovi v3.4s, #0
.L1:
\tldr q1, [x0], #16
\tldr q2, [x1], #16
\tldr q4, [x1], #16
\tfmla v0.4s, v1.4s, v2.4s
\tfmla v3.4s, v1.4s, v4.4s
\tsubs x2, x2, #1
\tb.ne .L1
\tfadd v0.4s, v0.4s, v3.4s
\tfaddp v0.4s, v0.4s, v0.4s
\tfaddp s0, v0.2s
\tret
\t.size dot, .-dot
"""
PLAIN = "\t.globl plain\n\t.type plain, %function\nplain:\n\tadd x0, x0, x1\n\tret\n\t.size plain, .-plain\n"
LOOP_KEYS = [
    "label",
    "line",
    "cycles_before",
    "cycles_after",
    "instructions_before",
    "instructions_after",
    "splits",
    "unpaired",
    "scheduled_by",
    "initiation_interval",
    "unrolled",
    "rerolled",
    "stages",
    "kept",
    "against_model",
]


@pytest.fixture
def dot(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAVCG_CACHE", str(here / "cache"))
    (here / "dot.S").write_text(DOT + PLAIN)
    return here / "dot.S"


def tuned(mavcg: Any, *more: str | Path) -> dict[str, Any]:
    done = mavcg("tune-asm", "dot.S", "--core", "cortex-a55", "-o", "out.S", "--solver-seconds", "0", "--json", *more)
    assert done.status == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_json_as_scripts_rely_on_it(mavcg: Any, dot: Path) -> None:
    document = tuned(mavcg)

    functions = {function["name"]: function for function in document["functions"]}
    assert set(functions) == {"dot", "plain"}
    (loop,) = functions["dot"]["loops"]
    assert list(loop) == LOOP_KEYS
    assert loop["label"] == ".L1" and loop["line"] == 8
    assert loop["cycles_before"] == 9.0 and loop["cycles_after"] < 9.0
    assert loop["splits"] == 3 and loop["instructions_before"] == 7
    assert loop["scheduled_by"] in ("cp-sat", "heuristic")
    assert 0 < loop["cycles_after"] <= loop["initiation_interval"] / loop["unrolled"]  # the core may run ahead of it
    assert functions["dot"]["changed"] and not functions["plain"]["changed"] and functions["plain"]["loops"] == []
    assert "model" in document["cycles_are"]


def test_the_result_assembles_and_does_the_same(mavcg: Any, dot: Path) -> None:
    pytest.importorskip("unicorn", reason="the check by execution needs mavcg[check]")
    tuned(mavcg)

    before, after = assemble_image(dot.read_text()), assemble_image((dot.parent / "out.S").read_text())
    comparison = compare(before, after, "dot", range(12))
    assert comparison.passed, str(comparison)
    assert "ldr\td1" in (dot.parent / "out.S").read_text()


def test_what_is_not_tuned_stays_byte_by_byte(mavcg: Any, dot: Path) -> None:
    tuned(mavcg)

    assert PLAIN in (dot.parent / "out.S").read_text()


def test_table_for_people(mavcg: Any, dot: Path) -> None:
    done = mavcg("tune-asm", "dot.S", "--core", "cortex-a55", "-o", "out.S", "--solver-seconds", "0")

    assert done.status == 0
    words = " ".join(done.stdout.split())
    for expected in ("not measured", ".L1 (line 8)", "9.00", "plain: kept: no loop"):
        assert expected in words, expected


def test_schedules_are_kept_and_found(mavcg: Any, dot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tuned(mavcg)
    kept = [path for path in (dot.parent / "cache" / "schedules").rglob("*") if path.is_file()]
    text = (dot.parent / "out.S").read_text()

    assert kept
    assert tuned(mavcg) == first and (dot.parent / "out.S").read_text() == text
    monkeypatch.setenv("MAVCG_CACHE", "off")
    assert tuned(mavcg) == first and (dot.parent / "out.S").read_text() == text


def test_only_the_functions_named(mavcg: Any, dot: Path) -> None:
    document = tuned(mavcg, "--function", "plain")

    assert [function["name"] for function in document["functions"]] == ["plain"]
    assert (dot.parent / "out.S").read_text() == dot.read_text()


def test_a_core_that_asks_for_no_split_gets_none(mavcg: Any, dot: Path) -> None:
    done = mavcg("tune-asm", "dot.S", "--core", "cortex-a76", "-o", "out.S", "--solver-seconds", "0", "--json")

    assert done.status == 0, done.stderr
    loops = json.loads(done.stdout)["functions"][0]["loops"]
    assert all(loop["splits"] == 0 for loop in loops)
    assert "ldr\td" not in (dot.parent / "out.S").read_text()


def test_a_latency_may_be_assumed(mavcg: Any, dot: Path) -> None:
    slow = tuned(mavcg, "--set", "fmla_q->fmla_q.acc=40")["functions"][0]["loops"][0]

    assert slow["cycles_before"] == 40


@pytest.mark.long
def test_check_tells_how_many_states_agreed(mavcg: Any, dot: Path) -> None:
    pytest.importorskip("unicorn", reason="the check by execution needs mavcg[check]")
    functions = tuned(mavcg, "--check")["functions"]

    assert functions[0]["states_checked"] >= 3 and functions[1]["states_checked"] is None


def test_check_finds_a_wrong_pass_and_nothing_is_written(
    mavcg: Any, dot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("unicorn", reason="the check by execution needs mavcg[check]")
    right = tune_module.tune

    def wrong(*arguments: Any) -> tune_module.Tuned:
        found = right(*arguments)
        return tune_module.Tuned(found.text.replace("faddp s0, v0.2s", "faddp s0, v1.2s"), found.functions)

    monkeypatch.setattr(tune_module, "tune", wrong)
    done = mavcg(
        "tune-asm", "dot.S", "--core", "cortex-a55", "-o", "out.S", "--solver-seconds", "0", "--json", "--check"
    )

    assert done.status == 1 and done.stdout == ""
    assert "dot: seed" in done.stderr and "nothing was written" in done.stderr
    assert not (dot.parent / "out.S").exists()


def test_a_result_that_does_not_assemble_is_not_written(mavcg: Any, dot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = tune_module.tune

    def wrong(*arguments: Any) -> tune_module.Tuned:
        found = right(*arguments)
        return tune_module.Tuned(found.text + "\tadd x0, x0, q0\n", found.functions)

    monkeypatch.setattr(tune_module, "tune", wrong)
    done = mavcg("tune-asm", "dot.S", "--core", "cortex-a55", "-o", "out.S", "--solver-seconds", "0")

    assert done.status == 2 and "out.S:" in done.stderr and not (dot.parent / "out.S").exists()


def test_preprocessed_input(mavcg: Any, dot: Path) -> None:
    dot.write_text("#define STEP 16\n#define IN(r) ldr q1, [r], #STEP\n" + DOT.replace("ldr q1, [x0], #16", "IN(x0)"))
    document = tuned(mavcg)

    assert document["preprocessed"]
    assert document["functions"][0]["loops"][0]["splits"] == 3
    assert document["functions"][0]["loops"][0]["line"] == 10
    text = (dot.parent / "out.S").read_text()
    assert "STEP" not in text and str(dot.parent) not in text
    assert (
        "preprocessed"
        in mavcg("tune-asm", "dot.S", "--core", "cortex-a55", "-o", "out.S", "--solver-seconds", "0").stderr
    )


def cut(text: str) -> str:
    return text[: text.index("v1.4s, v2.4s")]


@pytest.mark.parametrize(
    ("garble", "words"),
    [
        (cut, "dot.S:11:14:"),
        (lambda text: text.replace("fmla", "fmlo"), "dot.S:11:2: unrecognized instruction mnemonic"),
        (lambda text: text.replace("b.ne .L1", "b.ne .L7"), "dot.S:14:7: the label .L7 is nowhere in the file"),
        (lambda text: text.replace("[x1]", "[x1"), "dot.S:9:"),
        (lambda text: text + "/* open", "dot.S:"),
        (lambda text: "\t.data\n", "no function"),
        (lambda text: "\0" + text, "is not text"),
    ],
)
def test_garbled_input_is_an_error_with_its_place(
    mavcg: Any, dot: Path, garble: Callable[[str], str], words: str
) -> None:
    dot.write_text(garble(DOT))
    done = mavcg("tune-asm", "dot.S", "--core", "cortex-a55", "-o", "out.S")

    assert done.status == 2 and words in done.stderr, done.stderr
    assert done.stdout == "" and len(done.stderr.strip().splitlines()) == 1
    assert sorted(path.name for path in dot.parent.iterdir()) == ["dot.S"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--core", "haswell", "-o", "out.S"], "--core haswell: is x86_64"),
        (["--core", "cortex-a5", "-o", "out.S"], "--core cortex-a5: no such core; did you mean"),
        (["--core", "cortex-a55", "-o", "dot.S"], "is the input itself"),
        (["--core", "cortex-a55", "-o", "./link.S"], "is the input itself"),
        (["--core", "cortex-a55", "-o", "none/out.S"], "there is no folder none"),
        (["--core", "cortex-a55", "-o", "/dev/stdout"], "not a file's path"),
        (["--core", "cortex-a55", "-o", "."], "is not a file that can be replaced"),
        (["--core", "cortex-a55", "-o", "out.S", "--function", "dit"], "did you mean dot?"),
        (["--core", "cortex-a55", "-o", "out.S", "--set", "ldr_y->ins=3"], "did you mean ldr_x"),
        (["--core", "cortex-a55", "-o", "out.S", "--set", "ldr_x->ins"], "does not have the form"),
        (["--core", "cortex-a55", "-o", "out.S", "--set", "ldr_x->ins.to=3"], "the roles are acc, addr, data"),
        (["--core", "cortex-a55", "-o", "out.S", "--solver-seconds", "-1"], "--solver-seconds"),
        (["--core", "cortex-a55"], "-o"),
    ],
)
def test_bad_options_are_refused_with_a_reason(mavcg: Any, dot: Path, arguments: list[str], words: str) -> None:
    os.symlink("dot.S", "link.S")
    before = dot.read_text()
    done = mavcg("tune-asm", "dot.S", *arguments)

    assert done.status == 2 and words in " ".join(done.stderr.split()), done.stderr
    assert dot.read_text() == before and not (dot.parent / "out.S").exists()


def test_a_missing_input(mavcg: Any, dot: Path) -> None:
    done = mavcg("tune-asm", "none.S", "--core", "cortex-a55", "-o", "out.S")

    assert done.status == 2 and "none.S" in done.stderr


def test_an_earlier_result_is_replaced_as_a_whole(mavcg: Any, dot: Path) -> None:
    (dot.parent / "out.S").write_text("old")
    dot.write_text(cut(DOT))
    assert mavcg("tune-asm", "dot.S", "--core", "cortex-a55", "-o", "out.S").status == 2
    assert (dot.parent / "out.S").read_text() == "old"

    dot.write_text(DOT)
    tuned(mavcg)
    assert (dot.parent / "out.S").read_text().startswith("\t.text")
