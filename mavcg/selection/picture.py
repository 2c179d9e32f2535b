"""What each strategy costs, as bars: the paper's figures of whole networks (CGO 2018, section 5.5)."""

import math
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.selection.report import Selection
from mavcg.selection.strategies import SUM2D


def check_plot(path: Path) -> None:
    """Raises: MavcgError for what cannot become the picture's file."""
    if path.suffix != ".svg":
        raise MavcgError(f"--plot {path}: pictures are SVG; name a file that ends in .svg")
    if not path.parent.is_dir():
        raise MavcgError(f"--plot {path}: the folder {path.parent} is not there; make it, or name another file")


def write_picture(found: Selection, path: Path) -> None:
    """A bar for each strategy, primitives and conversions on one another, with how much faster than sum2d it is.

    Raises: MavcgError where matplotlib is missing, or the file cannot be written.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise MavcgError("--plot: pictures need matplotlib; install mavcg[plots]") from error
    matplotlib.use("svg")
    # The same selection makes the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "mavcg", "svg.fonttype": "none"})
    from matplotlib.figure import Figure

    bars = [(n, one) for n, one in found.compared.items() if one is not None and not math.isinf(one.total_ms)]
    figure = Figure(figsize=(max(6.0, 0.9 * len(bars) + 2), 4.5))
    axes = figure.subplots()
    names = [name for name, _ in bars]
    nodes = [one.choice.nodes_ms for _, one in bars]
    axes.bar(names, nodes, label="primitives")
    axes.bar(names, [one.choice.conversions_ms for _, one in bars], bottom=nodes, label="conversions")
    base = next((one.total_ms for name, one in bars if name == SUM2D), None)
    for at, (_, one) in enumerate(bars):
        if base is not None and one.total_ms > 0:
            axes.text(at, one.total_ms, f"{base / one.total_ms:.2f}x", ha="center", va="bottom", fontsize=8)
    kinds = sorted({one.cost.kind for one in found.choice.chosen.values() if one.primitive})
    axes.set(ylabel=f"ms ({', '.join(kinds)})", title=f"{found.model} on {found.board}, {found.core}")
    axes.tick_params(axis="x", rotation=45)
    axes.legend(fontsize=8)
    figure.tight_layout()
    new = path.with_name(f".{path.name}.new")
    try:
        figure.savefig(new, format="svg", metadata={"Date": None})
        new.replace(path)
    except OSError as error:
        raise MavcgError(f"--plot {path}: cannot be written ({error.strerror}); name another file") from error
