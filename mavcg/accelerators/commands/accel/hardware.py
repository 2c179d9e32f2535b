"""The verbs `mavcg accel rtl` and `cosim`: write an accelerator's hardware, and run a program on it."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.output import console, print_json
from mavcg.console.shared_options import AccelProgramFile, AccelTarget, JsonEverything, MostOperations


def rtl(
    target: AccelTarget,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write to; made if it is not there.")
    ],
    as_json: JsonEverything = False,
) -> None:
    """Write one core of an accelerator as Verilog: mavcg_core.v, and its sizes in mavcg_core.json.

    It executes all instructions but transposed convolutions. docs/accelerator-rtl.md has its ports and limits. Needs
    Amaranth, the extra `rtl`, and Yosys.

    \b
    mavcg accel rtl --target small -o rtl
    mavcg accel rtl --target ./mine.toml -o rtl --json
    """
    from mavcg.accelerators.rtl.verilog import write_verilog
    from mavcg.accelerators.target import find_target

    files = write_verilog(find_target(target), output)
    if as_json:
        print_json({"target": target, "files": [str(file) for file in files]})
        return
    for file in files:
        console().print(f"wrote {file}", soft_wrap=True)


def cosim(
    program: AccelProgramFile,
    rtl: Annotated[Path, typer.Option("--rtl", metavar="DIR", help="Folder that mavcg accel rtl wrote.")],
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the random inputs.")] = 0,
    max_operations: MostOperations = None,
    as_json: JsonEverything = False,
) -> None:
    """Run a program on an accelerator's Verilog, and compare it with both simulators.

    Verilator translates the Verilog; the DDR memory is a model with the target's bandwidth and latency. `equal` says
    whether every byte of the features segment is as the functional simulator leaves it; the cycles are those of the
    hardware and of the cycle simulator. The exit status is 1 if bytes differ.

    \b
    mavcg accel build net.onnx --target small -o a.elf
    mavcg accel rtl --target small -o rtl
    mavcg accel cosim a.elf --rtl rtl --seed 1 --json
    """
    from mavcg.accelerators.host.library import MOST_OPERATIONS
    from mavcg.accelerators.image.elf_file import read_elf
    from mavcg.accelerators.rtl.cosimulation import cosimulate
    from mavcg.accelerators.rtl.verilog import read_verilog

    made = cosimulate(read_elf(program), read_verilog(rtl), seed, max_operations or MOST_OPERATIONS)
    if as_json:
        print_json(
            {
                "equal": made.equal,
                "differing_bytes": made.differing_bytes,
                "bytes": made.segment_bytes,
                "cycles_rtl": made.cycles_rtl,
                "cycles_simulated": made.cycles_simulated,
            }
        )
    else:
        bits = "equal" if made.equal else f"{made.differing_bytes} of {made.segment_bytes} bytes differ"
        more = 100 * (made.cycles_rtl / made.cycles_simulated - 1)
        console().print(f"{bits}; {made.cycles_rtl} cycles, {made.cycles_simulated} simulated ({more:+.2f} %)")
    if not made.equal:
        raise typer.Exit(1)
