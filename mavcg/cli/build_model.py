"""`mavcg build MODEL`: what the verb does with an ONNX or TFLite file."""

from typing import TYPE_CHECKING, Any

from mavcg.cli.build_limits import Limits, limited
from mavcg.cli.output import console
from mavcg.errors import MavcgError, ToolError

if TYPE_CHECKING:
    from mavcg.model_road.model import ModelRequest


def build_and_report(request: "ModelRequest", limits: Limits, as_json: bool) -> dict[str, Any]:
    """Build the library; its document, or a report on stdout and {}. Raises: MavcgError, with nothing written."""
    from mavcg.model_road.model import build_model
    from mavcg.model_road.report import model_json, show_model

    with limited(limits, str(request.model)) as progress:
        try:
            result = build_model(request, progress)
        except ToolError:
            raise
        except MavcgError as error:
            # The importers name the file themselves; passes and kernels know nodes only.
            name = request.model
            raise (error if name.name in str(error) else MavcgError(f"{name}: {error}")) from error
    if as_json:
        return model_json(result)
    show_model(result, console())
    return {}
