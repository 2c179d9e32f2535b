"""Random graphs of any length: each is the same again, onnxruntime runs them at every length, and faults are found."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from bench.lengths import random_graphs  # noqa: E402
from bench.lengths.growing import OPSETS, model_of, values_at  # noqa: E402
from bench.lengths.kinds import DYNAMIC, KINDS, random_graph  # noqa: E402
from bench.lengths.random_graphs import Compared, compare_batch, reason_of  # noqa: E402
from bench.tables.lengths import random_lengths  # noqa: E402


def test_graphs_follow_from_their_number() -> None:
    first, again, other = (model_of([random_graph(3, n, 17, DYNAMIC)]).SerializeToString() for n in (5, 5, 6))
    assert first == again != other


def test_onnxruntime_runs_them_at_every_length() -> None:
    operators = set[str]()
    for number in range(24):
        part = random_graph(1, number, OPSETS[number % len(OPSETS)], ())
        session = random_graphs.session_of(model_of([part]))
        outputs = {n: session.run(None, values_at(part, n)) for n in (1, 4, 9)}
        assert len(part.outputs) == len(outputs[4])
        operators |= set(part.operators)
    assert len(operators) > 20 and len(KINDS) > 40


def test_verdicts() -> None:
    """Other bits than the library of one length, other values than onnxruntime, and neither."""
    part = random_graph(0, 5, 17, ())
    library = random_graphs._Library(9, (1, 9, 4), 4)
    theirs = {n: random_graphs.session_of(model_of([part])).run(None, values_at(part, n)) for n in library.lengths}
    ours: dict[Any, Any] = {**theirs, None: theirs[4]}
    assert random_graphs.verdict_of(part, library, ours, theirs).status == "same"
    moved = [np.nextafter(x, np.inf) if x.dtype.kind == "f" else x for x in theirs[4]]
    assert random_graphs.verdict_of(part, library, {**ours, None: moved}, theirs).status == "different"
    wrong = [x + 1 for x in theirs[9]]
    found = random_graphs.verdict_of(part, library, {**ours, 9: wrong}, theirs)
    assert found.status == "different" and found.reason.startswith("length 9: ")


def test_refusals_are_counted_without_names_and_numbers() -> None:
    message = "node 'a_3' (slice): the bounded dimension n (1 to 12) has %b.1 with 12 at its longest length; give"
    assert reason_of(message) == "node (slice): the bounded dimension n has with N at its longest length"
    results = [Compared(0, (), "same", "", 4), Compared(1, (), "refused", message), Compared(2, (), "refused", message)]
    text = random_lengths(random_graphs.record_of(3, 0, results))
    assert "3 random graphs" in text and "| 1 | 0 | 0 | 0 | 2 | 0 |" in text and f"| {reason_of(message)} | 2 |" in text


@pytest.mark.long
def test_a_library_of_them(tmp_path: Path) -> None:
    results = compare_batch(7, 2, range(200, 212), tmp_path)
    counts = [result.status for result in results]
    assert len(counts) == 12 and set(counts) <= {"same", "explained", "refused", "skipped"} and "same" in counts
