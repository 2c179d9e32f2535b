"""Resources of a target's hardware on a Lattice ECP5: lookup tables, flip-flops, multipliers, block RAMs, by Yosys.

python -m bench.accelerators.accel_synthesis [--target small] [--json]

Nothing is placed or routed, so there is no clock. The counts depend on Yosys, whose version the record has.
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.record import facts, parser_with_json, write
from mavcg.accelerators.rtl.sizes import TOP
from mavcg.accelerators.rtl.verilog import VERILOG, run_yosys, write_verilog
from mavcg.accelerators.target import find_target
from mavcg.errors import MavcgError

TARGET = "small"
# Cells of Yosys's library for ECP5 (Lattice, FPGA-DS-02012): what is counted -> cells, and how many of it each takes.
COUNTED: Mapping[str, Mapping[str, int]] = {
    "lut4": {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4},  # a carry cell has two; 16 x 4 bits of RAM take four
    "flip_flops": {"TRELLIS_FF": 1},
    "multipliers_18x18": {"MULT18X18D": 1},
    "block_rams_18_kbit": {"DP16KD": 1, "PDPW16KD": 1},
}
WITHIN = ("L6MUX21", "PFUMX")  # multiplexers within a slice, which take none of these


def counts(cells: Mapping[str, int]) -> dict[str, int]:
    """Return the resources that cells take. cells: number of each, by its type.

    Raises: MavcgError for a type of cell that is not known: its resources would not be counted.
    """
    if unknown := sorted(cells.keys() - {cell for own in COUNTED.values() for cell in own} - {*WITHIN}):
        raise MavcgError(f"cells of Yosys: {', '.join(unknown)}: not in COUNTED or WITHIN; add what they take")
    return {name: sum(each * cells.get(cell, 0) for cell, each in own.items()) for name, own in COUNTED.items()}


def synthesised(target: str) -> tuple[dict[str, int], str]:
    """Return the number of cells of each type that a target's core becomes, and the version of Yosys."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_verilog(find_target(target), folder)
        run_yosys(f"read_verilog {VERILOG}; synth_ecp5 -top {TOP}; tee -q -o cells.json stat -json", folder)
        report: dict[str, Any] = json.loads((folder / "cells.json").read_text(encoding="utf-8"))
    return dict(report["design"]["num_cells_by_type"]), str(report["creator"])


def main() -> None:
    """Synthesise, print, and write bench/results/accel_synthesis.json for the target `small`."""
    parser = parser_with_json(__doc__, "the record instead of lines")
    parser.add_argument("--target", default=TARGET, help="another writes no record")
    args = parser.parse_args()
    try:
        cells, yosys = synthesised(args.target)
        resources = counts(cells)
    except MavcgError as error:  # without Yosys it names the package
        sys.exit(f"bench.accelerators.accel_synthesis: {error}")
    record: dict[str, Any] = {
        **facts("modelled", "bench.accelerators.accel_synthesis"),
        "target": args.target,
        "yosys": yosys,
        **resources,
        "cells": cells,
    }
    if args.target == TARGET:
        write("accel_synthesis", record)
    if args.json:
        print(json.dumps(record, indent=2))
        return
    Console(width=150).print(f"{args.target}: {resources}, {yosys}")


if __name__ == "__main__":
    main()
