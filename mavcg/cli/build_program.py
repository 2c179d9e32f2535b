"""`mavcg build` of a program: build, show progress, report."""

from typing import TYPE_CHECKING, Any

from mavcg.cli.build_limits import Limits, limited
from mavcg.cli.output import console

if TYPE_CHECKING:
    from mavcg.board import Board
    from mavcg.program_road.program import BuildRequest


def build_and_report(request: "BuildRequest", board: "Board | None", limits: Limits, as_json: bool) -> dict[str, Any]:
    """Build the library; its document, or a table on stdout and {}. Raises: MavcgError, with nothing written."""
    from mavcg.program_road.program import build_program
    from mavcg.program_road.report import build_json, show_build

    with limited(limits, str(request.output)) as progress:
        result = build_program(request, progress)
    if as_json:
        return build_json(result, board)
    show_build(result, board, console())
    return {}
