"""The verb `mavcg runtime`: build the selector that libraries built with --runtime shared load."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.cli.output import console, print_json
from mavcg.errors import MavcgError


def runtime(
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TRIPLE", help="System to build for, such as aarch64-linux-gnu.2.17; default: this machine's."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where to put it; here.")] = Path(
        "."
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Build libmavcg_rt.so, the selector that libraries built with `mavcg build --runtime shared` load.

    Put it beside those libraries, or where the loader looks; one serves all of a process.

    \b
    mavcg runtime -o lib
    mavcg runtime --target aarch64-linux-gnu.2.17 -o board/usr/lib
    """
    from mavcg.hardware.target import host_target, parse_target
    from mavcg.objects.binaries import loaded_bytes
    from mavcg.runtime.coreset import RUNTIME_ABI
    from mavcg.runtime.shared import install_shared_runtime

    its_target = parse_target(target) if target else host_target()
    if its_target.system == "macos":
        raise MavcgError(
            f"--target {its_target.zig_name}: the selector is shared on Linux and Android; take one of these"
        )
    if not output.is_dir():
        raise MavcgError(f"-o {output}: is not a folder; make it, or name another")
    library, link = install_shared_runtime(its_target, output)
    size = loaded_bytes(library)
    if as_json:
        print_json({
            "library": str(library), "link": str(link), "target": its_target.zig_name, "abi": RUNTIME_ABI,
            "loaded_bytes": size,
        })  # fmt: skip
        return
    console().print(f"{library} for {its_target.zig_name}: {size} bytes loaded, ABI {RUNTIME_ABI}; {link} leads to it")
