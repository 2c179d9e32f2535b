"""ONNX's own node tests through the whole road: import, passes, storage, kernels; and a spread of them as libraries."""

from collections import Counter

import pytest

pytest.importorskip("onnx.backend.test.case.node", reason="the tests come with the onnx package")

from bench.onnx_node_cases import EXPECTED_TO_FAIL, Case, cases, promised  # noqa: E402
from bench.onnx_node_tests import Outcome, by_operator, counts, kernel_runner, library_runner, run_all, run_isolated  # noqa: E402


def spread(number: int) -> list[str]:
    """The first tests of this many operators, evenly from all that are promised."""
    first: dict[str, Case] = {}
    for case in cases():
        if len(case.operators) == 1 and case.operators[0] in promised():
            first.setdefault(case.operators[0], case)
    return [case.name for case in list(first.values())[:: -(-len(first) // number)]]


def refusals(outcomes: list[Outcome]) -> dict[str, str]:
    return {o.name: o.reason for o in outcomes if o.status == "failed" and o.name not in EXPECTED_TO_FAIL}


@pytest.mark.long
def test_a_spread_through_kernels() -> None:
    outcomes = run_all(kernel_runner(), spread(40))

    assert refusals(outcomes) == {}
    assert counts(outcomes)["passed"] >= 30


def test_of_some_operators_counts_are_kept() -> None:
    outcomes = [
        Outcome("a", ("Relu",), "passed"),
        Outcome("b", ("Conv", "Relu"), "failed", "why"),
        Outcome("c", ("Conv",), "passed", constants=("w",)),
    ]

    assert by_operator(outcomes) == {"Conv": {"failed": 1, "passed": 1}, "Relu": {"failed": 1, "passed": 1}}
    assert counts(outcomes) == {"passed": 2, "failed": 1, "out of scope": 0, "passed with constants": 1}


@pytest.mark.long
def test_all_through_kernels() -> None:
    outcomes = run_isolated(kernel_runner(), cases())
    passed = Counter(op for o in outcomes if o.status == "passed" for op in o.operators)

    assert refusals(outcomes) == {}
    assert counts(outcomes)["passed"] >= 1800
    assert [op for op in promised() if not passed[op]] == []


@pytest.mark.long
def test_a_spread_through_libraries() -> None:
    wanted = set(spread(60))
    outcomes = run_isolated(library_runner, [c for c in cases() if c.name in wanted])

    assert refusals(outcomes) == {}
    assert counts(outcomes)["passed"] >= 40
