"""ONNX's own node tests through the importer and the reference: all in scope pass, and the scope does not shrink."""

from collections import Counter

import pytest

pytest.importorskip("onnx.backend.test.case.node", reason="the tests come with the onnx package")

from bench.onnx_node_cases import EXPECTED_TO_FAIL, cases, promised  # noqa: E402
from bench.onnx_node_tests import Outcome, counts, inputs_behind, run_all  # noqa: E402


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return run_all()


def failed_by_surprise(outcomes: list[Outcome]) -> dict[str, str]:
    """Test -> reason, of those that fail and are not known to."""
    return {o.name: o.reason for o in outcomes if o.status == "failed" and o.name not in EXPECTED_TO_FAIL}


def test_the_first_of_each_operators_tests_passes() -> None:
    first = {case.operators: case.name for case in reversed(cases())}
    outcomes = run_all(names=first.values())

    assert not failed_by_surprise(outcomes)
    assert counts(outcomes)["passed"] >= 240


@pytest.mark.long
def test_none_fails(outcomes: list[Outcome]) -> None:
    assert not failed_by_surprise(outcomes)


@pytest.mark.long
def test_each_is_accounted_for(outcomes: list[Outcome]) -> None:
    by_status = counts(outcomes)

    assert by_status["passed"] + by_status["failed"] + by_status["out of scope"] == len(cases()) == len(outcomes)
    assert by_status["passed"] >= 1800
    assert all(o.reason for o in outcomes if o.status != "passed")


@pytest.mark.long
def test_what_is_promised_is_in_scope(outcomes: list[Outcome]) -> None:
    """Only forms may be out of scope: other element types, sequences of unknown length, training."""
    passed = Counter(o.operators[0] for o in outcomes if o.status == "passed" and len(o.operators) == 1)
    reasons = [
        o.reason
        for o in outcomes
        if o.status == "out of scope" and o.operators[0] in promised() and len(o.operators) == 1
    ]
    known = (
        "elements of type",
        "training_mode",
        "BRANCH_MEMBER",
        "is a sequence",
        "an optional argument that a run leaves out",
        "Scan of opset 8",
    )

    assert [op for op in promised() if not passed[op]] == []
    assert [r for r in reasons if not any(k in r for k in known)] == []


def test_what_an_input_decides_is_found_behind_other_nodes() -> None:
    (case,) = [c for c in cases() if c.name == "test_reshape_negative_dim"]

    assert inputs_behind(case.model, "shape") == ["shape"]
