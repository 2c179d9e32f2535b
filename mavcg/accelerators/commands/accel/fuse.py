"""The verb `mavcg accel fuse`: find the operations of a network that should run as one, with their costs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, note, print_json
from mavcg.console.shared_options import (
    AccelTarget,
    CostDatabase,
    DeviceDriver,
    IgnoreDeclaredShapes,
    JsonEverything,
    ModelShapes,
)

if TYPE_CHECKING:
    from mavcg.accelerators.fusion.plan import FusionChoices
    from mavcg.accelerators.target import IsaTarget


@dataclass(frozen=True)
class FuseOptions:
    """The command line of `mavcg accel fuse`."""

    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="An .onnx, .tflite or .prototxt file, or vgg16, resnet50, resnet152, googlenet, squeezenet, "
            "mobilenet_v2, yolo_small.",
        ),
    ]
    target: AccelTarget
    templates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file of fusion templates; default: those of mavcg.")
    ] = None
    search: Annotated[
        str,
        typer.Option(
            help="Search whose groups are listed and drawn: exact, paper (DNNVM's), greedy or none; default exact."
        ),
    ] = "exact"
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the groups as .svg or .png; default: no picture.")
    ] = None
    shape: ModelShapes = None
    ignore_declared_shapes: IgnoreDeclaredShapes = False
    costs: Annotated[
        str,
        typer.Option(
            help="Costs of groups: model (analytic); simulated; learned (from simulations of some groups); or device "
            "(measured); default model."
        ),
    ] = "model"
    cost_db: CostDatabase = None
    driver: DeviceDriver = None
    as_json: JsonEverything = False


def run_fuse(options: FuseOptions) -> None:
    """Find the groups of operations that could run as one, their costs, and the cheapest execution path.

    Groups are embeddings of fusion templates, and connected subgraphs whose tensors all fit on chip. Costs are cycles
    for a run, of an image or a batch, by an analytic model unless --costs names another source. The exact search is
    compared with the paper's (DNNVM, algorithm 2), with greedy fusion, and with no fusion.

    \b
    mavcg accel fuse resnet50.onnx --target zu2
    mavcg accel fuse googlenet --target zu9 --svg googlenet.svg
    mavcg accel fuse vgg16 --target ./mine.toml --search paper --json
    mavcg accel fuse googlenet --target zu2 --costs learned --cost-db costs.sqlite
    mavcg accel fuse squeezenet --target ./mine.toml --costs device --driver ./libdevice.so:/dev/accel0
    """
    from mavcg.accelerators.costs.providers import CostRequest, group_costs
    from mavcg.accelerators.fusion.plan import SEARCHES, choose_fusion
    from mavcg.accelerators.fusion.report import fusion_json, plan_svg
    from mavcg.accelerators.fusion.templates import OURS, read_templates
    from mavcg.accelerators.load import load_xgraph
    from mavcg.accelerators.quantise import with_fixed_radices
    from mavcg.accelerators.target import find_target
    from mavcg.drawing.svg_plots import check_plot, save_drawing
    from mavcg.errors import MavcgError
    from mavcg.model.sizes import parse_shapes

    if options.search not in SEARCHES:
        raise MavcgError(f"--search {options.search}: there is no such search; the searches are {', '.join(SEARCHES)}")
    if options.svg is not None:
        check_plot(options.svg, "--svg")
    isa_target, patterns = find_target(options.target), read_templates(options.templates or OURS)
    with Progress() as progress:
        progress(f"reading {options.model}")
        graph = load_xgraph(
            options.model, isa_target, parse_shapes(options.shape or (), options.ignore_declared_shapes)
        )
        if options.costs != "model":
            graph = with_fixed_radices(graph)
        with group_costs(CostRequest(options.costs, options.cost_db, options.driver), isa_target) as provider:
            choices = choose_fusion(graph, isa_target, patterns, provider, progress=progress)
    if options.svg is not None:
        title = f"{graph.name} on {isa_target.name}: {options.search}"
        save_drawing(plan_svg(graph, choices.plan(options.search), title), options.svg, "--svg")
        note(f"wrote the groups of the {options.search} search to {options.svg}")
    if options.as_json:
        print_json(fusion_json(choices, isa_target, options.model, options.costs))
        return
    _show(choices, isa_target, options.search, options.costs)


fuse = command_of("fuse", FuseOptions, run_fuse)


def _show(choices: "FusionChoices", target: "IsaTarget", search: str, costs: str) -> None:
    from collections import Counter

    from rich.table import Table

    from mavcg.accelerators.fusion.report import accelerated_operations, group_rows, ideal_bytes, path_rows

    out, graph = console(), choices.graph
    templates = Counter(candidate.template for candidate in choices.candidates)
    cpu_nodes = [node.name for node in graph.nodes if node.kind == "host"]
    work = accelerated_operations(graph)
    out.print(
        f"{graph.name} on {target.name}: {templates.pop('single', 0)} operations, {work / 1e9:.3f} GOP; on the "
        f"CPU: {', '.join(cpu_nodes) or 'nothing'}"
    )
    out.print("embeddings: " + (", ".join(f"{count} {name}" for name, count in templates.items()) or "none"))
    table = Table(
        box=None, title=f"Execution paths (costs: {costs}; peak {target.peak_gops:.0f} GOP/s)", title_justify="left"
    )
    for title in ("search", "cycles", "ms", "GOP/s", "of peak", "speed-up", "groups", "MB off chip", "CTC"):
        table.add_column(title, justify="left" if title == "search" else "right")
    rows = path_rows(choices, target)
    base = next((row["cycles"] for row in rows if row["search"] == "none"), 0.0)
    for row in rows:
        table.add_row(
            row["search"],
            f"{row['cycles']:.0f}",
            f"{row['ms']:.3f}",
            f"{row['gops']:.1f}",
            f"{100 * row['utilisation']:.1f} %",
            f"{base / row['cycles']:.3f}" if row["cycles"] else "-",
            str(row["groups"]),
            f"{row['ddr_bytes'] / 1e6:.2f}",
            f"{row['ctc']:.1f}",
        )
    out.print(table)
    out.print(f"CTC (operations for each byte off chip) if all were fused: {work / ideal_bytes(graph):.1f}")
    groups = Table(box=None, title=f"Groups of the {search} search", title_justify="left")
    for title in ("template", "cycles", "MB", "tile h x w x oc", "paper's tile", "nodes"):
        groups.add_column(title, justify="left" if title in ("template", "nodes") else "right", overflow="fold")
    for row in group_rows(choices, search, target):
        tile, paper = row["tile"], row["paper_tile"]
        groups.add_row(
            row["template"],
            f"{row['cycles']:.0f}",
            f"{row.get('ddr_bytes', 0) / 1e6:.3f}",
            "whole" if tile["whole"] else f"{tile['rows']} x {tile['columns']} x {tile['out_ch']}",
            "-" if paper is None else f"{paper['cycles']:.0f} cycles",
            " ".join(row["nodes"]),
        )
    out.print(groups)
