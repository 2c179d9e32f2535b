"""The verb `mavcg inspect`: list the contents of a built library."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import console, print_json
from mavcg.console.shared_options import JsonSame

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class InspectOptions:
    """The command line of `mavcg inspect`."""

    library: Annotated[Path, typer.Argument(metavar="LIB.so", help="A library or object that mavcg built.")]
    network: Annotated[
        str | None,
        typer.Option(metavar="N", help="For the library of an application: the network whose kernels are shown."),
    ] = None
    as_json: JsonSame = False
    sbom: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead, write a CycloneDX bill of materials to FILE; - for stdout."),
    ] = None


def run_inspect(options: InspectOptions) -> None:
    """List the contents of a library that mavcg built.

    For a program: dispatchers, versions with their sizes, code growth, and libraries and symbols that it needs. For a
    model: operators, kernels, and bytes of weights, arena and code. For a BLAS: routines. For an application: its
    memory map.

    \b
    mavcg inspect libapp.so
    mavcg inspect libapp.so --json | jq .growth_percent
    mavcg inspect libapp.so --network detector
    mavcg inspect libapp.so --sbom libapp.cdx.json
    """
    from mavcg.objects.inspection import note_errors

    with note_errors(options.library):
        _inspect(options)


def _inspect(options: InspectOptions) -> None:
    from mavcg.objects.inspection import application_of, blas_of, inspect_library, model_of, network_of_library

    library, network = options.library, options.network
    if options.sbom is not None:
        _write_sbom(library, options.sbom)
    elif (model := model_of(library) if network is None else network_of_library(library, network)) is not None:
        from mavcg.model.report import show_note

        _print(model, show_note, options.as_json)
    elif (blas := blas_of(library)) is not None:
        from mavcg.model.blas.report import show_blas_note

        _print(blas, show_blas_note, options.as_json)
    elif (application := application_of(library)) is not None:
        from mavcg.apps.library_report import show_application

        _print(application, show_application, options.as_json)
    else:
        from mavcg.program.report import show_inspection

        inspection = inspect_library(library)
        if options.as_json:
            print_json(inspection.as_json())
        else:
            show_inspection(inspection, console())


inspect = command_of("inspect", InspectOptions, run_inspect)


def _print(document: dict[str, Any], show: "Callable[[dict[str, Any], Console], None]", as_json: bool) -> None:
    """Print a library's note as JSON, or as tables by `show`."""
    if as_json:
        print_json(document)
    else:
        show(document, console())


def _write_sbom(library: Path, output: Path) -> None:
    import json

    from mavcg.cli.sbom import sbom
    from mavcg.files.whole_file import write_whole

    document = sbom(library)
    if str(output) == "-":
        print_json(document)
    else:
        write_whole(output, json.dumps(document, indent=1, sort_keys=True) + "\n", "--sbom")
