"""`mavcg app`, run as a user runs it."""

import json
from typing import Any


def test_the_papers_example(mavcg: Any) -> None:
    done = mavcg("app", "example", "--paper", "--json")

    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert {"naive", "reuse", "reduced", "buffers", "phases"} <= set(document)
    assert (document["naive"], document["reuse"], document["reduced"]) == (51466, 24586, 19712)
    assert [buffer["size"] for buffer in document["buffers"]] == [3072, 8192, 8192, 256]


def test_the_example_for_people(mavcg: Any) -> None:
    done = mavcg("app", "example", "--paper")

    assert done.status == 0, done.stderr
    assert "51466 elements" in done.stdout and "P1: l1, l2, [l3, l4, l5] x 32" in done.stdout
    assert mavcg("app", "example").status == 2
