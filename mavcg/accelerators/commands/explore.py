"""The verb `mavcg explore`: find the Pareto front of a design space of machines, for several networks."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, note, print_json
from mavcg.console.shared_options import IgnoreDeclaredShapes, Insecure
from mavcg.errors import MavcgError
from mavcg.importers.declared_shapes import GivenShapes

if TYPE_CHECKING:
    from rich.console import Console

    from mavcg.accelerators.explore.pareto import ObjectiveNames
    from mavcg.accelerators.explore.point_exploration import PointExploration

INTERRUPTED = 130  # exit status after Ctrl-C, as shells report it


@dataclass(frozen=True)
class ExploreOptions:
    """The command line of `mavcg explore`."""

    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL..", help=".onnx or .tflite files, or vgg16, resnet50, alexnet, squeezenet, yolov2."
        ),
    ]
    space: Annotated[Path, typer.Option("--space", metavar="FILE", help="TOML file of the design space.")]
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,..",
            help="Objectives to minimise, with commas. For [accelerator]: latency, area, energy, traffic, bandwidth, "
            "frequency; default latency,area,energy. For [target]: these, macs and memory; default "
            "latency,macs,memory. For [board]: latency, energy, power, cores, cache, bandwidth; default "
            "latency,energy,power. latency:NETWORK is the latency of one network.",
        ),
    ] = None
    no_prune: Annotated[
        bool,
        typer.Option("--no-prune", help="Also plan points that cannot be on the front, as bounds on them prove."),
    ] = False
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="N|ADDRESS",
            help="Number of processes that search (0: none but this one), or the address of a scheduler of `mavcg farm "
            "serve`, tls://HOST:8786; default: this process for small spaces, else one for each CPU.",
        ),
    ] = None
    insecure: Insecure = False
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the points by the first two objectives, as .svg or .png."),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("-o", metavar="FILE", help="SQLite file that keeps all results, to continue from them."),
    ] = None
    paper_variant: Annotated[
        bool,
        typer.Option(
            "--paper-variant",
            help="Use built-in networks with the layers that the thesis counts, and time layers as it does, with all "
            "processing elements busy.",
        ),
    ] = False
    ignore_declared_shapes: IgnoreDeclaredShapes = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the front and the counts as JSON.")] = False


def run_explore(options: ExploreOptions) -> None:
    """Plan networks on every machine of a design space, and show its Pareto front: machines that no other one beats.

    The design space is a TOML file with one of three tables, whose keys have a value or a list of values each (see
    docs/exploring.md). [accelerator] has the keys of an accelerator's file: networks are planned, and energy and area
    come from published tables. [target] has the keys of a target of `mavcg accel`: programs are generated and
    simulated. [board] has mixes of cores, clocks and caches: latencies are predicted. All figures are modelled. After
    an interruption, the same command with the same -o continues.

    \b
    mavcg explore vgg16 resnet50 --space space.toml
    mavcg explore net.onnx --space space.toml --objective latency,area -o net.sqlite --plot front.svg
    mavcg explore vgg16 --space space.toml --workers tls://farm:8786 -o vgg16.sqlite
    mavcg explore vgg16 alexnet --space space.toml --objective latency:vgg16,latency:alexnet,area --json
    """
    from mavcg.accelerators.explore.board_space import is_board_space
    from mavcg.accelerators.explore.target_space import is_target_space

    if options.plot is not None:
        from mavcg.drawing.svg_plots import check_plot, start_plots

        check_plot(options.plot)
        start_plots()
    names = [Path(model).stem if Path(model).suffix else model for model in options.models]
    if repeated := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise MavcgError(f"{repeated}: is named twice; name each network once, and give files different names")
    models, output = dict(zip(names, options.models, strict=True)), options.output
    explore_space: Callable[[ExploreOptions, dict[str, str]], _Explored] = _explore_accelerators
    if is_target_space(options.space) or is_board_space(options.space):
        if options.paper_variant:
            raise MavcgError("--paper-variant: is for spaces with [accelerator]; leave it out")
        kind = _boards() if is_board_space(options.space) else _targets()
        explore_space = partial(_explore_points, kind)
    try:
        document, show = explore_space(options, models)
    except KeyboardInterrupt:
        hint = f"results are in {output}, and the same command continues" if output else "nothing is kept without -o"
        note(f"interrupted; {hint}")
        raise typer.Exit(INTERRUPTED) from None
    if options.as_json:
        print_json(document)
    else:
        show(console())


explore = command_of("explore", ExploreOptions, run_explore)


# The document of --json, and a function that prints the report. Each exploration takes the networks by name: files, or
# built-in networks.
_Explored = tuple[dict[str, Any], "Callable[[Console], None]"]


def _explore_accelerators(options: ExploreOptions, models: dict[str, str]) -> _Explored:
    """Explore accelerators with the planner. Returns: the document of --json, and a function that prints the report."""
    from mavcg.accelerators.explore.exploration import PLANNED, explore
    from mavcg.accelerators.explore.objectives import DEFAULT_OBJECTIVES, read_objectives
    from mavcg.accelerators.explore.report import exploration_json, show_exploration, write_picture
    from mavcg.accelerators.explore.space_file import read_space
    from mavcg.accelerators.explore.store import ExplorationStore
    from mavcg.accelerators.explore.workload import workload_of
    from mavcg.accelerators.plans.request import read_layers
    from mavcg.accelerators.plans.schedule_cache import fingerprint
    from mavcg.lab.jobs.open_engine import FEW_SEARCHES, open_engine

    space = read_space(options.space)
    objectives = read_objectives(options.objective or DEFAULT_OBJECTIVES, tuple(models))
    shapes = GivenShapes(ignore_declared=options.ignore_declared_shapes)
    workload = workload_of({name: read_layers(model, shapes, options.paper_variant) for name, model in models.items()})
    is_small = space.structures * len(workload.layers) <= FEW_SEARCHES
    with (
        ExplorationStore(options.output) as store,
        open_engine(options.workers, is_small, note, fingerprint, options.insecure) as engine,
        Progress() as progress,
    ):
        result = explore(
            space, workload, objectives, engine, store, not options.no_prune, progress, options.paper_variant
        )
    if not result.count(PLANNED):
        note(f"{options.space}: on none of the {space.points} points does each layer have a tiling; raise mem_size")
    if options.plot is not None:
        write_picture(result, options.plot)
    return exploration_json(result), partial(show_exploration, result)


class _PointKind(NamedTuple):
    """Points on which networks are predicted or simulated one by one.

    objectives: by default, of `names`. digest: of what results depend on. nothing: what to say if no point is possible.
    """

    read_space: Callable[[Path], Any]
    count_points: Callable[[Any], int]
    objectives: str
    names: "ObjectiveNames"
    explore: Callable[..., "PointExploration[Any, Any]"]
    document: Callable[[Any], dict[str, Any]]
    show: Callable[[Any, "Console"], None]
    draw: Callable[[Any, Path], None]
    digest: Callable[[], str]
    nothing: Callable[[Any], str]


def _boards() -> _PointKind:
    from mavcg.accelerators.explore.board_exploration import DEFAULT_OBJECTIVES, OBJECTIVES, explore_boards
    from mavcg.accelerators.explore.board_space import read_board_space
    from mavcg.accelerators.explore.point_reports import board_exploration_json, draw_boards, show_board_exploration
    from mavcg.lab.jobs.sources_digest import compiler_digest

    return _PointKind(
        read_board_space,
        lambda space: sum(1 for _ in space.boards()),
        DEFAULT_OBJECTIVES,
        OBJECTIVES,
        explore_boards,
        board_exploration_json,
        show_board_exploration,
        draw_boards,
        compiler_digest,
        lambda space: f"no board runs all networks within {space.budget_w:g} W; give a larger budget_w",
    )


def _targets() -> _PointKind:
    from mavcg.accelerators.explore.point_reports import draw_targets, show_target_exploration, target_exploration_json
    from mavcg.accelerators.explore.target_exploration import DEFAULT_OBJECTIVES, OBJECTIVES, explore_targets
    from mavcg.accelerators.explore.target_space import read_target_space
    from mavcg.accelerators.plans.schedule_cache import fingerprint

    return _PointKind(
        read_target_space,
        lambda space: int(space.points),
        DEFAULT_OBJECTIVES,
        OBJECTIVES,
        explore_targets,
        target_exploration_json,
        show_target_exploration,
        draw_targets,
        fingerprint,
        lambda space: f"on none of the {space.points} targets do all nodes fit; give larger buffers",
    )


def _explore_points(kind: _PointKind, options: ExploreOptions, models: dict[str, str]) -> _Explored:
    """Explore boards or targets. Returns: the document of --json, and a function that prints the report."""
    from mavcg.accelerators.explore.pareto import read_objective_words
    from mavcg.accelerators.explore.store import ExplorationStore
    from mavcg.lab.jobs.open_engine import FEW_TASKS, open_engine

    space = kind.read_space(options.space)
    objectives = read_objective_words(options.objective or kind.objectives, tuple(models), kind.names)
    is_small = kind.count_points(space) * len(models) <= FEW_TASKS
    with (
        ExplorationStore(options.output) as store,
        open_engine(options.workers, is_small, note, kind.digest, options.insecure) as engine,
        Progress() as progress,
    ):
        shapes = GivenShapes(ignore_declared=options.ignore_declared_shapes)
        result = kind.explore(space, models, objectives, engine, store, not options.no_prune, progress, shapes)
    if not result.figures:
        note(f"{options.space}: {kind.nothing(space)}")
    if options.plot is not None:
        kind.draw(result, options.plot)
    return kind.document(result), partial(kind.show, result)
