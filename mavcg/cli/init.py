"""The verb `mavcg init`: write a first mavcg.toml, from the contents of a folder."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from mavcg.console.output import note, print_json
from mavcg.errors import MavcgError


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of the program; default: the current folder.")
    ] = Path(),
    board: Annotated[
        str, typer.Option(help="Board that libraries are built for; `mavcg cores` lists them; default host.")
    ] = "host",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing mavcg.toml.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found and written as JSON.")] = False,
) -> None:
    """Write a commented mavcg.toml, after which `mavcg profile && mavcg build` need no arguments.

    It looks for CMakeLists.txt, makefiles, compile_commands.json, C and C++ sources, programs, .onnx, .tflite and Caffe
    files, and runs none of them, not even make. It prints what it guessed, and the keys that you have to fill in.

    \b
    mavcg init
    mavcg init --board exynos9820
    mavcg init examples/app --force --json
    """
    from mavcg.files.whole_file import write_whole
    from mavcg.hosts.host import find_board
    from mavcg.importers.load import SUFFIXES
    from mavcg.program.buildfile import FILE_NAME, read_project
    from mavcg.program.folder_contents import list_contents
    from mavcg.program.initial_project import propose, toml_text

    path = folder / FILE_NAME
    if not folder.is_dir():
        raise MavcgError(f"{folder}: is not a folder; name a folder, or leave it out for the current one")
    if path.exists() and not force:
        raise MavcgError(f"{path}: exists already; edit it, or replace it with --force")
    known = bool(find_board(board).cores)
    proposal = propose(list_contents(folder, SUFFIXES), board)
    write_whole(path, toml_text(proposal))
    read_project(path)
    missing = (*proposal.missing, *(() if known else ("build.cores",)))
    if as_json:
        tables = {"profile": proposal.profile, "build": proposal.build}
        print_json(
            {
                "file": str(path),
                **{name: _keys_to_write(table) if table else None for name, table in tables.items()},
                "models": [_keys_to_write(model) for model in proposal.models],
                "guesses": list(proposal.guesses),
                "missing": list(missing),
            }
        )
        return
    note(f"wrote {path}")
    for guess in proposal.guesses:
        note(f"guessed, please check: {guess}")
    for key in missing:
        why = "" if known or key != "build.cores" else ": no core of this machine is known"
        note(f"{path}: fill in {key}{why}")
    if not missing:
        note("next: mavcg profile && mavcg build" if proposal.profile else "next: mavcg build")


def _keys_to_write(table: Any) -> dict[str, Any]:
    """Return the keys of a table that have a value, as they are written."""
    values = {field.name: getattr(table, field.name) for field in fields(table)}
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in values.items()
        if value not in (None, ())
    }
