"""Tables of published figures: held-out errors beside their goals, the simulator beside the models."""

from typing import Any

from bench.tables.silicon import GOALS, beside_analytic, goals


def row(
    core: str, modelled: float | None, kind: str = "cycles", held_out: bool = True, name: str = "f"
) -> dict[str, Any]:
    found = {"core": core, "name": name, "kind": kind, "when": "after", "published": "p", "silicon": 10.0}
    found |= {} if modelled is None else {"modelled": modelled}
    return found | ({"held_out": True} if held_out else {})


def cells(text: str, core: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {core} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_goals_are_judged_by_kernels_that_are_held_out() -> None:
    rows = [
        row("cortex-a53", 10.4),
        row("cortex-a53", 9.4, "ratio"),
        row("cortex-a53", 99, held_out=False),
        row("cortex-a53", None, "loop"),
        row("cortex-a53", 15, "instruction"),
        row("cortex-x1", 14, "ratio"),
    ]
    text = goals({"rows": rows})
    assert cells(text, "cortex-a53")[1:] == ["4.0% (1)", "6.0% (1)", "50.0% (1)", "5.0% (2)", "5% met"]
    assert cells(text, "cortex-x1")[-2:] == ["40.0% (1)", "15% missed"]


def test_instructions_are_the_verdict_where_no_kernel_is_held_out() -> None:
    text = goals({"rows": [row("neoverse-n1", 10.2, "instruction"), row("cortex-x4", 12)]})
    assert cells(text, "neoverse-n1")[1:] == ["", "", "2.0% (1)", "", "10% met"]
    assert cells(text, "cortex-a75")[1:] == ["", "", "", "", "10%, no figure"]
    assert cells(text, "cortex-x4")[-1] == ""  # nothing was asked of it
    assert all(len(cells(text, core)) == 6 for core in GOALS)


def test_the_simulator_stands_beside_the_models_on_figures_that_both_have() -> None:
    both = [("f", 12, 11, True), ("g", 8, 5, False), ("h", 30, None, True)]
    rows = [row("cortex-a55", simulated, held_out=held, name=name) for name, simulated, _, held in both]
    analytic = [row("cortex-a55", modelled, held_out=held, name=name) for name, _, modelled, held in both]
    changes = [{"core": "all", "changes": 4, "right": 3}]

    text = beside_analytic({"rows": rows, "changes": changes}, {"rows": analytic, "changes": []})

    assert cells(text, "cortex-a55")[1:] == ["calls", "2", "20.0%", "30.0%", "1", "20.0%", "10.0%"]
    assert "3 of 4 by the simulator, none by the analytic models" in text
