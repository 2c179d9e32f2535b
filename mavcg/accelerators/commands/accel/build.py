"""The verb `mavcg accel build`: compile a neural network to a program for an accelerator."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, note, print_json
from mavcg.console.shared_options import (
    AccelProgramOutput,
    AccelTarget,
    CaffeWeights,
    CostDatabase,
    DeviceDriver,
    IgnoreDeclaredShapes,
    InputShapes,
    JsonReport,
)
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.accelerators.build import BuiltProgram


@dataclass(frozen=True)
class AccelBuildOptions:
    """The command line of `mavcg accel build`."""

    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="An .onnx, .tflite or .prototxt file, or a built-in network.")
    ]
    target: AccelTarget
    output: AccelProgramOutput
    search: Annotated[
        str,
        typer.Option(
            help="Search for groups of nodes to fuse: exact, paper (DNNVM's), greedy, or none (each node by itself); "
            "default exact."
        ),
    ] = "exact"
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="X.npz",
            help="Inputs from which radix positions are chosen: an array for each input, by name, with the images "
            "stacked; default: seeded random images.",
        ),
    ] = None
    per_channel: Annotated[
        bool, typer.Option("--per-channel", help="Choose a radix position for the weights of each output channel.")
    ] = False
    per_tensor: Annotated[
        bool,
        typer.Option(
            "--per-tensor",
            help="Choose one radix position for each tensor; default: one for each channel in depthwise layers only.",
        ),
    ] = False
    any_scale: Annotated[
        bool,
        typer.Option(
            "--any-scale",
            help="Give the weights of each output channel any scale, by a multiplier and a shift: the integers of "
            "8-bit files stay as they are.",
        ),
    ] = False
    file_scales: Annotated[
        bool,
        typer.Option(
            "--file-scales",
            help="Keep the scales, zero points and integers of an 8-bit file (QDQ or TFLite), of activations too; "
            "nothing is calibrated.",
        ),
    ] = False
    shape: InputShapes = None
    ignore_declared_shapes: IgnoreDeclaredShapes = False
    weights: CaffeWeights = None
    board: Annotated[
        str | None,
        typer.Option(metavar="B", help="Also build libraries of the CPU's nodes, for the cores of this board."),
    ] = None
    cores: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Also build libraries of the CPU's nodes, for these cores, as cortex-a53."),
    ] = None
    costs: Annotated[
        str,
        typer.Option(
            help="Costs of groups: simulated; learned (from simulations of some groups); model (analytic); or device "
            "(measured); default simulated."
        ),
    ] = "simulated"
    objective: Annotated[
        str,
        typer.Option(
            help="What costs of groups count: time; bytes (of the DDR memory); or energy; default time. Of equal ones "
            "the faster is taken."
        ),
    ] = "time"
    cost_db: CostDatabase = None
    driver: DeviceDriver = None
    as_json: JsonReport = False


def run_build(options: AccelBuildOptions) -> None:
    """Compile a network for an accelerator with an instruction set, into one ELF file.

    The file has the 8-bit program, its parameters and its addresses. Nodes that the accelerator has no instruction for
    are listed; the CPU computes them before, between and after the segments of the program. A model for a batch of
    images, its own or by --shape, becomes a program that computes all of them and loads weights once for all where they
    fit on chip. With --board or --cores
    they become model libraries beside the program, with a version for each core type; `mavcg accel host` writes the C
    code that loads both.

    \b
    mavcg accel build resnet50.onnx --target zu2 --calibrate images.npz -o resnet50.elf
    mavcg accel build net.onnx --target ./mine.toml --search none -o net.elf --json
    mavcg accel build squeezenet --target zu9 --search paper -o squeezenet.elf
    mavcg accel build googlenet --target zu9 --costs learned --cost-db costs.sqlite -o googlenet.elf
    mavcg accel build squeezenet --target zu2 --objective bytes -o squeezenet.elf
    mavcg accel build deploy.prototxt --weights net.caffemodel --target zu2 -o net.elf
    mavcg accel build resnet50.onnx --target zu2 --cores cortex-a53 -o resnet50.elf
    mavcg accel build net.onnx --shape x=1x3x96x96 --target zu9 --per-channel -o net.elf
    mavcg accel build net.onnx --shape x=8x3x224x224 --target zu2 -o net.elf
    mavcg accel build net_int8.tflite --target zu2 --any-scale -o net.elf
    mavcg accel build net_int8.onnx --target zu2 --file-scales -o net.elf
    """
    from mavcg.accelerators.build import FILE_SCALES, ProgramRequest, build_json, build_program, with_cpu_parts
    from mavcg.accelerators.codegen.objective import objective_of
    from mavcg.accelerators.costs.providers import CostRequest
    from mavcg.accelerators.host.build_parts import CpuCores
    from mavcg.accelerators.image.elf_file import write_elf
    from mavcg.accelerators.target import find_target
    from mavcg.model.sizes import parse_shapes

    if not options.output.parent.is_dir():
        raise MavcgError(
            f"-o {options.output}: the folder {options.output.parent} does not exist; make it, or name another file"
        )
    given = {
        "--per-channel": ("channel", options.per_channel),
        "--per-tensor": ("tensor", options.per_tensor),
        "--any-scale": ("scale", options.any_scale),
        "--file-scales": (FILE_SCALES, options.file_scales),
    }
    chosen = [name for name, (_, is_given) in given.items() if is_given]
    if len(chosen) > 1:
        raise MavcgError(f"{' and '.join(chosen)}: exclude each other; give one of them")
    granularity = given[chosen[0]][0] if chosen else "depthwise"
    cpu = CpuCores(options.board, tuple(name.strip() for name in options.cores.split(",")) if options.cores else ())
    with Progress() as progress:
        request = ProgramRequest(
            options.model,
            find_target(options.target),
            options.search,
            options.calibrate,
            parse_shapes(options.shape or (), options.ignore_declared_shapes),
            granularity,
            options.weights,
            CostRequest(options.costs, options.cost_db, options.driver, objective_of(options.objective)),
        )
        built = build_program(request, progress)
        if cpu.are_named:
            built = with_cpu_parts(built, cpu, options.output, progress)
    size = write_elf(built.program, options.output)
    if options.as_json:
        print_json(build_json(built))
        return
    _show(built, options.output, size)


build = command_of("build", AccelBuildOptions, run_build)


def _show(built: "BuiltProgram", output: Path, size: int) -> None:
    from mavcg.accelerators.build import build_json
    from mavcg.accelerators.simulator.report import ddr_text, simulated_json

    report, simulated = build_json(built), simulated_json(built.program, built.time)
    out = console()
    fused = sum(len(group) > 1 for group in report["groups"])
    out.print(f"{report['network']} for {report['target']}: {output}, {size} bytes")
    out.print(f"  {report['nodes']} nodes in {len(report['groups'])} groups, {fused} of them fused")
    moved, share = report["hand_over"]["moved_bytes"], 100 * report["accelerator_share"]
    out.print(
        f"  {len(report['segments'])} segments; {share:.1f} % of the convolutions' operations; {moved} bytes move"
    )
    out.print(
        f"  {report['instructions']} instructions; bytes: "
        + ", ".join(f"{name} {count}" for name, count in report["bytes"].items())
    )
    out.print(
        f"  simulated: {report['predicted_cycles']} cycles, {simulated['ms']:.3f} ms, {simulated['gops']:.1f} GOP/s, "
        f"{100 * simulated['utilisation']:.1f} % of the array; {ddr_text(simulated)}, "
        f"{simulated['energy']['millijoules']:.2f} mJ"
    )
    out.print(
        f"  calibrated by {report['calibration']}; "
        + ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in report["seconds"].items())
    )
    if report["cpu_nodes"]:
        nodes = report["cpu_nodes"]
        libraries = ", ".join(report["cpu_libraries"]) or "no library; --board or --cores builds it"
        first_nodes = ", ".join(nodes[:8]) + (", .." if len(nodes) > 8 else "")
        note(f"{len(nodes)} nodes are left to the CPU ({libraries}): {first_nodes}")
