"""The verb `mavcg runtime`: build the selector of libraries built with --runtime shared."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.output import console, print_json
from mavcg.console.shared_options import JsonWritten
from mavcg.errors import MavcgError


def runtime(
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TRIPLE", help="System to build for, such as aarch64-linux-gnu.2.17; default: this machine's."
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the library; default: the current folder."),
    ] = Path("."),
    as_json: JsonWritten = False,
) -> None:
    """Build libmavcg_rt.so, the selector that libraries built with `mavcg build --runtime shared` load.

    Put it beside those libraries, or into a folder of the loader; all libraries of a process share one selector.
    Loaded by LD_PRELOAD, it gives programs with the small selector MAVCG_CPU_MAP and MAVCG_TRACE.

    \b
    mavcg runtime -o lib
    LD_PRELOAD=lib/libmavcg_rt.so MAVCG_TRACE=1 ./app
    mavcg runtime --target aarch64-linux-gnu.2.17 -o board/usr/lib
    """
    from mavcg.objects.inspection import loaded_bytes
    from mavcg.runtime.coreset import RUNTIME_ABI
    from mavcg.runtime.shared import install_shared_runtime
    from mavcg.toolchain.target import host_target, parse_target

    system = parse_target(target) if target else host_target()
    if system.system == "macos":
        raise MavcgError(
            f"--target {system.zig_name}: the selector can be shared on Linux and Android only; name such a target"
        )
    if not output.is_dir():
        raise MavcgError(f"-o {output}: is not a folder; make it, or name another folder")
    library, link = install_shared_runtime(system, output)
    size = loaded_bytes(library)
    if as_json:
        print_json(
            {
                "library": str(library),
                "link": str(link),
                "target": system.zig_name,
                "abi": RUNTIME_ABI,
                "loaded_bytes": size,
            }
        )
        return
    console().print(f"{library} for {system.zig_name}: {size} bytes loaded, ABI {RUNTIME_ABI}; {link} links to it")
