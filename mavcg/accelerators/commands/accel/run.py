"""The verbs `mavcg accel run` and `simulate`: run a program for its outputs, or cycle by cycle for its time."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import console, note, print_json
from mavcg.console.shared_options import (
    AccelProgramFile,
    InputFiles,
    InputSeed,
    JsonEverything,
    JsonOutputs,
    MostOperations,
    OutputsFile,
)
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.accelerators.image.program import AccelProgram


@dataclass(frozen=True)
class AccelRunOptions:
    """The command line of `mavcg accel run`."""

    program: AccelProgramFile
    inputs: InputFiles = None
    output: OutputsFile = None
    seed: InputSeed = None
    integers: Annotated[
        bool, typer.Option("--integers", help="Give the accelerator's tensors as the int8 numbers that it writes.")
    ] = False
    accelerator: Annotated[
        bool,
        typer.Option(
            "--accelerator", help="Give the tensors that leave the accelerator; the CPU's nodes are not computed."
        ),
    ] = False
    driver: Annotated[
        str | None,
        typer.Option(metavar="LIB.so[:ARGUMENT]", help="Run on the device of this driver instead of in the simulator."),
    ] = None
    max_operations: MostOperations = None
    as_json: JsonOutputs = False


def run_program(options: AccelRunOptions) -> None:
    """Run a program in the functional simulator, which models the bytes of the accelerator's memories.

    The outputs are the model's. If nodes are left to the CPU, their libraries must be beside the program and be for
    this machine (`mavcg accel build --board host`); the host side in C then runs the whole network, as with a device;
    of VTA, which it does not drive, the functional simulator and the libraries do.
    With --accelerator the outputs are the tensors that leave the accelerator, [N, H, W, C], as real numbers: integer *
    2^-radix, or by a file's scale and zero point; with --integers they are these integers.

    Inputs are real numbers in the model's order of dimensions, or int8 numbers as [N, H, W, C].

    \b
    mavcg accel run resnet50.elf --input x.npy -o y.npz
    mavcg accel run resnet50.elf --seed 0 --accelerator --json
    mavcg accel run resnet50.elf --input x.npy --driver ./libdevice.so:/dev/accel0 -o y.npz
    """
    if options.seed is not None and (options.seed < 0 or options.inputs):
        fault = "makes all inputs; leave --input out" if options.inputs else "is not a seed; give 0 or more"
        raise MavcgError(f"--seed {options.seed}: {fault}")
    from mavcg.accelerators.host.library import MOST_OPERATIONS
    from mavcg.accelerators.host.runtime import missing_part
    from mavcg.accelerators.image.elf_file import read_elf
    from mavcg.accelerators.target import VTA
    from mavcg.console.arrays import summary_of, write_arrays

    image = read_elf(options.program)
    most = options.max_operations or MOST_OPERATIONS
    missing = missing_part(image, options.program) if image.cpu_nodes else ""
    part = "--integers" if options.integers else "--accelerator" if options.accelerator else ""
    if options.driver is not None and (missing or part):
        raise MavcgError(f"--driver {options.driver}: runs whole networks; {missing or f'leave {part} out'}")
    if missing and not part:
        raise MavcgError(
            f"{options.program}: the CPU computes {', '.join(image.cpu_nodes[:6])}: {missing}; or give --accelerator "
            "for the tensors that leave the accelerator"
        )
    beside = bool(image.cpu_nodes) or not {output.tensor for output in image.host.outputs} <= set(image.outputs)
    whole = options.driver is not None or (beside and not part)
    if options.driver is not None and image.target.isa == VTA:
        raise MavcgError(
            f"--driver {options.driver}: the host side in C drives mavcg's own accelerators; leave it out to simulate "
            "VTA"
        )
    if image.cpu_nodes and part:
        note(f"{part}: shows the accelerator's outputs; the CPU's {len(image.cpu_nodes)} nodes are not computed")
    shown = _run_whole(image, options, most) if whole else _run_accelerator(image, options, most)
    if not whole and not part:
        shown = {output.name: output.in_its_order(shown[output.tensor]) for output in image.host.outputs}
    if options.output is not None:
        write_arrays(options.output, shown)
    summary = [summary_of(name, array) for name, array in shown.items()]
    if options.as_json:
        computed = "network" if whole or not image.cpu_nodes else "accelerator"
        print_json(
            {"computed": computed, "outputs": summary, "written": str(options.output) if options.output else None}
        )
        return
    for entry in summary:
        console().print(f"{entry['name']} {entry['dtype']}{entry['shape']}: {entry['min']:g} to {entry['max']:g}")


run = command_of("run", AccelRunOptions, run_program)


def _run_whole(image: "AccelProgram", options: AccelRunOptions, most_operations: int) -> dict[str, Any]:
    """Run the whole network by the host side in C, or in Python for VTA, and return its outputs by name."""
    from mavcg.accelerators.host.runtime import DeviceDriver, DeviceProgram
    from mavcg.accelerators.host.simulated_network import run_network
    from mavcg.accelerators.images import network_inputs
    from mavcg.accelerators.target import VTA
    from mavcg.console.arrays import named_input_arrays

    tensors = [image.host.tensor(name) for name in image.host.inputs]
    if options.seed is not None:
        given = _random({tensor.name: tensor.dims for tensor in tensors}, options.seed)
    else:
        given = named_input_arrays(image.host.inputs, options.inputs or [], "the program")
    if image.target.isa == VTA:
        return run_network(image, options.program, network_inputs(given, tensors), most_operations)
    driver = None if options.driver is None else DeviceDriver.of(options.driver)
    with DeviceProgram(options.program, driver=driver, most_operations=most_operations) as device:
        return device.run(network_inputs(given, tensors))


def _run_accelerator(image: "AccelProgram", options: AccelRunOptions, most_operations: int) -> dict[str, Any]:
    """Run the accelerator's part in the functional simulator, and return its outputs by name."""
    from mavcg.accelerators.fixed_point import reals_of
    from mavcg.accelerators.images import read_inputs
    from mavcg.accelerators.simulator.functional import execute
    from mavcg.console.arrays import named_input_arrays

    shapes = {name: image.tensor(name).shape for name in image.inputs}
    if options.seed is not None:
        given = _random(shapes, options.seed)
    else:
        given = named_input_arrays(image.inputs, options.inputs or [], "the program")
    ready = read_inputs(
        given,
        shapes,
        image.nchw,
        {name: image.host.tensor(name) for name in shapes},
    )
    results = execute(image, ready, most_operations=most_operations)
    return {n: array if options.integers else reals_of(image.host.tensor(n), array) for n, array in results.items()}


def _random(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Any]:
    import numpy as np

    numbers = np.random.default_rng(seed)
    return {name: numbers.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def simulate(
    program: AccelProgramFile,
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the work of the units over time, as .svg or .png.")
    ] = None,
    as_json: JsonEverything = False,
) -> None:
    """Simulate a program cycle by cycle: time, utilisation of the array, stalls by cause, traffic, energy.

    Cycles are for one run on one core, of an image or of the program's batch of images; GOP/s counts all cores. The
    energy is an estimate, printed with its assumptions.

    \b
    mavcg accel simulate resnet50.elf
    mavcg accel simulate resnet50.elf --json --timeline t.svg
    """
    from mavcg.accelerators.image.elf_file import read_elf
    from mavcg.accelerators.simulator.cycles import simulate as cycles_of
    from mavcg.accelerators.simulator.report import ddr_text, simulated_json, timeline_svg
    from mavcg.drawing.svg_plots import check_plot, save_drawing

    if timeline is not None:
        check_plot(timeline, "--timeline")
    image = read_elf(program)
    time = cycles_of(image)
    report = simulated_json(image, time)
    if timeline is not None:
        save_drawing(timeline_svg(image, time), timeline, "--timeline")
        note(f"wrote the timeline to {timeline}")
    if as_json:
        print_json(report)
        return
    out = console()
    out.print(f"{report['network']} on {report['target']}: {report['cycles']} cycles, {report['ms']:.3f} ms")
    out.print(f"  {report['gops']:.1f} GOP/s, {100 * report['utilisation']:.1f} % of the array")
    out.print(
        f"  {ddr_text(report)}; {report['energy']['millijoules']:.3g} mJ ({report['energy']['assumes']})",
        soft_wrap=True,
    )
    for unit, busy in report["units"].items():
        out.print(f"  {unit}: busy {busy} cycles, {100 * busy / max(1, report['cycles']):.1f} %")
    for cause, cycles in sorted(report["stalls"].items(), key=lambda item: -item[1]):
        out.print(f"  stall, {cause}: {cycles} cycles")
