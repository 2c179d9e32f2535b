"""`mavcg estimate`, run as a user runs it."""

import json
from pathlib import Path
from typing import Any

import pytest

from mavcg.toolchain.zig import run_zig


def estimated(mavcg: Any, *arguments: str | Path) -> dict[str, Any]:
    done = mavcg("estimate", *arguments, "--json")
    assert done.status == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_json_of_one_function(mavcg: Any, dot_file: Path) -> None:
    document = estimated(mavcg, dot_file, "--function", "dot", "--core", "cortex-a55")

    assert document["core"] == "cortex-a55" and document["model"] == "in-order" and document["function"] == "dot"
    assert "not measured" in document["cycles_are"]
    (loop,) = document["loops"]
    assert (loop["kind"], loop["label"], loop["line"], loop["address"]) == ("loop", ".L1", 7, None)
    # Two q loads of 2 cycles, the fmla 3 cycles after the second began, and the branch: cores/cortex-a55.toml.
    assert loop["cycles"] == 7.0
    assert loop["instructions"] == 5 and loop["flops"] == 8 and loop["macs"] == 4 and loop["int_ops"] == 0
    assert loop["flops_per_cycle"] == pytest.approx(8 / 7) and loop["macs_per_cycle"] == pytest.approx(4 / 7)
    assert loop["bound_by"] and loop["because"]
    assert [op["text"].split()[0] for op in loop["ops"]] == ["ldr", "ldr", "fmla", "subs", "b.ne"]
    assert [op["class"] for op in loop["ops"]] == ["ldr_q", "ldr_q", "fmla_q", "alu_flags", "branch_cond"]
    assert loop["ops"][0]["cycle"] == 0 and sum(op["stall_cycles"] for op in loop["ops"]) <= 8


def test_all_functions_with_loops(mavcg: Any, dot_file: Path) -> None:
    document = estimated(mavcg, dot_file, "--core", "cortex-a55")

    kinds = {f["name"]: [loop["kind"] for loop in f["loops"]] for f in document["functions"]}
    assert kinds == {"dot": ["loop"], "rows": ["block of a loop", "loop", "block of a loop"]}
    assert "loops" not in document


def test_an_object_and_its_source_are_estimated_alike(mavcg: Any, dot_file: Path) -> None:
    run_zig("cc", ["-target", "aarch64-linux-gnu.2.17", "-c", "dot.s", "-o", "dot.o"], "assembling", dot_file.parent)
    names = ("cycles", "bound_by", "instructions", "flops", "macs", "bounds", "pools")
    for core in ("cortex-a55", "cortex-a76"):
        of_text = estimated(mavcg, "dot.s", "--core", core)["functions"]
        of_object = estimated(mavcg, "dot.o", "--core", core)["functions"]
        assert [f["name"] for f in of_text] == [f["name"] for f in of_object]
        for one, other in zip(of_text, of_object, strict=True):
            for loop, again in zip(one["loops"], other["loops"], strict=True):
                assert [loop[name] for name in names] == [again[name] for name in names]
                assert again["address"] is not None and again["line"] is None


def test_the_version_of_the_core(mavcg: Any, dot_library: Path) -> None:
    of_a55 = estimated(mavcg, dot_library, "--function", "dot", "--core", "cortex-a55")
    of_a76 = estimated(mavcg, dot_library, "--function", "dot", "--core", "cortex-a76")

    assert (of_a55["function"], of_a76["function"]) == ("dot.cortex-a55", "dot.generic")
    assert of_a55["loops"][0]["instructions"] == 7 and of_a76["loops"][0]["instructions"] == 5
    assert of_a76["model"] == "port-bound" and of_a76["loops"][0]["bounds"]["dispatch"] > 0
    names = [f["name"] for f in estimated(mavcg, dot_library, "--core", "cortex-a55")["functions"]]
    assert names == ["dot.cortex-a55"]


def test_what_if(mavcg: Any, dot_file: Path) -> None:
    def cycles(*settings: str) -> float:
        options = [word for setting in settings for word in ("--set", setting)]
        document = estimated(mavcg, dot_file, "--function", "dot", "--core", "cortex-a55", *options)
        assert document["set"] == list(settings)
        return float(document["loops"][0]["cycles"])

    assert cycles("fmla_q->fmla_q.acc=30") == 30
    assert cycles("fmla_q->fmla_q.acc=30", "fmla_q->fmla_q.acc=20") == 20
    assert cycles("vector->vector=8") == cycles()
    assert cycles("ldr_q->fmla_q=20") > 20


def test_unknown_instructions_are_told_not_guessed(mavcg: Any, dot_file: Path) -> None:
    dot_file.write_text(dot_file.read_text().replace("\tfmla v0.4s, v1.4s, v2.4s\n", "\tldxr x9, [x0]\n"))
    (loop,) = estimated(mavcg, dot_file, "--function", "dot", "--core", "cortex-a55")["loops"]

    assert loop["cycles"] is None and loop["flops_per_cycle"] is None and loop["ops"] == []
    assert loop["unknown"] == f"{dot_file}:9: `ldxr x9, [x0]` is not known to the models"


def test_calls_in_loops_are_named(mavcg: Any, dot_file: Path) -> None:
    dot_file.write_text(dot_file.read_text().replace("\tstr x2, [x0], #8\n", "\tstr x2, [x0], #8\n\tbl other\n"))
    document = estimated(mavcg, dot_file, "--function", "rows", "--core", "cortex-a55")

    assert [loop["calls"] for loop in document["loops"]] == [[], ["other"], []]


def test_table_for_people(mavcg: Any, dot_file: Path) -> None:
    done = mavcg("estimate", dot_file, "--core", "cortex-a55", "--set", "ldr_x->ins=3", "--verbose")

    assert done.status == 0, done.stderr
    words = " ".join(done.stdout.split())
    for expected in (
        "in-order model",
        "with ldr_x->ins=3",
        "not measured",
        ".L1 (line 7)",
        "7.00",
        "FLOP/cycle",
        "ldr_q",
    ):
        assert expected in words, expected
    assert "int OP/cycle" not in words and "block of a loop" not in words
    assert "block of a loop" in mavcg("estimate", dot_file, "--core", "cortex-a55", "--blocks").stdout


def test_a_function_without_loops(mavcg: Any, dot_file: Path) -> None:
    done = mavcg("estimate", dot_file, "--function", "plain", "--core", "cortex-a55")

    assert done.status == 0 and "plain: has no loops" in done.stdout
    assert estimated(mavcg, dot_file, "--function", "plain", "--core", "cortex-a55")["loops"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dot.s", "--core", "haswell"], "--core haswell: is x86_64"),
        (["dot.s", "--core", "cortex-a56"], "did you mean"),
        (["dot.s", "--core", "cortex-a55", "--function", "dto"], "did you mean dot?"),
        (["none.s", "--core", "cortex-a55"], "none.s"),
        (["bad.s", "--core", "cortex-a55"], "bad.s:1:2:"),
        (["x86.o", "--core", "cortex-a55"], "holds code for X86_64"),
        (["dot.s", "--core", "cortex-a55", "--set", "a=3"], "does not have the form"),
    ],
)
def test_bad_input_is_refused_with_a_reason(mavcg: Any, dot_file: Path, arguments: list[str], words: str) -> None:
    (dot_file.parent / "bad.s").write_text("\tfrob x0\n")
    if arguments[0] == "x86.o":
        (dot_file.parent / "x86.s").write_text("\t.globl f\nf:\n\tret\n")
        run_zig("cc", ["-target", "x86_64-linux-gnu.2.17", "-c", "x86.s", "-o", "x86.o"], "assembling", dot_file.parent)
    done = mavcg("estimate", *arguments, "--json")

    assert done.status == 2 and words in done.stderr and done.stdout == "", done.stderr
