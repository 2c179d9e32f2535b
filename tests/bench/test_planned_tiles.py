"""How planned tiles are compared with fixed ones, on made-up times."""

from bench.planned_tiles import FIXED, summary


def test_a_disturbed_round_counts_no_more_than_another_and_the_best_is_found_in_other_rounds() -> None:
    """`prefetch` is the best of the first step in the even rounds, `plain` of the second and as one for all."""
    steady = {label: [1_000_000, 2_000_000] for label in FIXED}
    steady |= {"planned": [1_000_000, 1_900_000], "prefetch": [900_000, 3_000_000]}
    took = {label: [list(run) for _ in range(12)] for label, run in steady.items()}
    took["planned"][3] = [90_000_000, 190_000_000]  # something else had the core
    for number in range(1, 12, 2):
        took["prefetch"][number][0] = 1_000_000  # what was luck does not come again
    summarised = summary("net", took, ["a", "b"])

    assert [step["best"] for step in summarised["steps"]] == ["prefetch", "plain"]
    assert summarised["one_for_all"] == "plain"
    assert summarised["planned_ms"] == 2.9
    assert summarised["ratio"] == summarised["planned_by_one_for_all"] == summarised["planned_by_each_layers_best"]
    assert abs(summarised["ratio"] - 2.9 / 3.0) < 1e-4
    assert summarised["rounds"] == 12
