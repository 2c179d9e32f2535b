"""Plots as SVG files: what cannot be one, and that the same plot makes the same bytes."""

from pathlib import Path

import pytest

from mavcg.drawing.svg_plots import check_plot, save_plot, start_plots
from mavcg.errors import MavcgError


@pytest.mark.parametrize(
    ("name", "words"),
    [("x.gif", "are .svg or .png"), ("nobody/x.svg", "nobody is not there"), ("folder.svg", "is a folder")],
)
def test_what_cannot_be_a_picture_is_said_before_the_work(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(MavcgError, match=words):
        check_plot(tmp_path / name)
    for good in ("x.svg", "x.png", "x.PNG"):
        check_plot(tmp_path / good)


def test_the_same_plot_makes_the_same_file(tmp_path: Path) -> None:
    start_plots()
    from matplotlib.figure import Figure

    for name in ("a.svg", "b.svg"):
        figure = Figure()
        figure.subplots().plot([0, 1], [0, 1], label="a line")
        save_plot(figure, tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text() and "</svg>" in text
