"""The table of blind projects: means of each core's kernels, of all and by project, and the goal."""

import pytest

from bench.silicon.blind_table import blind_errors


def row(core: str, project: str, modelled: float | None) -> dict[str, object]:
    known = {} if modelled is None else {"modelled": modelled}
    return {"core": core, "project": project, "silicon": 100.0, **known}


@pytest.mark.parametrize(
    ("core", "modelled", "goal"),
    [("cortex-a55", 104, "5% met"), ("neoverse-n1", 111, "10% missed"), ("cortex-x4", 86, "15% met")],
)
def test_a_core_s_goal_is_that_of_all_its_kernels(core: str, modelled: float, goal: str) -> None:
    text = blind_errors({"rows": [row(core, "p", modelled), row(core, "p", None)]})
    error = abs(modelled - 100)
    assert [line for line in text.splitlines() if line.startswith(f"| {core}")] == [
        f"| {core} | all | 1 | {modelled - 100:+.1f}% | {error:.2f}% | {goal} |",
        f"| {core} | p | 1 | {modelled - 100:+.1f}% | {error:.2f}% |  |",
    ]


def test_errors_of_both_signs_do_not_cancel_but_in_the_bias() -> None:
    rows = [row("cortex-a53", "p", 120), row("cortex-a53", "q", 90)]
    text = blind_errors({"rows": rows})
    assert "| cortex-a53 | all | 2 | +5.0% | 15.00% | 5% missed |" in text
    assert "| cortex-a53 | q | 1 | -10.0% | 10.00% |  |" in text
