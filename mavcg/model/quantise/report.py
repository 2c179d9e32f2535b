"""The report of `mavcg quantise`: a document, tables, and a picture of error against predicted time."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.drawing.svg_plots import save_plot, start_plots
from mavcg.model.quantise.quantise import QuantisedModel, QuantiseQuestion
from mavcg.text.safe_text import plot_label

if TYPE_CHECKING:
    from rich.console import Console


def quantised_json(
    question: QuantiseQuestion, threads: int, made: QuantisedModel, output: Path | None
) -> dict[str, Any]:
    """Return the document of --json. output: the file that was written; None: none."""
    return {
        "model": str(question.model),
        "board": question.board.name,
        "threads": threads,
        "ms_are": "predicted, not measured",
        "errors_are": "root mean square of the differences from f32 over that of f32, on the calibration inputs",
        "samples": made.samples,
        "max_error": question.max_error,
        "layers": [
            {
                "name": layer.name,
                "op": layer.op,
                "f32_ms": layer.f32_ms,
                "int8_ms": layer.int8_ms,
                "gain_ms": layer.gain_ms,
                "error": layer.error,
                "int8": layer.name in made.points[made.chosen].layers,
            }
            for layer in made.layers
        ],
        "points": [
            {
                "point": number,
                "layers": list(point.layers),
                "ms": point.ms,
                "error": point.error,
                "on_front": on_front,
                "chosen": number == made.chosen,
            }
            for number, (point, on_front) in enumerate(zip(made.points, made.front, strict=True))
        ],
        "chosen": made.chosen,
        "output": None if output is None else str(output),
    }


def show_quantised(question: QuantiseQuestion, made: QuantisedModel, out: "Console") -> None:
    """Print a table of the layers and one of the points."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("layer", "operator", "f32 ms", "8-bit ms", "gain ms", "error", "type"):
        table.add_column(title, justify="left" if title in ("layer", "operator", "type") else "right")
    for layer in made.layers:
        kind = "8 bits" if layer.name in made.points[made.chosen].layers else "f32"
        error = "-" if layer.error is None else f"{layer.error:.4f}"
        times = (f"{ms:.4f}" for ms in (layer.f32_ms, layer.int8_ms, layer.gain_ms))
        table.add_row(layer.name, layer.op, *times, error, kind)
    out.print(table)
    out.print()
    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("point", "layers in 8 bits", "predicted ms", "error", ""):
        table.add_column(title, justify="left" if not title else "right")
    for number, (point, on_front) in enumerate(zip(made.points, made.front, strict=True)):
        words = "chosen" if number == made.chosen else "" if on_front else "another is better"
        table.add_row(str(number), str(len(point.layers)), f"{point.ms:.4f}", f"{point.error:.5f}", words)
    out.print(table)
    out.print(
        f"\n{question.board.name}; times are predicted, errors measured on {made.samples} inputs, relative to f32 "
        "(root mean squares)"
    )


def write_front(question: QuantiseQuestion, made: QuantisedModel, path: Path) -> None:
    """Draw the error of each point against its predicted time. Raises: MavcgError if matplotlib is missing."""
    start_plots()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.5))
    axes = figure.subplots()
    front = [point for point, on_front in zip(made.points, made.front, strict=True) if on_front]
    axes.plot([point.ms for point in front], [point.error for point in front], "-", color="C0", zorder=1)
    for number, point in enumerate(made.points):
        chosen = number == made.chosen
        axes.plot(point.ms, point.error, "o", color="C3" if chosen else "C0", markersize=9 if chosen else 6)
        words = f"{number}: {len(point.layers)} of {len(made.layers)}{', chosen' if chosen else ''}"
        axes.annotate(words, (point.ms, point.error), xytext=(6, 6), textcoords="offset points", fontsize=8)
    axes.set(xlabel="predicted ms", ylabel="error of the outputs, relative to f32")
    axes.margins(0.15)
    figure.suptitle(
        plot_label(f"{question.model.stem} on {question.board.name}: layers in 8 bits, by error and time"), fontsize=10
    )
    save_plot(figure, path)
