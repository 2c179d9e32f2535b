"""Random programs on the hardware of the target `small` and in both simulators: equal bytes, and errors of the cycles.

python -m bench.accelerators.accel_rtl [--programs N] [--first SEED] [--json]

The programs are those of the tests (tests/mavcg/accelerators/rtl/programs.py): random networks in random groups with
random tiles, without those that do not fit and those with transposed convolutions. Cycles do not depend on the machine.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.record import facts, parser_with_json, write
from mavcg.accelerators.rtl.cosimulation import cosimulate
from mavcg.accelerators.rtl.verilog import read_verilog, write_verilog
from mavcg.accelerators.target import find_target
from tests.mavcg.accelerators.rtl.programs import program_for

PROGRAMS = 1000
BOUNDS_PERCENT = (0.1, 0.5, 1.0, 2.0, 5.0)  # of errors that are counted


def main() -> None:
    """Run the programs, print what differs, and write bench/results/accel_rtl.json for the whole number of programs."""
    parser = parser_with_json(__doc__, "the record instead of lines")
    parser.add_argument("--programs", type=int, default=PROGRAMS, help="so many; fewer write no record")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="first seed; another writes no record")
    args = parser.parse_args()
    out, target = Console(width=150), find_target("small")
    with tempfile.TemporaryDirectory() as folder:
        write_verilog(target, Path(folder))
        rtl = read_verilog(Path(folder))
    unequal: list[int] = []
    errors: list[float] = []
    rtl_cycles = simulated_cycles = instructions = 0
    seed = args.first
    while len(errors) < args.programs:
        if (program := program_for(target, seed)) is not None:
            made = cosimulate(program, rtl, seed)
            error = 100 * (made.cycles_rtl / made.cycles_simulated - 1)
            errors.append(error)
            unequal += [] if made.equal else [seed]
            rtl_cycles += made.cycles_rtl
            simulated_cycles += made.cycles_simulated
            instructions += len(program.instructions)
            if not args.json and (not made.equal or abs(error) > 1):
                out.print(
                    f"seed {seed}: {made.differing_bytes} bytes differ, {made.cycles_rtl} cycles ({error:+.2f} %)"
                )
        seed += 1
    worst = max(errors, key=abs)
    record: dict[str, Any] = {
        **facts("modelled", "bench.accelerators.accel_rtl"),
        "target": target.name,
        "programs": len(errors),
        "seeds": [args.first, seed - 1],
        "instructions": instructions,
        "equal": len(errors) - len(unequal),
        "unequal_seeds": unequal,
        "cycles_rtl": rtl_cycles,
        "cycles_simulated": simulated_cycles,
        "total_error_percent": round(100 * (rtl_cycles / simulated_cycles - 1), 3),
        "worst_error_percent": round(worst, 2),
        "within_percent": {str(bound): sum(abs(error) <= bound for error in errors) for bound in BOUNDS_PERCENT},
    }
    if args.programs == PROGRAMS and not args.first:
        write("accel_rtl", record)
    out.print_json(json.dumps(record)) if args.json else out.print(record)


if __name__ == "__main__":
    main()
