"""The verb `mavcg plan`: tilings of a network's layers for a board or an accelerator, and plans as text."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.cli.output import console, note, print_json
from mavcg.cli.plan_c import emit_files
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.hardware.accelerator import Accelerator
    from mavcg.planner.layer_model.layer import ConvLayer


def plan(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="An .onnx, .tflite or .prototxt file, or vgg16, resnet50, alexnet, squeezenet, yolov2.",
        ),
    ] = None,
    board: Annotated[
        str | None, typer.Option(metavar="B", help="Plan for its clusters, or for a GPU; `host`: this machine.")
    ] = None,
    accelerator: Annotated[
        str | None, typer.Option(metavar="X", help="Or for an accelerator: a name, such as setup-a, or a JSON file.")
    ] = None,
    search: Annotated[str, typer.Option(help="exact, pruned (the paper's) or exhaustive.")] = "exact",
    metric: Annotated[
        str, typer.Option(help="performance-per-access, latency, traffic or energy.")
    ] = "performance-per-access",
    halo: Annotated[
        bool, typer.Option("--halo", help="Exact search: count what two neighbouring tiles both read.")
    ] = False,
    double_buffer: Annotated[
        bool, typer.Option("--double-buffer", help="Exact search: reserve memory for two tiles of each operand.")
    ] = False,
    full_grid: Annotated[bool, typer.Option("--full-grid", help="Exact search: allow tiles of any size.")] = False,
    levels: Annotated[
        bool, typer.Option("--levels", help="Also tiles within tiles, for every level of the machine's memory.")
    ] = False,
    paper_variant: Annotated[
        bool, typer.Option("--paper-variant", help="Take a built-in network as the thesis counts it.")
    ] = False,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=1x3x224x224", help="Shape of a model's input with free dimensions."),
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Compare with the planners Zhang, Ma, Smart-Shuttle and lower bounds.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|FILE",
            help="Rooflines and traffic as SVG files in a folder; or the traffic as FILE, .svg or .png, with the "
            "rooflines beside it.",
        ),
    ] = None,
    emit_ir: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the plan as text.")] = None,
    emit_c: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan as C: of a --layer, or of the network.")
    ] = None,
    emit_cuda: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write CUDA C++: a GPU's kernels, or an accelerator's plan.")
    ] = None,
    cuda_type: Annotated[
        str | None, typer.Option(metavar="T", help="With --emit-cuda: f32, f16 or i8; default: the model's types.")
    ] = None,
    layer: Annotated[str | None, typer.Option(metavar="NAME", help="This layer alone.")] = None,
    check_ir: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Verify a plan's text; nothing is planned.")
    ] = None,
    run_ir: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run a plan's text on seeded integers, count its bytes.")
    ] = None,
    check_cuda: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Run the kernels of --emit-cuda by emulation; nothing is planned."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Search again, and keep nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Plan tiles, dataflow and traffic of a network's layers by a roofline model.

    For a board: each cluster by itself, tiles for its outermost cache. Plans are kept: the same request is answered
    at once. Every figure is the model's.

    \b
    mavcg plan vgg16 --accelerator setup-a --baselines
    mavcg plan mobilenet_v2.onnx --board exynos9820 --levels
    mavcg plan resnet50 --paper-variant --accelerator setup-a --search pruned --plot pictures
    mavcg plan vgg16 --accelerator setup-b --layer conv3_1 --emit-ir conv3_1.plan
    mavcg plan --check-ir conv3_1.plan
    mavcg plan --run-ir conv3_1.plan --json
    mavcg plan squeezenet --accelerator setup-a --emit-c squeezenet.c
    mavcg plan resnet50 --board jetson-tx2 --emit-cuda kernels
    mavcg plan --check-cuda kernels
    """
    if check_ir is not None or run_ir is not None or check_cuda is not None:
        flags = {"--halo": halo, "--double-buffer": double_buffer, "--full-grid": full_grid, "--levels": levels}
        given = {
            "MODEL": model, "--board": board, "--accelerator": accelerator, "--layer": layer, "--shape": shape,
            "--emit-ir": emit_ir, "--emit-c": emit_c, "--emit-cuda": emit_cuda, "--cuda-type": cuda_type,
            "--plot": plot, "--baselines": baselines or None,
            **{flag: on or None for flag, on in flags.items()},
        }  # fmt: skip
        if check_cuda is not None:
            from mavcg.cli.plan_cuda import check_folder

            check_folder(check_cuda, {**given, "--check-ir": check_ir, "--run-ir": run_ir}, as_json)
        else:
            _plan_text(check_ir, run_ir, given, as_json)
        return
    if model is None:
        raise MavcgError(
            "plan: no MODEL; name an .onnx, .tflite or .prototxt file or a built-in network, or --check-ir FILE"
        )
    from mavcg.model_pipeline.sizes import parse_shapes
    from mavcg.planner.accelerators.report import plan_json, show_compared, show_levels, show_plan, show_space
    from mavcg.planner.accelerators.request import (
        PlanRequest,
        compare,
        floors,
        plan_network,
        read_graph,
        read_layers,
        space_of,
    )

    request = PlanRequest(search, metric, halo, double_buffer, full_grid, not no_cache, levels)
    layers = _choose_layers(read_layers(model, parse_shapes(shape or ()), paper_variant), layer, model)
    if cuda_type is not None and emit_cuda is None:
        raise MavcgError(f"--cuda-type {cuda_type}: is for --emit-cuda DIR; name one, or leave it out")
    machines = _machines(board, accelerator)
    if emit_cuda is not None:
        from mavcg.cli.plan_cuda import emit_folder
        from mavcg.profiles.gpus import gpu_names

        gpu = next((name for name in (board, accelerator) if name in gpu_names()), None)
        shapes = parse_shapes(shape or ())
        graph = None if layer is not None else lambda: read_graph(model, shapes, paper_variant)
        plan = lambda: plan_network(layers, machines[0][0], request, "")  # noqa: E731
        emit_folder(model, layers, gpu, graph, plan, emit_cuda, cuda_type, as_json)
        return
    plans = [plan_network(layers, machine, request, machine.name, assumed) for machine, assumed in machines]
    first = plans[0]
    space = space_of(layers, first.accelerator)
    compared, left_out = compare(first, metric) if baselines or plot is not None else ((), {})
    for name, why in left_out.items():
        note(f"{name} is left out of the comparison: {why}")
    least = floors(first) if baselines else None
    if emit_ir is not None or emit_c is not None:
        shapes = parse_shapes(shape or ())
        emit_files(
            first, emit_ir, emit_c, None if layer is not None else lambda: read_graph(model, shapes, paper_variant)
        )
    if plot is not None:
        from mavcg.planner.accelerators.pictures import write_pictures

        written = write_pictures(first, compared, plot)
        note(f"{len(written)} pictures in {written[0].parent}")
    if as_json:
        print_json(
            plan_json(model, request, plans, [m for m, _ in machines], space, compared if baselines else (), least)
        )
        return
    out = console()
    for one, (machine, _) in zip(plans, machines, strict=True):
        show_plan(one, request, out)
        if levels:
            show_levels(one, machine, out)
    show_space(space, out)
    if least is not None:
        show_compared(first, compared, least, request, out)


def _choose_layers(layers: "Sequence[ConvLayer]", name: str | None, model: str) -> "Sequence[ConvLayer]":
    if name is None:
        return layers
    found = [one for one in layers if one.name == name]
    if not found:
        import difflib

        names = [one.name for one in layers]
        near = difflib.get_close_matches(name, names, n=3) or names[:5]
        raise MavcgError(f"--layer {name}: {model} has no such layer; it has {', '.join(near)}, ..")
    return found


def _machines(board: str | None, accelerator: str | None) -> "list[tuple[Accelerator, tuple[str, ...]]]":
    """Return the accelerator; or each different cluster of the board, the fastest first, with the assumptions about
    it.
    """
    if (board is None) == (accelerator is None):
        raise MavcgError("plan: name one machine: --board B (`mavcg cores` lists them) or --accelerator X")
    from mavcg.profiles.gpus import gpu_names, load_gpu

    named = board if board is not None else accelerator
    if named is not None and named in gpu_names():
        from mavcg.planner.gpu.block_machine import block_machine, machine_assumptions

        gpu = load_gpu(named)
        return [(block_machine(gpu), machine_assumptions(gpu))]
    if accelerator is not None:
        from mavcg.profiles.accelerators import find_accelerator

        return [(find_accelerator(accelerator), ())]
    from mavcg.cost_model.board_machine import cluster_machines
    from mavcg.hosts.host import HOST, find_board, measured_host_board

    assert board is not None
    found = cluster_machines(measured_host_board() if board == HOST else find_board(board))
    different = {machine.accelerator: machine.assumed for machine in reversed(found)}
    return sorted(different.items(), key=lambda item: -item[0].peak_gmac_per_s)


def _plan_text(check: Path | None, run: Path | None, given: dict[str, Any], as_json: bool) -> None:
    """Run --check-ir and --run-ir."""
    option, path = ("--check-ir", check) if check is not None else ("--run-ir", run)
    assert path is not None
    if check is not None and run is not None:
        raise MavcgError("--check-ir: and --run-ir, which checks as well; name one of them")
    for other, value in given.items():
        if value is not None:
            raise MavcgError(f"{option} {path}: has its plan in it; leave out {other}")
    from mavcg.planner.accelerators.text_files import check_file, run_file, show_runs

    if check is not None:
        found = check_file(path)
        if as_json:
            print_json({"file": str(path), "layers": found})
        else:
            console().print(f"{path}: {len(found)} plans checked, no fault found")
        return
    runs = run_file(path)
    if as_json:
        print_json({"file": str(path), "layers": runs})
    else:
        show_runs(runs, console())
