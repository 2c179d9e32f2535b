"""The verb `mavcg accel host`: write the C sources of the host side, for the user's programs."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.output import console, print_json
from mavcg.console.shared_options import JsonWritten
from mavcg.errors import MavcgError


def host(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the sources.")],
    as_json: JsonWritten = False,
) -> None:
    """Write the C sources that load a program, drive the device, and call the libraries of the CPU's nodes.

    mavcg_accel.h is the interface, and defines what a driver must do. mavcg_accel_simulator.h is a simulated device, so
    that the same program runs before there is hardware. Compile all .c files with your own:

    \b
    mavcg accel host -o host
    cc -O3 -D_GNU_SOURCE -Ihost main.c host/*.c -ldl -lm -o app
    """
    from mavcg.accelerators.host.library import write_host_sources

    if output.exists() and not output.is_dir():
        raise MavcgError(f"-o {output}: is not a folder; name a folder")
    try:
        output.mkdir(exist_ok=True)
        files = write_host_sources(output)
    except OSError as error:
        raise MavcgError(f"-o {output}: cannot be written ({error.strerror}); name another folder") from error
    names = [file.name for file in files]
    if as_json:
        print_json({"folder": str(output), "files": names})
        return
    console().print(f"{output}: {len(names)} files; the interface is mavcg_accel.h")
