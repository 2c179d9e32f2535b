"""The verb `mavcg explore`: the Pareto front of a space of accelerators, for several networks."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.cli.output import Progress, console, note, print_json
from mavcg.errors import MavcgError


def explore(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL..", help=".onnx or .tflite files, vgg16, resnet50, alexnet, squeezenet, yolov2."),
    ],
    space: Annotated[Path, typer.Option("--space", metavar="FILE", help="The design space, a TOML file.")],
    objective: Annotated[
        str,
        typer.Option(
            metavar="A,B,..",
            help="Less is better of each: latency, area, energy, traffic, bandwidth, frequency; latency:NETWORK is "
            "one network's.",
        ),
    ] = "latency,area,energy",
    no_prune: Annotated[
        bool, typer.Option("--no-prune", help="Plan also points that bounds keep from the front.")
    ] = False,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="N|ADDRESS",
            help="Processes that search (0: this one), or a Dask scheduler, dask://HOST:8786. Without it: this process "
            "for small spaces, else one for each CPU.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the points by the first two objectives, .svg or .png.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", help="Keep all results in an SQLite file, and go on from it.")
    ] = None,
    paper_variant: Annotated[
        bool, typer.Option("--paper-variant", help="Of built-in networks: as the thesis counts them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The front and the counts as JSON.")] = False,
) -> None:
    """Plan networks on every accelerator of a design space, and show those that no other one beats.

    The space: a TOML file whose [accelerator] has the keys of an accelerator's file, each with a value or a list of
    values; docs/exploring.md has them. Figures are the model's; energy and area are by published tables. Interrupted,
    the same command with the same -o goes on.

    \b
    mavcg explore vgg16 resnet50 --space space.toml
    mavcg explore net.onnx --space space.toml --objective latency,area -o net.sqlite --plot front.svg
    mavcg explore vgg16 --space space.toml --workers dask://farm:8786 -o vgg16.sqlite
    mavcg explore vgg16 alexnet --space space.toml --objective latency:vgg16,latency:alexnet,area --json
    """
    from mavcg.explore.exploration import PLANNED
    from mavcg.explore.exploration import explore as explore_space
    from mavcg.explore.objectives import read_objectives
    from mavcg.explore.open_engine import open_engine
    from mavcg.explore.report import exploration_json, show_exploration
    from mavcg.explore.space_file import read_space
    from mavcg.explore.store import ExplorationStore
    from mavcg.explore.workload import workload_of
    from mavcg.planner.accelerators.request import read_layers

    if plot is not None:
        from mavcg.drawing.svg_plots import check_plot, start_plots

        check_plot(plot)
        start_plots()
    names = [Path(model).stem if Path(model).suffix else model for model in models]
    if again := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise MavcgError(f"{again}: is named twice; name each network once, files by different names")
    design = read_space(space)
    objectives = read_objectives(objective, names)
    layers = [read_layers(model, {}, paper_variant) for model in models]
    workload = workload_of(dict(zip(names, layers, strict=True)))
    try:
        with (
            ExplorationStore(output) as store,
            open_engine(workers, design, workload, note) as engine,
            Progress() as progress,
        ):
            result = explore_space(design, workload, objectives, engine, store, not no_prune, progress)
    except KeyboardInterrupt:
        kept = (
            f"; what was found is in {output}: the same command goes on" if output else "; nothing is kept without -o"
        )
        note(f"interrupted{kept}")
        raise typer.Exit(130) from None
    if not result.count(PLANNED):
        note(f"{space}: on none of the {design.points} points all layers have a tiling: larger mem_size would do")
    if plot is not None:
        from mavcg.explore.picture import write_picture

        write_picture(result, plot)
    if as_json:
        print_json(exploration_json(result))
    else:
        show_exploration(result, console())
