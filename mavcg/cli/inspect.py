"""`mavcg inspect`: what stands in a built library."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.cli.output import console, print_json


def inspect(
    library: Annotated[Path, typer.Argument(metavar="LIB.so", help="A library or object that mavcg built.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """List a built library's dispatchers, versions and sizes, its code growth, and what it needs at load; of a model
    library its operators, kernels, and bytes of weights, arena and code.

    \b
    mavcg inspect libapp.so
    mavcg inspect libapp.so --json | jq .growth_percent
    """
    from mavcg.inspection import inspect_library, model_of

    if (model := model_of(library)) is not None:
        if as_json:
            print_json(model)
            return
        from mavcg.model_road.report import show_note

        show_note(model, console())
        return
    inspection = inspect_library(library)
    if as_json:
        print_json(inspection.as_json())
        return
    from mavcg.program_road.report import show_inspection

    show_inspection(inspection, console())
