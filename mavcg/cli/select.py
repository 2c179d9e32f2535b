"""The verb `mavcg select`: choose a primitive and layouts for each node of a network, or solve a PBQP instance."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.cli.select_options import SelectOptions
from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from rich.console import Console

    from mavcg.choose.algorithms.network import Network
    from mavcg.choose.algorithms.questions import SelectQuestion
    from mavcg.choose.algorithms.select_batch import BatchPlan
    from mavcg.choose.pbqp import Instance, Solution


def run_select(options: SelectOptions) -> None:
    """Choose a primitive and layouts for each convolution so that the whole network, with conversions, costs least.

    Costs are those that `mavcg tune` measured or imported; costs that it did not are modelled, and each figure is
    marked as one or the other. All strategies are shown beside the chosen one: sum2d uses the simplest primitive
    everywhere, a family is used wherever it is faster than sum2d, and local keeps every image in CHW.

    With --instance, it solves a bare PBQP instance: {"nodes": {"a": [1, 2.5], "b": [0, "inf"]}, "edges": [{"from": "a",
    "to": "b", "costs": [[0, 1], ["inf", 0]]}]}. A matrix has a row for each alternative of `from`; "inf" marks a
    forbidden choice.

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
    if options.instance is not None:
        _refuse_beside_instance(options)
        select_instance(options.instance, options.time_limit, options.as_json)
        return
    _select_network(options)


select = command_of("select", SelectOptions, run_select)


def _select_network(options: SelectOptions) -> None:
    """Select primitives and layouts for a network on a board. Raises: MavcgError if one of them is not named."""
    if options.model is None:
        raise MavcgError(
            "select: no network is named; name a model file (.onnx, .tflite or .prototxt), a built-in network, or "
            "--instance FILE.json"
        )
    if options.board is None:
        raise MavcgError(
            f"select {options.model}: no board is named; name a --board (`mavcg cores` lists them; host: this machine)"
        )
    _check_values(options)
    from mavcg.choose.algorithms.questions import SelectQuestion
    from mavcg.hosts.foreign_library import find_foreign
    from mavcg.model.reading import read_network
    from mavcg.model.sizes import parse_shapes

    limit = math.inf if options.max_error is None else options.max_error
    question = SelectQuestion(
        options.strategy,
        options.core,
        limit,
        options.max_workspace,
        options.share_conversions,
        options.db,
        options.time_limit,
        options.threads,
        options.max_arena,
        tuple(map(find_foreign, options.foreign or ())),
    )
    network = read_network(options.model, parse_shapes(options.shape or (), options.ignore_declared_shapes))
    if options.simulate_unsure:
        _simulate_unsure(options, network, options.board)
    if options.per_cluster:
        _select_per_cluster(options.model, network, options.board, question, options.as_json)
    else:
        _select_once(options, options.model, network, options.board, question)


def _refuse_beside_instance(options: SelectOptions) -> None:
    """Raise MavcgError for an option about networks, which has no effect on a bare instance."""
    values = {
        "MODEL": options.model,
        "--board": options.board,
        "--core": options.core,
        "--db": options.db,
        "--plot": options.plot,
        "--shape": options.shape,
        "--ignore-declared-shapes": options.ignore_declared_shapes or None,
        "--max-error": options.max_error,
        "--max-workspace": options.max_workspace,
        "--max-arena": options.max_arena,
        "--simulate-unsure": options.simulate_unsure or None,
        "--per-cluster": options.per_cluster or None,
        "--batch": options.batch,
        "--foreign": options.foreign,
        "--threads": None if options.threads == 1 else options.threads,
    }
    for name, value in values.items():
        if value not in (None, "", []):
            raise MavcgError(f"{name}: has no effect with --instance; leave one of them out")


def _simulate_unsure(options: SelectOptions, network: "Network", board: str) -> None:
    """Simulate the primitives among which the cost model cannot tell the fastest, and keep their costs."""
    from mavcg.lab.tuning.simulated_choices import simulate_unsure
    from mavcg.toolchain.codegen import default_workers

    with Progress() as progress:
        simulate_unsure(
            network,
            board,
            options.core,
            options.db,
            default_workers(),
            note=note,
            progress=lambda number, total, label: progress(f"{number} of {total}: {label}"),
        )


def _check_values(options: SelectOptions) -> None:
    """Raise MavcgError for invalid values, and for options that exclude each other."""
    if options.max_error is not None and not options.max_error >= 0:
        raise MavcgError(f"--max-error {options.max_error}: give 0 or more, such as 1e-5")
    if not options.time_limit > 0:
        raise MavcgError(f"--time-limit {options.time_limit}: give a number of seconds above 0")
    if options.foreign and (options.per_cluster or options.batch is not None):
        raise MavcgError(
            f"--foreign {options.foreign[0]}: cannot be used with --per-cluster or --batch; leave one of them out"
        )
    if options.simulate_unsure and (options.per_cluster or "," in options.core or options.threads > 1):
        raise MavcgError(
            "--simulate-unsure: works with one core and one thread; leave it out, or leave out --per-cluster, "
            "--threads and further cores"
        )
    if options.plot is not None:
        from mavcg.drawing.svg_plots import check_plot

        check_plot(options.plot)
    if options.per_cluster and options.batch is not None:
        raise MavcgError("--batch: cannot be used with --per-cluster; leave one of them out")
    if options.per_cluster and options.plot is not None:
        raise MavcgError("--plot: draws a single selection, and --per-cluster makes several; leave one of them out")


def _select_per_cluster(model: str, network: "Network", board: str, question: "SelectQuestion", as_json: bool) -> None:
    """Print the selection for each cluster of the board, and the selection that serves all of them best."""
    from mavcg.choose.algorithms.report.clusters import board_json, show_board
    from mavcg.choose.algorithms.select_clusters import select_clusters

    selections = select_clusters(model, network, board, question)
    if as_json:
        print_json(board_json(selections))
    else:
        show_board(selections, console())


def _select_once(
    options: SelectOptions, model: str, network: "Network", board: str, question: "SelectQuestion"
) -> None:
    """Print the selection for the board, and its picture; with --batch for the best grouping of the threads."""
    from mavcg.choose.algorithms.report.batch import batch_json, show_batch
    from mavcg.choose.algorithms.report.picture import write_picture
    from mavcg.choose.algorithms.report.report import selection_json, show_selection
    from mavcg.choose.algorithms.select_batch import plan_batch
    from mavcg.choose.algorithms.select_network import select_network, select_on

    plans: tuple[BatchPlan, ...] = ()
    if options.batch is not None:
        plans = plan_batch(network, board, question, options.batch)
        best = plans[0]
        selection = select_on(model, network, board, best.team, replace(question, threads=best.threads_each))
    else:
        selection = select_network(model, network, board, question)
    if options.plot is not None:
        write_picture(selection, options.plot)
        note(f"wrote the speed of each strategy, and the choices, to {options.plot}")
    if options.as_json:
        batch = {"batch": batch_json(plans, options.batch)} if options.batch is not None else {}
        print_json(selection_json(selection) | batch)
        return
    if options.batch is not None:
        show_batch(plans, options.batch, console())
    show_selection(selection, console())


def select_instance(file: Path, time_limit_s: float, as_json: bool) -> None:
    """Solve a bare PBQP instance, and print the choice for each node. Raises: MavcgError for a file that is wrong."""
    from mavcg.choose.pbqp import read_instance, solution_json, solve

    instance = read_instance(file)
    try:
        solution = solve(instance, time_limit_s)
    except MavcgError as error:
        raise MavcgError(f"{file}: {error}") from None
    if as_json:
        print_json(solution_json(solution))
    else:
        _show_solution(instance, solution, console())


def _show_solution(instance: "Instance", solution: "Solution", out: "Console") -> None:
    """Print each node's choice, its cost, and the cost of the edges that end at the node."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("node", "choice", "alternatives", "cost", "cost of edges"):
        table.add_column(title, justify="left" if title == "node" else "right")
    edge_costs = dict.fromkeys(instance.nodes, 0.0)
    for edge in instance.edges:
        edge_costs[edge.target] += float(edge.costs[solution.choice[edge.source], solution.choice[edge.target]])
    for name, costs in instance.nodes.items():
        chosen = solution.choice[name]
        table.add_row(name, str(chosen), str(len(costs)), f"{costs[chosen]:.6g}", f"{edge_costs[name]:.6g}")
    out.print(table)
    proof = "optimal" if solution.optimal else f"at least {solution.lower_bound:.6g}: gap {solution.gap:.2%}"
    out.print(f"\ncost {solution.cost:.6g}, {proof}; {solution.seconds:.3f} s")
    statistics = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in solution.counts.items() if count)
    if statistics:
        out.print(statistics)
