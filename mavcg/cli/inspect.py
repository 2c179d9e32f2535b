"""The verb `mavcg inspect`: list the contents of a built library."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.cli.output import console, print_json
from mavcg.cli.shared_options import JsonSame


def inspect(
    library: Annotated[Path, typer.Argument(metavar="LIB.so", help="A library or object that mavcg built.")],
    network: Annotated[
        str | None,
        typer.Option(metavar="N", help="For the library of an application: the network whose kernels are shown."),
    ] = None,
    as_json: JsonSame = False,
    sbom: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead, write a CycloneDX bill of materials to FILE; - for stdout."),
    ] = None,
) -> None:
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
    from mavcg.objects.inspection import application_of, blas_of, inspect_library, model_of, network_of_library

    if sbom is not None:
        _write_sbom(library, sbom)
        return
    model = model_of(library) if network is None else network_of_library(library, network)
    if model is not None:
        if as_json:
            print_json(model)
            return
        from mavcg.model_pipeline.report import show_note

        show_note(model, console())
        return
    if (blas := blas_of(library)) is not None:
        if as_json:
            print_json(blas)
            return
        from mavcg.blas.report import show_blas_note

        show_blas_note(blas, console())
        return
    if (application := application_of(library)) is not None:
        if as_json:
            print_json(application)
            return
        from mavcg.apps.library_report import show_application

        show_application(application, console())
        return
    inspection = inspect_library(library)
    if as_json:
        print_json(inspection.as_json())
        return
    from mavcg.program_pipeline.report import show_inspection

    show_inspection(inspection, console())


def _write_sbom(library: Path, output: Path) -> None:
    import json

    from mavcg.files.whole_file import write_whole
    from mavcg.objects.sbom import sbom

    document = sbom(library)
    if str(output) == "-":
        print_json(document)
    else:
        write_whole(output, json.dumps(document, indent=1, sort_keys=True) + "\n", "--sbom")
