"""The paper's example: Tables 6.1 to 6.3, phases and schedule of section 6.5.2."""

from mavcg.apps.derivation import Derivation
from mavcg.apps.token_simulator import greedy_rings, simulate_schedule
from mavcg.apps.worked_example import CHROMOSOME, example_application, example_tables


def rows(table: list[dict[str, object]]) -> list[tuple[set[str], int]]:
    return [(set(row["edges"]), int(str(row["size"]))) for row in table]  # type: ignore[call-overload]


def test_table_6_1() -> None:
    sizes = [row["size"] for row in example_tables()["tables"]["naive"]]

    assert sizes == [3072, 8192, 8192, 8192, 8192, 3072, 6272, 6272, 10]
    assert example_tables()["naive"] == 51466  # the paper's 51446 is not the sum of its table


def test_table_6_2() -> None:
    assert rows(example_tables()["tables"]["reuse"]) == [
        ({"CNN1:l1->l2", "CNN1:l3->l4", "CNN2:l1->l2"}, 8192),
        ({"CNN1:l2->l3", "CNN1:l4->l5", "CNN2:l2->l3(1)"}, 8192),
        ({"CNN1:l2->l4", "CNN2:l2->l3(2)"}, 8192),
        ({"CNN2:l3->l4"}, 10),
    ]
    assert example_tables()["reuse"] == 24586


def test_table_6_3() -> None:
    assert rows(example_tables()["buffers"]) == [
        ({"CNN1:l1->l2", "CNN1:l3->l4", "CNN2:l1->l2"}, 3072),
        ({"CNN1:l2->l3", "CNN2:l2->l3(1)"}, 8192),
        ({"CNN1:l2->l4", "CNN2:l2->l3(2)"}, 8192),
        ({"CNN1:l4->l5", "CNN2:l3->l4"}, 256),
    ]
    assert example_tables()["reduced"] == 19712


def test_phases_and_schedules() -> None:
    tables = example_tables()

    assert [*tables["phases"]["CNN1"].values(), *tables["phases"]["CNN2"].values()] == [1, 1, 32, 32, 32, 1, 1, 1, 1]
    assert tables["schedules"]["P1"] == "l1, l2, [l3, l4, l5] x 32"


def test_both_schedules_run_token_by_token() -> None:
    for chromosome in (CHROMOSOME, frozenset[tuple[str, str]]()):
        derived = Derivation(example_application()).derive(chromosome)

        assert simulate_schedule(derived, greedy_rings(derived)) > 0
