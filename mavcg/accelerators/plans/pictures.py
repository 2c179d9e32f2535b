"""Pictures of a network's plan: rooflines with the tilings of a layer (figures 5.2 and 6.5), traffic (figure 8.3)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mavcg.accelerators.plans import space
from mavcg.accelerators.plans.request import Compared, NetworkPlan
from mavcg.accelerators.plans.roofline import roofline_performance
from mavcg.accelerators.plans.space import Planned
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import Integers, Traffic, bytes_of, traffic
from mavcg.drawing.svg_plots import FORMATS, check_plot, save_plot, start_plots
from mavcg.errors import MavcgError
from mavcg.hardware.accelerator import Accelerator
from mavcg.text.safe_text import plot_label

MOST_POINTS = 1500  # points drawn of a cloud; of more tilings, a regular sample
MOST_TILES = 1 << 18  # tiles evaluated for a cloud, whether they fit or not
_CLOUDS = ("before pruning", "after algorithm 1", "after algorithms 1 and 2")
_COLOURS = ("0.8", "tab:blue", "tab:orange")
Floats = NDArray[np.float64]


def write_pictures(plan: NetworkPlan, compared: Sequence[Compared], path: Path) -> tuple[Path, ...]:
    """Draw the traffic of all layers, and a roofline for each distinct layer.

    path: a folder, created if needed, for `traffic.svg` and `roofline-<layer>.svg`; or a file name in .svg or .png for
    the traffic, with `<its stem>.roofline-<layer>` next to it. Raises: MavcgError if matplotlib is missing or a picture
    cannot be written.
    """
    start_plots()
    if is_file_name(path):
        check_plot(path)
        traffic, stem = path, f"{path.stem}.roofline-"
    else:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MavcgError(f"--plot {path}: cannot be written ({error.strerror}); name another folder") from error
        traffic, stem = path / "traffic.svg", "roofline-"
    written = [_traffic_picture(plan, compared, traffic)]
    seen: set[ConvLayer] = set()
    for planned in plan.planned:
        if planned.layer.key not in seen:
            seen.add(planned.layer.key)
            name = re.sub(r"[^\w.-]+", "_", planned.layer.name)
            beside = traffic.with_name(f"{stem}{name}{traffic.suffix}")
            written.append(_roofline_picture(planned, plan.accelerator, beside))
    return tuple(written)


def is_file_name(path: Path) -> bool:
    """True if a path is the name of a picture and not a folder for pictures."""
    return path.suffix.lower() in FORMATS and not path.is_dir()


def clouds(layer: ConvLayer, accelerator: Accelerator) -> tuple[tuple[Floats, Floats], ...]:
    """Return MAC/byte and GMAC/s of tilings that fit.

    All of the grid, those above algorithm 1's tile, above algorithm 2's. The computation roof is that of the elements
    that each tile keeps busy, so that the clouds show tilings that leave elements idle. If a grid has more than
    MOST_POINTS tilings, evenly spaced ones are taken.
    """
    smallest = Tile(1, 1, 1, layer.ow, layer.kh, layer.kw)
    starts = (smallest, space.initial_tile(layer, accelerator), space.lower_bound(layer, accelerator))
    return tuple(_cloud(layer, accelerator, start) for start in starts)


def _cloud(layer: ConvLayer, accelerator: Accelerator, lowest: Tile) -> tuple[Floats, Floats]:
    axes = _thin(space.axes(layer, accelerator, lowest))
    points = []
    for tile in _fitting_tiles(layer, accelerator, axes):
        for dataflow in Dataflow:
            reached = roofline_performance(layer, traffic(layer, Tiling(tile, dataflow)), accelerator, tile)
            points.append((reached.mac_per_byte, reached.gmac_per_s))
    both = np.array(points, dtype=np.float64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _thin(axes: Mapping[str, Integers]) -> dict[str, Integers]:
    """Return the axes, thinned until at most MOST_TILES tiles are left.

    Each step drops every second value of the longest axis, but not its last.
    """
    thinned = dict(axes)
    while prod(len(values) for values in thinned.values()) > MOST_TILES:
        longest = max(thinned, key=lambda name: len(thinned[name]))
        thinned[longest] = np.unique(np.append(thinned[longest][::2], thinned[longest][-1]))
    return thinned


def _fitting_tiles(layer: ConvLayer, accelerator: Accelerator, axes: Mapping[str, Integers]) -> Iterator[Tile]:
    """Yield tiles that fit, evenly spaced so that there are at most MOST_POINTS tilings with three dataflows."""
    memory, names = accelerator.memory, list(layer.loops)
    grid = dict(zip(names, np.ix_(*(axes[name] for name in names)), strict=True))
    sizes = bytes_of(layer, grid, halo=True)
    if memory.shared_bytes:
        fit = sum(sizes, np.int64(0)) <= memory.shared_bytes
    else:
        limits = (memory.input_bytes, memory.weight_bytes, memory.output_bytes)
        fit = np.logical_and.reduce(np.broadcast_arrays(*(n <= most for n, most in zip(sizes, limits, strict=True))))
    shape = tuple(len(axes[name]) for name in names)
    places = np.flatnonzero(np.broadcast_to(fit, shape))
    for at in places[:: max(1, -(-len(places) * len(Dataflow) // MOST_POINTS))]:
        index = np.unravel_index(at, shape)
        yield Tile(*(int(axes[name][i]) for name, i in zip(names, index, strict=True)))


def _roofline_picture(planned: Planned, accelerator: Accelerator, path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5))
    axes = figure.subplots()
    layer, reached = planned.layer, planned.reached
    for (x, y), label, colour in zip(clouds(layer, accelerator), _CLOUDS, _COLOURS, strict=True):
        axes.scatter(x, y, s=6, c=colour, label=f"{label} ({len(x)} drawn)", linewidths=0)
    axes.scatter([reached.mac_per_byte], [reached.gmac_per_s], s=70, marker="*", c="tab:red", label="chosen", zorder=3)
    roof, peak = reached.compute_gmac_per_s, accelerator.peak_gmac_per_s
    slope = accelerator.levels[-1].bandwidth_gb_per_s
    axes.set(xscale="log", yscale="log", xlabel="MAC per off-chip byte", ylabel="GMAC/s (modelled)")
    low, high = axes.get_xlim()
    x_line = np.geomspace(max(low, 1e-2), max(high, 2 * peak / slope), 200)
    axes.plot(
        x_line,
        np.minimum(roof, slope * x_line),
        c="black",
        lw=1,
        label=f"roofline: {roof:.3g} GMAC/s, {slope:.3g} GB/s",
    )
    if roof < peak:
        all_busy = np.minimum(peak, slope * x_line)
        axes.plot(x_line, all_busy, c="0.5", lw=1, ls="--", label=f"with all elements busy: {peak:.3g} GMAC/s")
    axes.set_title(plot_label(f"{layer.name} on {accelerator.name}"))
    axes.legend(fontsize=7, loc="lower right")
    save_plot(figure, path)
    return path


def _traffic_picture(plan: NetworkPlan, compared: Sequence[Compared], path: Path) -> Path:
    from matplotlib.figure import Figure

    rows: list[tuple[str, Sequence[Traffic]]] = [("mavcg", [p.reached.traffic for p in plan.planned])]
    rows += [(planner.name, planner.by_layer) for planner in compared]
    figure = Figure(figsize=(max(7.0, 0.28 * len(plan.planned) + 2), 2.4 * len(rows) + 1))
    grid = figure.subplots(len(rows), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    at = np.arange(len(plan.planned))
    for axes, (name, moved) in zip(grid, rows, strict=True):
        bottom = np.zeros(len(moved))
        for part in ("input", "weight", "output"):
            height = np.array([getattr(t, f"{part}_bytes") for t in moved]) / 2**20
            axes.bar(at, height, bottom=bottom, label=part)
            bottom += height
        axes.set_ylabel("MiB off chip")
        axes.set_title(f"{name}: {bottom.sum():.1f} MiB (modelled)", fontsize=9, loc="left")
    grid[0].legend(fontsize=8, ncols=3, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)  # above all bars
    grid[0].set_xlim(-0.6, len(at) - 0.4)
    grid[-1].set_xticks(at, [plot_label(p.layer.name) for p in plan.planned], rotation=90, fontsize=7)
    save_plot(figure, path)
    return path
