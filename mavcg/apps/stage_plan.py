"""Pipelining of a prepared network: cuts by name or by balance, and the predicted CPUs of each stage."""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mavcg.apps.application_file import ApplicationFile, NetworkEntry
from mavcg.apps.stage_balance import StageBalance, StageCores, balance_stages, core_teams
from mavcg.choose.lowering.lower import LoweredStep
from mavcg.choose.lowering.stage_memory import buffer_uses, plan_stages
from mavcg.choose.plan import Plan
from mavcg.choose.predict.predict import PredictedProgram, Prediction, predict
from mavcg.choose.predict.program_work import step_works
from mavcg.errors import MavcgError
from mavcg.model.model_request import ModelRequest, plan_context
from mavcg.runtime.program_check import MAX_STAGES
from mavcg.specs.model_program import ProgramStage

_NAME = re.compile(r"(?P<origin>.*?)(?::(?P<op>\w+))?(?:#(?P<number>\d+))?")
_BEFORE = ("pad", "convert_layout")  # operations on a layer's input that belong to the layer


@dataclass(frozen=True)
class PipelinedModel:
    """A network with stages. balance: predicted times of the stages; None if no board was given."""

    prepared: Plan
    balance: StageBalance | None


def pipeline_of(
    file: ApplicationFile,
    entry: NetworkEntry,
    prepared: Plan,
    request: ModelRequest,
    progress: Callable[[str], None],
) -> PipelinedModel:
    """Cut a network into the stages that app.toml requests.

    Raises: MavcgError for unknown layers, `auto` without a board, or more partitions than the network has steps.
    """
    location = f"{file.path}: line {entry.line}: network '{entry.name}': partitions"
    steps = len(prepared.lowered.steps)
    cuts = None
    if isinstance(entry.partitions, str):
        count = _count(entry.partitions, request, location)
    else:
        cuts = cuts_at(prepared.lowered.steps, entry.partitions, location)
        count = len(cuts) + 1
    if count > MAX_STAGES:
        raise MavcgError(f"{location}: {count}; a pipeline has up to {MAX_STAGES}: write fewer")
    balance = None
    if request.board is not None:
        prediction = _predict_stages(entry, prepared, request, count, progress)
        progress(f"{entry.name}: balancing {count} partitions")
        balance = _balance(prediction, prepared, entry, count, cuts, request)
        if cuts is None and balance is None:
            raise MavcgError(
                f"{location}: {count} on {request.board.name}, which has "
                f"{sum(len(c.cpus) for c in request.board.clusters)} CPUs, of a network with {steps} steps; write fewer"
            )
    if balance is not None:
        cuts = balance.cuts
    assert cuts is not None
    bounds = list(zip((0, *cuts), (*cuts, steps), strict=True))
    stages = [ProgramStage(begin, end) for begin, end in bounds]
    if balance is not None:
        label_of = {core.number: core.label for core in prediction.clusters.values()}
        stages = [
            replace(stage, cores=(label_of[team.cluster],), threads=team.cores)
            for stage, team in zip(stages, balance.teams, strict=True)
        ]
    return PipelinedModel(plan_stages(prepared, stages), balance)


def _count(partitions: str, request: ModelRequest, location: str) -> int:
    """Return the number of stages that `auto` or `auto:n` requests."""
    if request.board is None:
        raise MavcgError(
            f"{location} = '{partitions}': is balanced by predictions for a board; name a --board, or write the first "
            "layers of the partitions"
        )
    count = int(partitions.partition(":")[2] or len(request.board.clusters))
    if count < 2:
        raise MavcgError(
            f"{location} = '{partitions}': {request.board.name} has one cluster; write auto:2, or leave partitions out"
        )
    return count


def _teams(request: ModelRequest, count: int) -> tuple[StageCores, ...]:
    assert request.board is not None
    return core_teams([len(cluster.cpus) for cluster in request.board.clusters], count)


def _predict_stages(
    entry: NetworkEntry, prepared: Plan, request: ModelRequest, count: int, progress: Callable[[str], None]
) -> Prediction:
    assert request.board is not None
    progress(f"{entry.name}: predicting on {request.board.name}")
    teams = [(team.cluster, team.cores) for team in _teams(request, count)]
    return predict(
        PredictedProgram(
            entry.name,
            plan_context(request, progress).board,
            step_works(prepared),
            prepared.specs,
            prepared.tiles,
            available=[core.name for core in request.cores],
        ),
        1,
        request.workers,
        teams=teams,
    )


def _balance(
    prediction: Prediction,
    prepared: Plan,
    entry: NetworkEntry,
    count: int,
    cuts: tuple[int, ...] | None,
    request: ModelRequest,
) -> StageBalance | None:
    lowered = prepared.lowered
    numbers = {node.output: number for number, node in enumerate(lowered.graph.nodes)}
    nodes = [numbers[node.output] for node in lowered.nodes]
    team_ms = list(zip(_teams(request, count), prediction.team_ms, strict=True))
    return balance_stages(team_ms, count, buffer_uses(lowered), nodes, entry.throughput, cuts)


def cuts_at(steps: Sequence[LoweredStep], layers: Sequence[str], location: str) -> tuple[int, ...]:
    """Return the number of the first step of each stage after the first.

    layers: first layers of these stages, as `mavcg app plan` and `mavcg inspect` name them. location: for messages.
    Raises: MavcgError for an unknown layer, or layers that are not in the order of the steps.
    """
    cuts: list[int] = []
    for layer in layers:
        cut = _first_step(steps, layer)
        if cut is None:
            names = list(dict.fromkeys(step.name for step in steps))
            near = ", ".join(difflib.get_close_matches(layer, names, n=3) or names[:3])
            raise MavcgError(f"{location}: '{layer}' is not a computed layer; did you mean {near}?")
        if cut <= (cuts[-1] if cuts else 0):
            raise MavcgError(
                f"{location}: '{layer}' does not come after the first layer of the previous partition; name the "
                "first layers of later partitions, in the network's order"
            )
        cuts.append(cut)
    return tuple(cuts)


def steps_of_layer(steps: Sequence[LoweredStep], layer: str) -> list[int]:
    """Return the numbers of the steps that compute a layer, named as by `mavcg app plan`; empty if it has no steps."""
    match = _NAME.fullmatch(layer)
    own = [number for number, step in enumerate(steps) if step.name == layer]
    if not own and match is not None:
        op = match["op"]
        own = [
            number
            for number, step in enumerate(steps)
            if step.name == match["origin"] and (op is None or step.node.op in (op, f"primitive_{op}"))
        ]
        if match["number"]:
            outputs = list(dict.fromkeys(steps[number].node.output for number in own))[int(match["number"]) - 1 :][:1]
            own = [number for number in own if steps[number].node.output in outputs]
    return own


def _first_step(steps: Sequence[LoweredStep], layer: str) -> int | None:
    """Return the first step of a layer, or of the preceding operations on its input; None if it has no steps."""
    own = steps_of_layer(steps, layer)
    if not own:
        return None
    first, begin = own[0], own[0]
    while begin and steps[begin - 1].name == steps[first].name and steps[begin - 1].node.op in _BEFORE:
        begin -= 1
    return begin
