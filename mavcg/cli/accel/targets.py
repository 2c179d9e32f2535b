"""The verb `mavcg accel targets`: the accelerators with an instruction set, and what their files say."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.cli.output import console, print_json

if TYPE_CHECKING:
    from mavcg.accel.target import IsaTarget


def targets(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME|FILE]", help="One target in full, with the source of each figure.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as one JSON document.")] = False,
) -> None:
    """List accelerators with an instruction set: DNNVM's two, and your own.

    A target is a TOML file. Every figure is written as key = { value = ..., source = "..." }:

    \b
    frequency_mhz       of the array and the memories on chip
    ic_parallel         operations along input channels a cycle, two for a multiply-add (24: 12 channels)
    oc_parallel         output channels a cycle
    rows_parallel       rows of the output a cycle
    batch               cores that work on an image each and share the DDR memory
    input_bytes, weight_bytes, output_bytes     buffers of a core; banks: into which each is divided
    pool_parallel       window positions that the pooling unit reads a cycle
    misc_parallel       elements that element-wise operations and moves write a cycle
    ddr_gb_per_s, ddr_latency_cycles            of the memory off chip, for all cores together
    rounding            of shifts: half_up, half_away or floor
    dense               fully connected layers on the "cpu" or the "accelerator"

    Beside these stand description and name, which is the file's own. Start from one of ours: `mavcg accel targets zu2`
    names its file. Your own are found in the folders isa_targets/ of MAVCG_PROFILES, or by a path in place of the name.

    \b
    mavcg accel targets
    mavcg accel targets zu2
    mavcg accel targets ./mine.toml --json
    """
    from mavcg.accel.target import find_target, target_names

    isa_targets = [find_target(one) for one in (target_names() if name is None else (name,))]
    if as_json:
        rows = [_row(target) for target in isa_targets]
        print_json(rows if name is None else rows[0])
    elif name is None:
        _show_all(isa_targets)
    else:
        _show_one(isa_targets[0])


def _row(target: "IsaTarget") -> dict[str, Any]:
    from dataclasses import asdict

    figures = {"macs_per_cycle": target.macs_per_cycle, "peak_gops": target.peak_gops,
               "on_chip_bytes": target.on_chip_bytes}  # fmt: skip
    return {**asdict(target), "sources": dict(target.sources), **figures}


def _show_all(isa_targets: "list[IsaTarget]") -> None:
    from rich.table import Table

    table = Table(box=None)
    for title in ("target", "peak GOP/s", "operations a cycle", "on chip", "DDR GB/s", ""):
        table.add_column(title, justify="left" if title in ("target", "") else "right")
    for t in isa_targets:
        array = f"{t.batch} x " * (t.batch > 1) + f"{t.ic_parallel} x {t.oc_parallel} x {t.rows_parallel}"
        size = f"{t.on_chip_bytes / 1e6:.2f} MB"
        table.add_row(t.name, f"{t.peak_gops:.0f}", array, size, f"{t.ddr_gb_per_s:g}", t.description)
    console().print(table)


def _show_one(target: "IsaTarget") -> None:
    from rich.table import Table

    from mavcg.profiles.load import files

    out = console()
    out.print(f"{target.name}: {target.description}")
    known = files("isa_targets").get(target.name)
    if known is not None:
        out.print(f"file: {known}", soft_wrap=True)
    out.print(f"peak: {target.peak_gops:.1f} GOP/s, {target.macs_per_cycle} multiply-adds a cycle of each core")
    table = Table(box=None)
    table.add_column("fact")
    table.add_column("value", justify="right")
    table.add_column("source", overflow="fold")
    for key, source in target.sources:
        table.add_row(key, str(getattr(target, key)), source)
    out.print(table)
