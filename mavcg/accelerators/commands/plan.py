"""The verb `mavcg plan`: plan tilings of a network's layers for a board or an accelerator, and write plans as text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mavcg.accelerators.commands.plan_files import emit_files
from mavcg.accelerators.commands.plan_options import PlanOptions
from mavcg.console.option_class import command_of
from mavcg.console.output import console, note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.accelerators.plans.request import Compared, NetworkPlan, PlanRequest, SpaceSize
    from mavcg.cost.layer import ConvLayer
    from mavcg.hardware.accelerator import Accelerator


def run_plan(options: PlanOptions) -> None:
    """Plan tiles and dataflow of a network's layers, and show their traffic and time by a roofline model.

    For a board, each cluster is planned by itself, with tiles for its outermost cache. Plans are kept, so that the same
    request is answered at once. All figures are modelled, not measured.

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
    if options.check_ir is not None or options.run_ir is not None or options.check_cuda is not None:
        _check_or_run(options)
    else:
        _plan_model(options)


plan = command_of("plan", PlanOptions, run_plan)


def _plan_model(options: PlanOptions) -> None:
    """Plan a network's layers on each machine that the options name, print the plans and write the files."""
    if options.model is None:
        raise MavcgError(
            "plan: no MODEL; name an .onnx, .tflite or .prototxt file or a built-in network, or --check-ir FILE"
        )
    from mavcg.accelerators.plans.report import plan_json
    from mavcg.accelerators.plans.request import (
        PlanRequest,
        compare,
        floors,
        plan_network,
        read_graph,
        read_layers,
        space_of,
    )
    from mavcg.model.sizes import parse_shapes

    model, shapes = options.model, parse_shapes(options.shape or (), options.ignore_declared_shapes)
    request = PlanRequest(
        options.search,
        options.metric,
        options.halo,
        options.double_buffer,
        options.full_grid,
        not options.no_cache,
        options.levels,
        options.paper_variant,
    )
    layers = _choose_layers(read_layers(model, shapes, options.paper_variant), options.layer, model)
    if options.cuda_type is not None and options.emit_cuda is None:
        raise MavcgError(f"--cuda-type {options.cuda_type}: is for --emit-cuda DIR; add it, or leave --cuda-type out")
    machines = _machines(options.board, options.accelerator)
    graph = None if options.layer is not None else lambda: read_graph(model, shapes, options.paper_variant)
    if options.emit_cuda is not None:
        from mavcg.accelerators.commands.plan_files import emit_folder
        from mavcg.profiles.gpus import gpu_names

        gpu = next((name for name in (options.board, options.accelerator) if name in gpu_names()), None)
        emit_folder(
            model,
            layers,
            gpu,
            graph,
            lambda: plan_network(layers, machines[0][0], request, ""),
            options.emit_cuda,
            options.cuda_type,
            options.as_json,
        )
        return
    plans = [plan_network(layers, machine, request, machine.name, assumed) for machine, assumed in machines]
    first = plans[0]
    space = space_of(layers, first.accelerator)
    compared, left_out = compare(first, options.metric) if options.baselines or options.plot is not None else ((), {})
    for name, why in left_out.items():
        note(f"{name} is left out of the comparison: {why}")
    lower_bounds = floors(first) if options.baselines else None
    if options.emit_ir is not None or options.emit_c is not None:
        emit_files(first, options.emit_ir, options.emit_c, graph)
    if options.plot is not None:
        from mavcg.accelerators.plans.pictures import write_pictures

        pictures = write_pictures(first, compared, options.plot)
        note(f"{len(pictures)} pictures in {pictures[0].parent}")
    accelerators = [machine for machine, _ in machines]
    if options.as_json:
        baselines = compared if options.baselines else ()
        print_json(plan_json(model, request, plans, accelerators, space, baselines, lower_bounds))
        return
    _show(request, plans, accelerators, space, compared, lower_bounds)


def _show(
    request: "PlanRequest",
    plans: "Sequence[NetworkPlan]",
    accelerators: "Sequence[Accelerator]",
    space: "SpaceSize",
    compared: "Sequence[Compared]",
    lower_bounds: tuple[int, int] | None,
) -> None:
    """Print the plan for each machine, the size of the search space, and with --baselines the comparison."""
    from mavcg.accelerators.plans.report import show_compared, show_levels, show_plan, show_space

    out = console()
    for plan_of_machine, accelerator in zip(plans, accelerators, strict=True):
        show_plan(plan_of_machine, request, out)
        if request.levels:
            show_levels(plan_of_machine, accelerator, out)
    show_space(space, out)
    if lower_bounds is not None:
        show_compared(plans[0], compared, lower_bounds, request, out)


def _choose_layers(layers: "Sequence[ConvLayer]", name: str | None, model: str) -> "Sequence[ConvLayer]":
    """Return the layer of this name, or all layers for None. Raises: MavcgError for an unknown name."""
    if name is None:
        return layers
    chosen = [layer for layer in layers if layer.name == name]
    if not chosen:
        import difflib

        names = [layer.name for layer in layers]
        near = difflib.get_close_matches(name, names, n=3) or names[:5]
        raise MavcgError(f"--layer {name}: {model} has no such layer; it has {', '.join(near)}, ..")
    return chosen


def _machines(board: str | None, accelerator: str | None) -> "list[tuple[Accelerator, tuple[str, ...]]]":
    """Return the machines to plan for, each with what is assumed of it.

    They are the accelerator, a GPU, or each different cluster of the board, the fastest first. Raises: MavcgError.
    """
    if (board is None) == (accelerator is None):
        raise MavcgError("plan: name one machine: --board B (`mavcg cores` lists them) or --accelerator X")
    from mavcg.profiles.gpus import gpu_names, load_gpu

    name = board if board is not None else accelerator
    if name is not None and name in gpu_names():
        from mavcg.accelerators.plans.machines import block_machine, machine_assumptions

        gpu = load_gpu(name)
        return [(block_machine(gpu), machine_assumptions(gpu))]
    if accelerator is not None:
        from mavcg.profiles.accelerators import find_accelerator

        return [(find_accelerator(accelerator), ())]
    from mavcg.accelerators.plans.machines import core_accelerator
    from mavcg.cost.board_model import core_models
    from mavcg.hardware.board import HOST
    from mavcg.hosts.host import find_board, measured_host_board

    assert board is not None
    planned = measured_host_board() if board == HOST else find_board(board)
    different = {core_accelerator(planned.name, core): core.assumed for core in reversed(core_models(planned))}
    return sorted(different.items(), key=lambda item: -item[0].peak_gmac_per_s)


def _check_or_run(options: PlanOptions) -> None:
    """Carry out --check-ir, --run-ir or --check-cuda. Raises: MavcgError for options about planning."""
    flags = {
        "--halo": options.halo,
        "--double-buffer": options.double_buffer,
        "--full-grid": options.full_grid,
        "--levels": options.levels,
        "--baselines": options.baselines,
        "--ignore-declared-shapes": options.ignore_declared_shapes,
    }
    planning: dict[str, object] = {
        "MODEL": options.model,
        "--board": options.board,
        "--accelerator": options.accelerator,
        "--layer": options.layer,
        "--shape": options.shape,
        "--emit-ir": options.emit_ir,
        "--emit-c": options.emit_c,
        "--emit-cuda": options.emit_cuda,
        "--cuda-type": options.cuda_type,
        "--plot": options.plot,
        **{flag: is_given or None for flag, is_given in flags.items()},
    }
    check, run = options.check_ir, options.run_ir
    if options.check_cuda is not None:
        from mavcg.accelerators.commands.plan_files import check_folder

        check_folder(options.check_cuda, planning | {"--check-ir": check, "--run-ir": run}, options.as_json)
        return
    if check is not None and run is not None:
        raise MavcgError("--check-ir: --run-ir is given too, which also checks; leave one of them out")
    option, path = ("--check-ir", check) if check is not None else ("--run-ir", run)
    for name, value in planning.items():
        if value is not None:
            raise MavcgError(f"{option} {path}: the file contains the plan; leave out {name}")
    from mavcg.accelerators.plans.text_files import check_file, run_file, show_runs

    if check is not None:
        plans = check_file(check)
        if options.as_json:
            print_json({"file": str(check), "layers": plans})
        else:
            console().print(f"{check}: {len(plans)} plans checked, no fault found")
    elif run is not None:
        runs = run_file(run)
        if options.as_json:
            print_json({"file": str(run), "layers": runs})
        else:
            show_runs(runs, console())
