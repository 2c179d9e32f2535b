"""Plots as SVG files: the same plot makes the same bytes, and a file is whole or not there."""

from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.whole_file import whole


def check_plot(path: Path) -> None:
    """Raises: MavcgError for what cannot become the file of a picture: before the work, not after it."""
    if path.suffix != ".svg":
        raise MavcgError(f"--plot {path}: pictures are SVG; name a file that ends in .svg")
    if not path.parent.is_dir():
        raise MavcgError(f"--plot {path}: the folder {path.parent} is not there; make it, or name another file")
    if path.is_dir():
        raise MavcgError(f"--plot {path}: is a folder; name another file")


def start_plots() -> None:
    """Make matplotlib draw SVG without a screen. Raises: MavcgError where it is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        raise MavcgError("--plot: pictures need matplotlib; install mavcg[plots]") from error
    matplotlib.use("svg")
    # Names in an SVG are drawn by a salt: a fixed one makes the same names. Text stays text.
    matplotlib.rcParams.update({"svg.hashsalt": "mavcg", "svg.fonttype": "none"})


def save_plot(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib, without a date. Raises: OSError where it cannot be written."""
    figure.tight_layout()
    with whole(path) as made:
        figure.savefig(made, format="svg", metadata={"Date": None})
