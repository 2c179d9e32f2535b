"""Changes with a wrong direction: which they are, of times after and before and of published ratios."""

from typing import Any

from bench import records
from bench.records import RESULTS
from bench.silicon.changes import CAUSES, changes, wrong_directions


def row(silicon: float, modelled: float | None, kind: str = "ratio", when: str = "after", name: str = "f") -> Any:
    known = {} if modelled is None else {"modelled": modelled}
    head = {"core": "cortex-a55", "name": name, "kind": kind, "when": when, "published": "messages of ..: 12345678"}
    return {**head, "silicon": silicon, **known}


ROWS = [
    row(0.8, 1.0),
    row(0.9, 1.2),
    row(0.7, 0.9),
    row(1.04, 0.9),
    row(0.5, None),
    row(100, 50, "cycles", "before"),
    row(120, 45, "cycles"),
    row(90, 90, "cycles", name="g"),
]


def test_changes_are_ratios_and_pairs_of_times_over_five_percent() -> None:
    assert [(silicon, modelled) for _, silicon, modelled in changes({"rows": ROWS})] == [
        (0.8, 1.0),
        (0.9, 1.2),
        (0.7, 0.9),
        (1.2, 0.9),
    ]


def test_wrong_ones_are_counted_by_commit() -> None:
    line = wrong_directions({"rows": ROWS}).splitlines()[-1]
    assert line == "| 12345678 | 3 | 1 | 0.80 to 1.20 | a55 |  |"


def test_functions_that_were_rewritten_are_paired_by_name_and_counted_by_list() -> None:
    rows = [
        {**row(300, 310, "cycles", "before", "add_n"), "published": "heads: 3 cycles a limb", "change": "gmp: add_n"},
        {**row(200, 320, "cycles", "after", "add_n"), "published": "heads: 2 cycles a limb", "change": "gmp: add_n"},
    ]
    assert [(silicon, modelled) for _, silicon, modelled in changes({"rows": rows})] == [(200 / 300, 320 / 310)]
    assert wrong_directions({"rows": rows}).splitlines()[-1].startswith("| gmp | 1 | 0 | 0.67 to 0.67 | a55 | A53")


def test_the_record_s_counts_are_those_of_its_changes_and_each_wrong_commit_has_a_cause() -> None:
    _, _, directions, wrong, _ = records.read(RESULTS / "silicon.json").tables
    count, right = next((int(row[1]), int(row[2].split()[0])) for row in directions.rows if row[0] == "all")

    assert abs(sum(int(row[1]) for row in wrong.rows) - (count - right)) <= 2  # rows are rounded, the counts are not
    assert all(row[-1] for row in wrong.rows) and {row[0] for row in wrong.rows} <= CAUSES.keys()
