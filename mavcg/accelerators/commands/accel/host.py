"""The verb `mavcg accel host`: write the host side in C, as sources or as a library, for the user's programs."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.output import console, print_json
from mavcg.console.shared_options import JsonWritten
from mavcg.errors import MavcgError


def host(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the sources.")
    ] = None,
    library: Annotated[
        Path | None, typer.Option(metavar="FILE.so", help="Compile a shared library of them for this machine.")
    ] = None,
    as_json: JsonWritten = False,
) -> None:
    """Write the C that loads a program, drives the device, and calls the libraries of the CPU's nodes.

    mavcg_accel.h is the interface, and defines what a driver must do. mavcg_accel_simulator.h is a simulated device, so
    that the same program runs before there is hardware. Compile all .c files with your own, or link with a library of
    them, which `mavcg app serve` loads, too:

    \b
    mavcg accel host -o host
    cc -O3 -D_GNU_SOURCE -Ihost main.c host/*.c -ldl -lm -o app
    mavcg accel host --library libaccel.so
    """
    from mavcg.accelerators.host.library import write_host_library, write_host_sources

    if output is None and library is None:
        raise MavcgError("accel host: nothing to write; give -o FOLDER, --library FILE.so, or both")
    names = list[str]()
    if output is not None:
        if output.exists() and not output.is_dir():
            raise MavcgError(f"-o {output}: is not a folder; name a folder")
        try:
            output.mkdir(exist_ok=True)
            names = [file.name for file in write_host_sources(output)]
        except OSError as error:
            raise MavcgError(f"-o {output}: cannot be written ({error.strerror}); name another folder") from error
    if library is not None:
        write_host_library(library)
    if as_json:
        written = {"library": str(library)} if library is not None else {}
        print_json({"folder": None if output is None else str(output), "files": names, **written})
        return
    if output is not None:
        console().print(f"{output}: {len(names)} files; the interface is mavcg_accel.h")
    if library is not None:
        console().print(f"{library}: the host side for this machine; the interface is mavcg_accel.h")
