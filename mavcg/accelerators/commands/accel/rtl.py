"""The verb `mavcg accel rtl`: write an accelerator's hardware as Verilog."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.output import console, print_json
from mavcg.console.shared_options import AccelTarget, JsonEverything


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
