"""The verb `mavcg build MODEL`, for an ONNX, TFLite or Caffe file."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.cli.build_options import BuildOptions
from mavcg.cli.build_tables import library_options, program_options, selection_options
from mavcg.console.output import Progress, console, note, print_json
from mavcg.console.resource_limits import ResourceLimits, build_limits, enforce_limits
from mavcg.console.shared_options import names_of_option
from mavcg.errors import MavcgError, ToolError

if TYPE_CHECKING:
    from mavcg.model.model_request import ModelRequest
    from mavcg.model.partial.request import PartialRequest
    from mavcg.model.sized_model import SizedResult

PARTIAL = "; --partial builds the subgraphs without it, and leaves it to ONNX Runtime or LiteRT (docs/drop-in.md)"


def build_model_file(options: BuildOptions, model: Path) -> None:
    """Build a library of one model, or of its subgraphs with --partial, and print the report. Raises: MavcgError."""
    from mavcg.model.partial.request import make_partial_request
    from mavcg.model.request import (
        make_model_request,
        refuse_program_options,
        without_declared_shapes,
    )

    refuse_program_options(program_options(options))
    made = library_options(options)
    board, cores, assumed = assume_machine(options.board, names_of_option(options.cores), options.target)
    made = replace(made, board=board, cores=cores, several=True, bounded=True)
    request, _ = make_model_request(model, options.output, made, selection_options(options))
    request = replace(without_declared_shapes(request, options.ignore_declared_shapes), strip=options.strip)
    if options.simulate_unsure:
        simulate_unsure_choices(request, options.partial, board)
    limits = build_limits(options.max_seconds, options.max_memory, model)
    partial_request = make_partial_request(request, options.partial, options.also, options.min_share)
    if partial_request is not None:
        document = build_partial_and_report(partial_request, limits, options.as_json)
    else:
        document = build_and_report(request, limits, options.as_json)
    if assumed:  # after the build: if it fails, its error is the only message
        note(assumed)
    if options.as_json:
        print_json(document)


def assume_machine(
    board: str | None, cores: tuple[str, ...], target: str | None
) -> tuple[str | None, tuple[str, ...], str]:
    """Return the board and the cores to build for, and a sentence on what was assumed; "" if nothing was.

    If no machine is named, a build is for this machine, and one with a target gets the generic version alone.
    """
    from mavcg.hardware.board import HOST
    from mavcg.hardware.core import GENERIC

    if board is not None or cores:
        return board, cores, ""
    if target:
        versions = f"one generic version for {target}; --board NAME adds a version for each core type"
        return None, (GENERIC,), f"no cores are named: {versions}"
    return HOST, (), "no cores are named: built for this machine (--board host)"


def simulate_unsure_choices(request: "ModelRequest", partial: bool, board: str | None) -> None:
    """Simulate the primitives of a model among which the cost model cannot tell the fastest, before it is built.

    Raises: MavcgError for a build that chooses no primitives, and for a board that cannot be simulated.
    """
    from mavcg.choose.algorithms.strategies import ENGINE
    from mavcg.lab.tuning.simulated_choices import simulate_unsure
    from mavcg.model.reading import read_network

    option = "--simulate-unsure"
    if board is None or request.strategy == ENGINE:
        raise MavcgError(f"{option}: nothing is selected by costs; name a --board, and no --strategy {ENGINE}")
    if partial or request.sizes or request.bounds:
        raise MavcgError(f"{option}: is for whole models of one size; leave it, or --partial and further sizes, out")
    network = read_network(str(request.model), request.shapes)
    with Progress() as progress:
        simulate_unsure(
            network,
            board,
            "",
            request.db,
            request.workers,
            note=note,
            progress=lambda number, total, label: progress(f"{number} of {total}: {label}"),
        )


def build_and_report(request: "ModelRequest", limits: ResourceLimits, as_json: bool) -> dict[str, Any]:
    """Build the library and print its report. Raises: MavcgError, with nothing written.

    Returns: the JSON document, or {} after a report on stdout.
    """
    from mavcg.importers.limits import NeedsConstant, Unsupported
    from mavcg.model.model import build_model
    from mavcg.model.report import model_json, show_model
    from mavcg.model.sized_model import build_sized
    from mavcg.passes.graph.states import proposed_states

    with enforce_limits(limits, str(request.model)) as progress:
        try:
            if request.sizes:
                return _report_sized(build_sized(request, progress), as_json)
            result = build_model(request, progress)
        except ToolError:
            raise
        except MavcgError as error:
            # The importers name the file themselves; passes and kernels know nodes only.
            model = request.model
            can_be_partial = model.suffix.lower() in (".onnx", ".tflite")
            if isinstance(error, Unsupported | NeedsConstant) and can_be_partial and "(docs/" not in str(error):
                error.args = (f"{error}{PARTIAL}", *error.args[1:])  # messages with "(docs/" have another remedy
            raise (error if model.name in str(error) else MavcgError(f"{model}: {error}")) from error
    if not request.states and (pattern := proposed_states(result.plan.graph)):
        note(f"{request.model}: looks like a decoder with caches; --state '{pattern}' keeps them in the context")
    if as_json:
        return model_json(result)
    show_model(result, console())
    return {}


def build_partial_and_report(request: "PartialRequest", limits: ResourceLimits, as_json: bool) -> dict[str, Any]:
    """Build a library of subgraphs, write the model that calls it, and print the report. Raises: MavcgError.

    Returns: the JSON document, or {} after a report on stdout.
    """
    from mavcg.model.partial.build import build_partial
    from mavcg.model.partial.report import partial_json, show_partial

    with enforce_limits(limits, str(request.build.model)) as progress:
        result = build_partial(request, progress)
    if as_json:
        return partial_json(result)
    show_partial(result, console())
    return {}


def _report_sized(result: "SizedResult", as_json: bool) -> dict[str, Any]:
    from mavcg.model.sized_model import sized_json, sized_lines

    if as_json:
        return sized_json(result)
    for line in sized_lines(result):
        console().print(line, highlight=False)
    return {}
