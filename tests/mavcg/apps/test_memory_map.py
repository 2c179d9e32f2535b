"""The picture of an arena over time: what is written in it."""

from pathlib import Path

from mavcg.apps.memory_map import draw_memory_map
from mavcg.apps.plan import plan_application
from mavcg.apps.search import Constraints, GeneticLimits
from mavcg.apps.worked_example import example_application


def test_data_networks_and_size_are_named(tmp_path: Path) -> None:
    planned = plan_application(example_application(), {}, Constraints(None, {}), GeneticLimits(generations=1))
    draw_memory_map(planned, path := tmp_path / "m.svg")
    text = path.read_text()

    size = planned.front[planned.chosen].arena.size
    assert f"Arena of {size / 1e3:,.0f} kB" in text
    assert all(cnn.name in text for cnn in planned.app.cnns)
    widest = max(planned.front[planned.chosen].arena.rings.items(), key=lambda item: item[1].elements)[0]
    assert f"{widest.edge.source}-&gt;{widest.edge.target}" in text
