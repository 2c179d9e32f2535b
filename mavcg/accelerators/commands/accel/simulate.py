"""The verb `mavcg accel simulate`: simulate the cycles that a program takes."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.output import console, note, print_json
from mavcg.console.shared_options import AccelProgramFile, JsonEverything


def simulate(
    program: AccelProgramFile,
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the work of the units over time, as .svg or .png.")
    ] = None,
    as_json: JsonEverything = False,
) -> None:
    """Simulate a program cycle by cycle: time, utilisation of the array, stalls by cause, traffic, energy.

    Cycles are for one image on one core; GOP/s counts all cores. The energy is an estimate, printed with its
    assumptions.

    \b
    mavcg accel simulate resnet50.elf
    mavcg accel simulate resnet50.elf --json --timeline t.svg
    """
    from mavcg.accelerators.image.elf_file import read_elf
    from mavcg.accelerators.simulator.cycles import simulate as cycles_of
    from mavcg.accelerators.simulator.report import simulated_json, timeline_svg
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
        f"  {report['ddr_bytes']} bytes of DDR memory; {report['energy']['millijoules']:.3g} mJ "
        f"({report['energy']['assumes']})",
        soft_wrap=True,
    )
    for unit, busy in report["units"].items():
        out.print(f"  {unit}: busy {busy} cycles, {100 * busy / max(1, report['cycles']):.1f} %")
    for cause, cycles in sorted(report["stalls"].items(), key=lambda item: -item[1]):
        out.print(f"  stall, {cause}: {cycles} cycles")
