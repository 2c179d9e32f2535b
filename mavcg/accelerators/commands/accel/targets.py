"""The verb `mavcg accel targets`: list the accelerators with an instruction set, and the facts in their files."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.console.output import console, print_json
from mavcg.console.shared_options import JsonDocument

if TYPE_CHECKING:
    from mavcg.accelerators.target import IsaTarget


def targets(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|FILE]", help="Target to show in full, with the source of each figure; default: list all."
        ),
    ] = None,
    as_json: JsonDocument = False,
) -> None:
    """List accelerators with an instruction set: DNNVM's two, a small one for FPGAs, and your own.

    A target is a TOML file. Every figure is written as key = { value = ..., source = "..." }:

    \b
    frequency_mhz       clock of the array and of the on-chip memories
    ic_parallel         operations along input channels per cycle, two for a multiply-add (24: 12 channels)
    oc_parallel         output channels per cycle
    rows_parallel       output rows per cycle
    batch               cores, each of which works on an image; they share the DDR memory
    input_bytes, weight_bytes, output_bytes     sizes of a core's buffers; banks: banks of each
    pool_parallel       window positions that the pooling unit reads per cycle
    misc_parallel       elements that element-wise operations and moves write per cycle
    ddr_gb_per_s, ddr_latency_cycles            off-chip memory, for all cores together
    rounding            rounding of shifts: half_up, half_away or floor
    dense               where fully connected layers run: "cpu" or "accelerator"
    host_gops, host_call_us    the CPU's 10^9 operations per second, and the time of a job's call; may be left out:
                        then each operation that the accelerator has stays there, however small

    A file also has description, and name, which need not be the file's. Start from an existing one: `mavcg accel
    targets zu2` prints the path of its file. Your own targets are found in the folders isa_targets/ of MAVCG_PROFILES,
    or by a path in place of the name.

    \b
    mavcg accel targets
    mavcg accel targets zu2
    mavcg accel targets ./mine.toml --json
    """
    from mavcg.accelerators.target import find_target, target_names

    isa_targets = [find_target(known) for known in (target_names() if name is None else (name,))]
    if as_json:
        rows = [_row(target) for target in isa_targets]
        print_json(rows if name is None else rows[0])
    elif name is None:
        _show_all(isa_targets)
    else:
        _show_one(isa_targets[0], name)


def _row(target: "IsaTarget") -> dict[str, Any]:
    from dataclasses import asdict

    figures = {
        "macs_per_cycle": target.macs_per_cycle,
        "peak_gops": target.peak_gops,
        "on_chip_bytes": target.on_chip_bytes,
    }
    return {**asdict(target), "sources": dict(target.sources), **figures}


def _show_all(isa_targets: "list[IsaTarget]") -> None:
    from rich.table import Table

    table = Table(box=None)
    for title in ("target", "peak GOP/s", "operations per cycle", "on chip", "DDR GB/s", ""):
        table.add_column(title, justify="left" if title in ("target", "") else "right")
    for t in isa_targets:
        array = f"{t.batch} x " * (t.batch > 1) + f"{t.ic_parallel} x {t.oc_parallel} x {t.rows_parallel}"
        size = f"{t.on_chip_bytes / 1e6:.2f} MB"
        table.add_row(t.name, f"{t.peak_gops:.0f}", array, size, f"{t.ddr_gb_per_s:g}", t.description)
    console().print(table)


def _show_one(target: "IsaTarget", name_or_path: str) -> None:
    """Print a target. name_or_path: as it was found by."""
    from rich.table import Table

    from mavcg.profiles.folders import files

    out = console()
    out.print(f"{target.name}: {target.description}")
    out.print(f"file: {files('isa_targets').get(name_or_path, name_or_path)}", soft_wrap=True)
    out.print(f"peak: {target.peak_gops:.1f} GOP/s, {target.macs_per_cycle} multiply-adds per cycle and core")
    table = Table(box=None)
    table.add_column("fact")
    table.add_column("value", justify="right")
    table.add_column("source", overflow="fold")
    for key, source in target.sources:
        table.add_row(key, str(getattr(target, key)), source)
    out.print(table)
