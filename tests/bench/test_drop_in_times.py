"""Times of models with a partial library and without: turns, and the table."""

from functools import partial

import numpy as np

from bench.drop_in_survey import largest_difference
from bench.drop_in_times import MODELS, ROUNDS, rounds
from bench.tables.real_files import drop_in_times
from mavcg.graph import Array


def test_sessions_take_turns_and_who_begins_changes() -> None:
    calls: list[str] = []

    def run(name: str) -> list[Array]:
        calls.append(name)
        return []

    ours, theirs = rounds(partial(run, "ours"), partial(run, "theirs"))
    assert len(ours) == len(theirs) == ROUNDS and all(each > 0 for each in (*ours, *theirs))
    assert calls.count("ours") + 1 == calls.count("theirs")  # and the one that says how many runs a round has
    assert calls[:2] == ["theirs", "theirs"] and calls[-1] == "ours"


def test_difference_is_of_the_largest_element() -> None:
    want = np.array([1.0, -4.0], np.float32)
    assert largest_difference([want + 1, np.zeros(0)], [want, np.zeros(0)]) == 0.25


def test_rows_of_the_table_say_why_a_whole_build_refuses_a_file_and_its_times() -> None:
    rows = [
        {
            "package": "p==1",
            "file": "a.onnx",
            "whole": "",
            "macs_share": 0.5,
            "runtime": "",
            "with_ms": 1.25,
            "without_ms": 2.5,
            "ratio": 0.5,
            "error": 1e-6,
        },
        {
            "package": "p==1",
            "file": "b.onnx",
            "whole": "If: control flow",
            "macs_share": None,
            "runtime": "no",
            "with_ms": None,
            "without_ms": None,
            "ratio": None,
            "error": None,
        },
    ]
    made = drop_in_times({"rows": rows})
    assert "| a.onnx (p) | taken whole today | 50.0% | 1.25 | 2.5 | 0.5 | 1e-06 |" in made
    assert "| b.onnx (p) | If: control flow | - | - | - | - | - |" in made
    assert len({name for _, name in MODELS}) == 12
