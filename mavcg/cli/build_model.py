"""The verb `mavcg build MODEL`, for an ONNX, TFLite or Caffe file."""

from typing import TYPE_CHECKING, Any

from mavcg.cli.output import Progress, console, note
from mavcg.cli.resource_limits import ResourceLimits, enforce_limits
from mavcg.errors import MavcgError, ToolError

if TYPE_CHECKING:
    from mavcg.model_pipeline.model_request import ModelRequest
    from mavcg.model_pipeline.partial import PartialRequest
    from mavcg.model_pipeline.sized_model import SizedResult

PARTIAL = "; --partial builds the subgraphs without it, and leaves it to ONNX Runtime or LiteRT (docs/drop-in.md)"


def assume_machine(
    board: str | None, cores: str | None, target: str | None, partial: bool
) -> tuple[str | None, str | None, str]:
    """Return --board and --cores of a build, with what is assumed where no machine is named, and a sentence on that.

    A partial build is for the runtime of this machine; a target alone gets the generic version. Without a target, a
    whole build is left as it is given, which is an error of the request.
    """
    from mavcg.hardware.core import GENERIC
    from mavcg.hosts.host import HOST

    if board is not None or cores is not None or not (partial or target):
        return board, cores, ""
    if target:
        which = f"one generic version for {target}; --board NAME adds one for each core type"
        return None, GENERIC, f"no cores are named: {which}"
    return HOST, None, "no cores are named: built for this machine (--board host)"


def simulate_unsure_choices(request: "ModelRequest", partial: bool, board: str | None) -> None:
    """Simulate the primitives of a model among which the cost model cannot tell the fastest, before it is built.

    Raises: MavcgError for a build that chooses none, or whose board cannot be simulated.
    """
    from mavcg.runners.simulated_choices import simulate_unsure
    from mavcg.selection.select_model import ENGINE
    from mavcg.selection.select_network import read_network

    option = "--simulate-unsure"
    if board is None or request.strategy == ENGINE:
        raise MavcgError(f"{option}: nothing is selected by costs; name a --board, and no --strategy {ENGINE}")
    if partial or request.sizes:
        raise MavcgError(f"{option}: is for whole models of one size; leave it, or --partial and further sizes, out")
    network = read_network(str(request.model), request.shapes)
    with Progress() as progress:
        simulate_unsure(
            network, board, "", request.db, request.workers, note=note,
            progress=lambda number, total, words: progress(f"{number} of {total}: {words}"),
        )  # fmt: skip


def build_and_report(request: "ModelRequest", limits: ResourceLimits, as_json: bool) -> dict[str, Any]:
    """Build the library and print its report. Raises: MavcgError, with nothing written.

    Returns: the JSON document, or {} after a report on stdout.
    """
    from mavcg.importers.emitter import NeedsConstant
    from mavcg.importers.limits import Unsupported
    from mavcg.model_pipeline.model import build_model
    from mavcg.model_pipeline.report import model_json, show_model
    from mavcg.model_pipeline.sized_model import build_sized

    with enforce_limits(limits, str(request.model)) as progress:
        try:
            if request.sizes:
                return _report_sized(build_sized(request, progress), as_json)
            result = build_model(request, progress)
        except ToolError:
            raise
        except MavcgError as error:
            # The importers name the file themselves; passes and kernels know nodes only.
            name = request.model
            refused = isinstance(error, Unsupported | NeedsConstant) and name.suffix.lower() in (".onnx", ".tflite")
            if refused and "(docs/" not in str(error):  # where the message has another remedy
                error.args = (f"{error}{PARTIAL}", *error.args[1:])
            raise (error if name.name in str(error) else MavcgError(f"{name}: {error}")) from error
    if as_json:
        return model_json(result)
    show_model(result, console())
    return {}


def build_partial_and_report(request: "PartialRequest", limits: ResourceLimits, as_json: bool) -> dict[str, Any]:
    """Build a library of subgraphs, write the model that calls it, and print the report. Raises: MavcgError.

    Returns: the JSON document, or {} after a report on stdout.
    """
    from mavcg.model_pipeline.partial import build_partial
    from mavcg.model_pipeline.partial_report import partial_json, show_partial

    with enforce_limits(limits, str(request.build.model)) as progress:
        result = build_partial(request, progress)
    if as_json:
        return partial_json(result)
    show_partial(result, console())
    return {}


def _report_sized(result: "SizedResult", as_json: bool) -> dict[str, Any]:
    from mavcg.model_pipeline.sized_model import sized_json, sized_lines

    if as_json:
        return sized_json(result)
    for line in sized_lines(result):
        console().print(line, highlight=False)
    return {}
