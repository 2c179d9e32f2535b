"""Pipelining of a prepared network: cuts by name or by balance, and the predicted CPUs of each stage."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from mavcg.apps.application_file import ApplicationFile, NetworkEntry
from mavcg.apps.stage_balance import StageBalance, StageCores, balance_stages, core_teams
from mavcg.apps.stage_cuts import cuts_at
from mavcg.choose.lowering.stage_memory import buffer_uses, plan_stages
from mavcg.choose.plan import Plan
from mavcg.choose.predict.predict import PredictedProgram, Prediction, predict
from mavcg.choose.predict.work import step_works
from mavcg.cost.board_model import board_model
from mavcg.errors import MavcgError
from mavcg.model.model_request import ModelRequest
from mavcg.runtime.program_check import MAX_STAGES
from mavcg.specs.model_program import ProgramStage


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
            board_model(request.cores, request.target, request.board),
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
