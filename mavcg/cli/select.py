"""The verb `mavcg select`: a primitive and a layout for every node of a network, or the optimum of a bare instance."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.cli.output import console, note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from rich.console import Console

    from mavcg.selection.network import Network
    from mavcg.selection.pbqp import Instance, Solution
    from mavcg.selection.select_batch import BatchPlan

TIME_LIMIT_S = 60.0  # as selection.strategies has it, which the command line loads late


def select(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="An .onnx, .tflite or .prototxt file, or vgg16, resnet50, alexnet, squeezenet, yolov2.",
        ),
    ] = None,
    board: Annotated[str | None, typer.Option(metavar="B", help="Select for it; `host`: this machine.")] = None,
    strategy: Annotated[str, typer.Option(help="pbqp, local, sum2d or family:NAME.")] = "pbqp",
    core: Annotated[
        str, typer.Option(metavar="CORE", help="Core type of the board, or several with commas; default: its fastest.")
    ] = "",
    threads: Annotated[
        int, typer.Option(metavar="N", help="Number of threads, each on a core of its own, the fastest first.")
    ] = 1,
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Select for a batch: all threads on one image after the other, or groups of threads.",
        ),
    ] = None,
    per_cluster: Annotated[
        bool, typer.Option("--per-cluster", help="Show what each cluster would choose, and the one choice for all.")
    ] = False,
    db: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Database of costs from `mavcg tune`; default: this user's.")
    ] = None,
    simulate_unsure: Annotated[
        bool,
        typer.Option(
            "--simulate-unsure",
            help="On AArch64 boards: first simulate the primitives among which the model cannot tell the fastest.",
        ),
    ] = False,
    max_error: Annotated[
        float | None,
        typer.Option(metavar="E", help="Exclude primitives with a larger error, relative to the largest sum."),
    ] = None,
    max_workspace: Annotated[
        int | None,
        typer.Option(metavar="BYTES", min=0, help="Exclude primitives that need more memory beside their operands."),
    ] = None,
    max_arena: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES", min=0, help="Limit images live at the same time, with conversions and workspace."
        ),
    ] = None,
    share_conversions: Annotated[
        bool, typer.Option("--share-conversions", help="Count a conversion that several nodes read once, not for each.")
    ] = False,
    foreign: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=PATH]",
            help="Also offer the sgemm of a library here: openblas, or a CBLAS by its path.",
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=1x3x224x224", help="Shape of a model's input with free dimensions."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the speed of each strategy and the choices, as .svg or .png."),
    ] = None,
    instance: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Solve this PBQP instance: costs of nodes, and of pairs along edges."),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(metavar="S", help="Seconds for the search; after that, the best choice so far and its gap.")
    ] = TIME_LIMIT_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Choose a primitive and layouts for each convolution so that the whole network, conversions counted, costs least.

    Costs are those that `mavcg tune` measured or imported, else modelled; every figure says which. Beside the chosen
    strategy all others are shown: sum2d is the plainest primitive, a family is used wherever it is faster than that,
    local keeps every image in CHW.

    Or choose for a bare instance: {"nodes": {"a": [1, 2.5], "b": [0, "inf"]}, "edges": [{"from": "a", "to": "b",
    "costs": [[0, 1], ["inf", 0]]}]}: a matrix has a row for each alternative of `from`; "inf" is forbidden.

    \b
    mavcg select vgg16 --board exynos9820
    mavcg select mobilenet_v2.onnx --board host --max-error 2e-5 --plot strategies.svg
    mavcg select resnet50 --board rk3588 --core cortex-a55 --strategy family:winograd --json
    mavcg select squeezenet --board exynos9820 --threads 4 --max-arena 6000000
    mavcg select alexnet --board exynos9820 --per-cluster
    mavcg select squeezenet --board exynos9820 --core cortex-a55 --simulate-unsure --json
    mavcg select resnet50 --board rk3588 --threads 4 --batch 16
    mavcg select squeezenet --board host --foreign openblas
    mavcg select --instance network.json --time-limit 1 --json
    """
    if instance is not None:
        given = {"MODEL": model, "--board": board, "--core": core, "--db": db, "--plot": plot, "--shape": shape,
                 "--max-error": max_error, "--max-workspace": max_workspace, "--max-arena": max_arena,
                 "--simulate-unsure": simulate_unsure or None,
                 "--per-cluster": per_cluster or None, "--batch": batch, "--foreign": foreign,
                 "--threads": None if threads == 1 else threads}  # fmt: skip
        for name, value in given.items():
            if value not in (None, "", []):
                raise MavcgError(f"{name}: has no effect on an instance; leave it or --instance out")
        _select_instance(instance, time_limit, as_json)
        return
    if model is None:
        raise MavcgError(
            "select: nothing to choose for; name a model file (.onnx, .tflite or .prototxt), a built-in network, or "
            "--instance FILE.json"
        )
    if board is None:
        raise MavcgError(
            f"select {model}: for no machine; name a --board (`mavcg cores` lists them, `host` is this one)"
        )
    if max_error is not None and not max_error >= 0:
        raise MavcgError(f"--max-error {max_error}: give 0 or more, such as 1e-5")
    if not time_limit > 0:
        raise MavcgError(f"--time-limit {time_limit}: give a number of seconds above 0")
    from mavcg.drawing.svg_plots import check_plot
    from mavcg.hosts.foreign_library import find_foreign
    from mavcg.model_pipeline.sizes import parse_shapes
    from mavcg.selection.report.picture import write_picture
    from mavcg.selection.report.report import selection_json, show_selection
    from mavcg.selection.select_network import SelectQuestion, read_network, select_network

    if foreign and (per_cluster or batch is not None):
        raise MavcgError(f"--foreign {foreign[0]}: is for one selection; leave it, or --per-cluster and --batch, out")
    if plot is not None:
        check_plot(plot)
    limit = math.inf if max_error is None else max_error
    question = SelectQuestion(
        strategy, core, limit, max_workspace, share_conversions, db, time_limit, threads, max_arena,
        tuple(map(find_foreign, foreign or ())),
    )  # fmt: skip
    network = read_network(model, parse_shapes(shape or ()))
    if simulate_unsure:
        if per_cluster or "," in core or threads > 1:
            raise MavcgError(
                "--simulate-unsure: is for one core and one thread; leave it, or --per-cluster, --threads and further "
                "cores, out"
            )
        _simulate_unsure(network, board, core, db)
    if per_cluster:
        if batch is not None:
            raise MavcgError("--batch: is for one number of threads; leave it or --per-cluster out")
        if plot is not None:
            raise MavcgError("--plot: pictures are of one selection; leave it or --per-cluster out")
        from mavcg.selection.report.clusters import board_json, show_board
        from mavcg.selection.select_clusters import select_clusters

        whole = select_clusters(model, network, board, question)
        if as_json:
            print_json(board_json(whole))
        else:
            show_board(whole, console())
        return
    plans: tuple[BatchPlan, ...] = ()
    if batch is not None:
        from mavcg.selection.report.batch import batch_json, show_batch
        from mavcg.selection.select_batch import plan_batch
        from mavcg.selection.select_network import select_on

        plans = plan_batch(network, board, question, batch)
        found = select_on(model, network, board, plans[0].team, replace(question, threads=plans[0].threads_each))
    else:
        found = select_network(model, network, board, question)
    if plot is not None:
        write_picture(found, plot)
        note(f"{plot}: how fast each strategy is, and what was chosen where")
    if as_json:
        print_json(selection_json(found) | ({"batch": batch_json(plans, batch)} if batch is not None else {}))
        return
    if batch is not None:
        show_batch(plans, batch, console())
    show_selection(found, console())


def _simulate_unsure(network: "Network", board: str, core: str, db: Path | None) -> None:
    from mavcg.cli.output import Progress
    from mavcg.runners.simulated_choices import simulate_unsure
    from mavcg.toolchain.codegen import default_workers

    with Progress() as progress:
        simulate_unsure(
            network, board, core, db, default_workers(), note=note,
            progress=lambda number, total, words: progress(f"{number} of {total}: {words}"),
        )  # fmt: skip


def _select_instance(file: Path, time_limit_s: float, as_json: bool) -> None:
    """Solve a bare instance; no network or board is read."""
    from mavcg.selection.pbqp import read_instance, solution_json, solve

    instance = read_instance(file)
    try:
        solution = solve(instance, time_limit_s)
    except MavcgError as error:
        raise MavcgError(f"{file}: {error}") from None
    if as_json:
        print_json(solution_json(solution))
    else:
        _show(instance, solution, console())


def _show(instance: "Instance", solution: "Solution", out: "Console") -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("node", "choice", "of", "its cost", "edges' cost"):
        table.add_column(title, justify="left" if title == "node" else "right")
    paid = dict.fromkeys(instance.nodes, 0.0)
    for edge in instance.edges:
        paid[edge.target] += float(edge.costs[solution.choice[edge.source], solution.choice[edge.target]])
    for name, costs in instance.nodes.items():
        chosen = solution.choice[name]
        table.add_row(name, str(chosen), str(len(costs)), f"{costs[chosen]:.6g}", f"{paid[name]:.6g}")
    out.print(table)
    proof = "optimal" if solution.optimal else f"at least {solution.lower_bound:.6g}: gap {solution.gap:.2%}"
    out.print(f"\ncost {solution.cost:.6g}, {proof}; {solution.seconds:.3f} s")
    made = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in solution.counts.items() if count)
    if made:
        out.print(made)
