"""ncnn simulated beside its published times: the facts, the tables, and rows that are kept."""

import pytest

from bench.arm_ncnn import CORES, with_row
from bench.tables.arm_ncnn import FACTS, arm_ncnn, cycles_of, published, rank_correlation
from mavcg.profiles.load import load_board, load_core


@pytest.mark.parametrize("name", CORES)
def test_each_core_has_one_simulated_board_with_that_core_and_no_half_precision(name: str) -> None:
    """With f16 arithmetic ncnn would compute in it by default, and published times would be those of f16."""
    first, *others = published(name)
    assert first["core"] == name and not any("simulated" in row for row in others)
    assert any(cluster.core == name for cluster in load_board(first["simulated"]).clusters)
    assert "fullfp16" not in load_core(name).extensions
    assert set(first["ms"]) == set(FACTS["sides"])


def test_bias_error_and_ranks_are_those_of_the_simulated_board() -> None:
    names = list(FACTS["sides"])[:4]
    ratios = dict(zip(names, (0.5, 1.0, 2.0, 1.0), strict=True))
    own = published("cortex-a72")[0]
    rows = [{"net": n, "core": "cortex-a72", "cycles": ratios[n] * cycles_of(own, n)} for n in names]
    rows.append({"net": names[0], "core": "cortex-a53", "cycles": cycles_of(published("cortex-a53")[0], names[0])})
    rows.append({"net": names[1], "core": "cortex-a53", "error": "no such file"})

    text = arm_ncnn({"rows": rows})

    order = [ratios[n] * own["ms"][n] for n in names]
    expected = rank_correlation(order, [own["ms"][n] for n in names])
    assert f"| cortex-a72 | 4 | 0.0% | 37.5% | {expected:.2f} |" in text
    assert "| cortex-a53 | 1 | 0.0% | 0.0% |  |" in text
    assert f"| {names[0]} | 3.63 | 1.82 |" in text  # half of the time on the A72, a ratio of times twice as large
    assert f"| cortex-a53 | {names[1]} | no such file |" in text


def test_rank_correlation_of_a_swapped_pair() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [10, 20, 40, 30]) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)


def test_a_row_takes_the_place_of_an_earlier_one() -> None:
    def row(network: str, cycles: int) -> dict[str, object]:
        return {"net": network, "core": "cortex-a53", "cycles": cycles}

    record = with_row({"rows": [row("mobilenet", 1), row("squeezenet", 2)]}, row("squeezenet", 3))

    assert [(r["net"], r["cycles"]) for r in record["rows"]] == [("squeezenet", 3), ("mobilenet", 1)]
