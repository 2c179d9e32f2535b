"""Write pictures as .svg or .png, by the file's suffix; the same picture gives the same bytes, whole or not at all.

Plots are figures of matplotlib. Drawings are SVG that mavcg writes itself, which svg_png.py converts to .png.
"""

import io
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError, import_problem
from mavcg.files.whole_file import write_whole

INK, FAINT = "#1b1f23", "#6a737d"


FORMATS = (".svg", ".png")
_DPI = 150


def check_plot(path: Path, option: str = "--plot") -> None:
    """Raise MavcgError, before any work, for a path that cannot be the file of a picture. option: for messages."""
    if path.suffix.lower() not in FORMATS:
        raise MavcgError(f"{option} {path}: pictures are .svg or .png; name a file that ends in one of them")
    if not path.parent.is_dir():
        raise MavcgError(f"{option} {path}: the folder {path.parent} is not there; make it, or name another file")
    if path.is_dir():
        raise MavcgError(f"{option} {path}: is a folder; name another file")
    if path.suffix.lower() == ".png":
        start_plots(option)


def start_plots(option: str = "--plot") -> None:
    """Make matplotlib draw without a screen. Raises: MavcgError if it is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        absent = f"{option}: pictures need matplotlib, which is not installed; pip install 'mavcg[plots]'"
        raise import_problem(error, absent) from error
    matplotlib.use("agg")
    # Names in an SVG are drawn by a salt: a fixed one makes the same names. Text stays text.
    matplotlib.rcParams.update({"svg.hashsalt": "mavcg", "svg.fonttype": "none"})


def save_plot(figure: Any, path: Path, option: str = "--plot", tight: bool = True) -> None:
    """Write a figure of matplotlib in the format of the path's suffix, without a date.

    tight: True to lay out its parts again, so that no text is cut. Raises: MavcgError if it cannot be written.
    """
    if tight:
        figure.tight_layout()
    picture = io.BytesIO()
    kind = path.suffix.lower().lstrip(".")
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    figure.savefig(picture, format=kind, dpi=_DPI, metadata=metadata)
    write_whole(path, picture.getvalue(), option)


def save_drawing(svg: str, path: Path, option: str = "--plot") -> None:
    """Write a drawing in the format of the path's suffix. svg: the whole drawing.

    Raises: MavcgError for another suffix, for a .png without matplotlib, and if the file cannot be written.
    """
    check_plot(path, option)
    if path.suffix.lower() == ".svg":
        write_whole(path, svg, option)
        return
    from mavcg.drawing.svg_png import png_of

    write_whole(path, png_of(svg), option)
