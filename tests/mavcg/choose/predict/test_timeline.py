"""The picture: well-formed whatever the names are, lanes as long as what they stand for."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mavcg.choose.predict.predict import (
    LayerPrediction,
    Prediction,
    ThreadPrediction,
    best_threads,
    thread_plans,
)
from mavcg.choose.predict.report import prediction_json, slower_sets
from mavcg.choose.predict.timeline import lanes_of, timeline_svg, write_timeline
from mavcg.errors import MavcgError
from mavcg.specs.model_program import ThreadPlan


@pytest.fixture
def prediction(make: Any) -> Prediction:
    layers = []
    for rows in (2, 7):
        model = make.model(make.step(rows=rows), slower=4.0)
        on = {"big": model.alone(make.worker()), "little": model.alone(make.worker(cluster=1))}
        layers.append(LayerPrediction(model.work, on["big"].ms, on, {"big": "pipeline model", "little": "work"}))
    one, two = ThreadPrediction(1, {"big": 1}, 3.0), ThreadPrediction(2, {"big": 1, "little": 1}, 4.0)
    big, little = make.worker(), make.worker(cluster=1)
    clusters = {
        "big": big.running(replace(big.machine, name="a76")),
        "little": little.running(replace(little.machine, name="a55")),
    }
    return Prediction('m<&"\x01', "b]]>", clusters, tuple(layers), one, (one, two), (one, two), ("as is",))


def test_the_svg_is_well_formed_with_a_bar_for_each_step(prediction: Prediction) -> None:
    root = ET.fromstring(timeline_svg(prediction, (0.5, 0.25)))

    assert root.tag.endswith("svg")
    bars = [g for g in root.iter() if g.tag.endswith("}g")]
    assert len(bars) == 3 * 2  # two clusters and what was measured


def test_lanes_are_as_long_as_their_sums(prediction: Prediction) -> None:
    big, little, measured = lanes_of(prediction, (0.5, 0.25))

    assert big.ms == pytest.approx(prediction.total_ms) and measured.ms == 0.75
    assert little.ms > big.ms
    assert measured.title == "measured, 1 thread"  # those that the prediction was asked for


def test_a_title_says_modelled_and_no_less_where_something_was_measured(prediction: Prediction) -> None:
    titles = [
        next(e.text or "" for e in ET.fromstring(timeline_svg(prediction, measured)).iter() if e.tag.endswith("}title"))
        for measured in (None, (0.5, 0.25))
    ]
    assert titles[0].endswith("predicted timeline of a run (modelled, not measured)")
    assert titles[1].endswith("a run as predicted (modelled) and as measured")


def test_more_cores_that_are_slower_are_named(prediction: Prediction) -> None:
    (sentence,) = slower_sets(prediction)

    assert "all cores (1 big + 1 little)" in sentence and "longer than 1 big alone" in sentence
    assert best_threads(prediction).threads == 1
    one, two = thread_plans(prediction)
    assert one == ThreadPlan(("a76",), 1, 1.0) and (two.cores, two.threads) == (("a76", "a55"), 2)
    assert two.relative_time == pytest.approx(4 / 3)


def test_json_says_what_it_is(prediction: Prediction) -> None:
    document = prediction_json(prediction, (0.5, 0.25))

    assert document["predictions_are"] == "modelled, not measured"
    assert document["by_threads"] == {"1": 3.0, "2": 4.0} and document["best_threads"] == 1
    assert document["total_ms"] == pytest.approx(sum(layer["predicted_ms"] for layer in document["layers"]), abs=1e-5)
    assert [layer["measured_ms"] for layer in document["layers"]] == [0.5, 0.25]
    assert document["correlation"]["layers"] == 2
    assert "measured_ms" not in prediction_json(prediction)["layers"][0]


def test_files_are_written_whole_or_not_at_all(prediction: Prediction, tmp_path: Path) -> None:
    write_timeline(prediction, None, tmp_path / "t.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["t.svg"]
    with pytest.raises(MavcgError, match=r"--plot t\.gif: .*\.svg"):
        write_timeline(prediction, None, Path("t.gif"))
    with pytest.raises(MavcgError, match="the folder .* is not there"):
        write_timeline(prediction, None, tmp_path / "no" / "t.svg")
