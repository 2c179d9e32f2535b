"""The verb `mavcg build` for a program: build, show progress, report."""

from typing import TYPE_CHECKING, Any

from mavcg.console.output import console
from mavcg.console.resource_limits import ResourceLimits, enforce_limits

if TYPE_CHECKING:
    from mavcg.hardware.board import Board
    from mavcg.program.program import BuildRequest


def build_and_report(
    request: "BuildRequest", board: "Board | None", limits: ResourceLimits, as_json: bool
) -> dict[str, Any]:
    """Build the library and print its table. Raises: MavcgError, with nothing written.

    Returns: the JSON document, or {} after a table on stdout.
    """
    from mavcg.program.program import build_program
    from mavcg.program.report import build_json, show_build

    with enforce_limits(limits, str(request.output)) as progress:
        result = build_program(request, progress)
    if as_json:
        return build_json(result, board)
    show_build(result, board, console())
    return {}
