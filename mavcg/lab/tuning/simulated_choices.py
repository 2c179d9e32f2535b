"""Simulated costs for the primitives of a network whose modelled costs are too close to tell the fastest.

Simulating all candidates takes minutes (simulated.py). Here a selection is made with the costs known so far. The
primitives that it chooses, the nearest rival of each and the engine's default are simulated, and the selection is
repeated, until each chosen primitive is simulated or the model is sure of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.choose.algorithms.choice import Alternative
from mavcg.choose.algorithms.costs.database_file import default_path, open_db
from mavcg.choose.algorithms.costs.provider import MODELLED
from mavcg.choose.algorithms.costs.rows import Conversion
from mavcg.choose.algorithms.library import USUAL_NAMES
from mavcg.choose.algorithms.network import Network
from mavcg.choose.algorithms.questions import SelectQuestion
from mavcg.choose.algorithms.select_network import problem_on
from mavcg.choose.algorithms.select_workers import board_of, workers_of
from mavcg.choose.algorithms.strategies import PBQP, TIME_LIMIT_S, select
from mavcg.kernels.primitives.registry import all_primitives, eight_bit_primitives
from mavcg.lab.tuning.simulated import simulate_jobs_on, simulated_cores
from mavcg.lab.tuning.state import RunControl
from mavcg.lab.tuning.tune_network import core_plan
from mavcg.lab.tuning.work_list import Job, unsure_jobs
from mavcg.specs.primitive import Scenario

OPTION = "--simulate-unsure"
MOST_ROUNDS = 8


@dataclass(frozen=True)
class SimulatedChoices:
    """Result. unsure: primitives among which the model cannot tell the fastest; simulated: of these; rounds:
    selections that called for more; settled: the last one called for none."""

    unsure: int
    simulated: int
    rounds: int
    settled: bool


def simulate_unsure(
    network: Network,
    board_name: str,
    core: str,
    db: Path | None,
    workers: int,
    progress: Callable[[int, int, str], None],
    note: Callable[[str], None],
) -> SimulatedChoices:
    """Simulate what the selections of a network's primitives need, for the next selection or build.

    core: of the board, "" for its fastest. db: the database that gets the costs; None: this user's. workers: processes.
    Costs that it has already are not simulated again. Raises: MavcgError for a board or core that cannot be simulated,
    and where the simulator is not installed; KeyboardInterrupt, with what is done kept.
    """
    board = board_of(board_name)
    machines = workers_of(board, core)
    (tunable,) = simulated_cores(board, [machines[0].cluster.core], OPTION)
    plan = core_plan(network, [*all_primitives(), *eight_bit_primitives()], tunable, OPTION, lambda words: None)
    unsure = {job.what: job for job in unsure_jobs(plan, tunable.model.fit.safety.modelled)}
    path = db or default_path()
    simulated, failed = 0, set[Job]()
    with open_db(path) as database:
        for number in range(MOST_ROUNDS):
            problem, _ = problem_on(network, machines, SelectQuestion(core=core, db=path))
            chosen = select(problem, PBQP, TIME_LIMIT_S).choice.chosen
            needed_jobs: dict[Job, None] = {}
            for node in network.convolutions:
                assert node.scenario is not None
                alternatives = problem.alternatives[node.name]
                needed_jobs |= dict.fromkeys(jobs_of_choice(node.scenario, chosen[node.name], alternatives, unsure))
            jobs = [job for job in needed_jobs if job not in failed]
            if not jobs:
                choices = SimulatedChoices(len(unsure), simulated, number, True)
                break
            tuned = simulate_jobs_on(
                jobs, tunable, board, database, workers, RunControl(resume=True, progress=progress)
            )
            simulated += len(tuned.measured)
            failed |= {job for job, _ in tuned.failed}
            for job, why in tuned.failed:
                note(f"{job.name}: {why}")
            if tuned.stopped:
                raise KeyboardInterrupt
        else:
            choices = SimulatedChoices(len(unsure), simulated, MOST_ROUNDS, False)
    note(
        f"{tunable.machine.name}: the model is unsure of {choices.unsure} primitives; {choices.simulated} of them "
        f"simulated in {choices.rounds} rounds"
        + ("" if choices.settled else "; some that are chosen are modelled still")
    )
    return choices


def jobs_of_choice(
    scenario: Scenario,
    chosen: Alternative,
    alternatives: Sequence[Alternative],
    unsure: Mapping[tuple[Scenario, str] | Conversion, Job],
) -> Iterator[Job]:
    """Yield the jobs of a choice that is modelled and unsure, of its nearest rival in the same layouts, and of the
    engine's default."""

    def job_of(alternative: Alternative) -> Job | None:
        assert alternative.primitive is not None
        return unsure.get((alternative.primitive.cost_scenario(scenario), alternative.name))

    if job_of(chosen) is None:
        return
    layouts = chosen.layout_in, chosen.layout_out
    rivals = [
        alternative
        for alternative in alternatives
        if alternative != chosen and (alternative.layout_in, alternative.layout_out) == layouts
    ]
    nearest = min(rivals, key=lambda alternative: alternative.cost.ms, default=chosen)
    for alternative in (
        chosen,
        nearest,
        *(alternative for alternative in alternatives if alternative.name in USUAL_NAMES),
    ):
        job = job_of(alternative)
        if job is not None and alternative.cost.kind == MODELLED:
            yield job
