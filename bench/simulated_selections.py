"""Networks selected by modelled costs, with simulated ones where the model is unsure, and with all simulated.

`python -m bench.simulated_selections [NETWORK ..]` selects primitives and layouts for one Arm core three times: by the
model alone, as `mavcg select --simulate-unsure` does it, and after `mavcg tune --runner simulate` of every conversion
and of every primitive that is predicted to take at most twice as long as the fastest of its convolution. The networks
that come out are compared by the last costs: nodes that are computed otherwise, and time. `small_cnn` is the network of
examples/small_cnn; others are those of bench/models.py, and take minutes of CPU time for each of their convolutions'
shapes. Nothing is measured.
"""

import math
import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from bench.models import model_path, shapes_of
from bench.network_options import network_options
from bench.record import facts, write
from examples.small_cnn.make_model import small_cnn
from mavcg.choose.algorithms.choice import Choice, Problem, make_choice
from mavcg.choose.algorithms.costs.database_file import open_db
from mavcg.choose.algorithms.costs.provider import SIMULATED
from mavcg.choose.algorithms.costs.rows import Conversion
from mavcg.choose.algorithms.library import USUAL_NAMES
from mavcg.choose.algorithms.network import Network
from mavcg.choose.algorithms.questions import SelectQuestion
from mavcg.choose.algorithms.select_network import problem_on
from mavcg.choose.algorithms.select_workers import board_of, workers_of
from mavcg.choose.algorithms.strategies import PBQP, TIME_LIMIT_S, select
from mavcg.kernels.primitives.registry import all_primitives, eight_bit_primitives
from mavcg.lab.tuning.simulated import simulate_jobs_on, simulated_cores
from mavcg.lab.tuning.simulated_choices import simulate_unsure
from mavcg.lab.tuning.state import ALL_AT_ONCE
from mavcg.lab.tuning.tune_network import core_plan
from mavcg.lab.tuning.work_list import Job, WorkList
from mavcg.model.reading import read_network
from mavcg.specs.primitive import Scenario

NAME, BOARD = "simulated_selections", "exynos9820"
CORES = ("cortex-a55", "cortex-a75")
NETWORKS = ("small_cnn",)
MODEL, UNSURE, ALL = "model alone", "unsure simulated", "all simulated"
WORSE = 2.0


def read(name: str, folder: Path) -> Network:
    """Return a network by its name. Raises: MavcgError."""
    if name == "small_cnn":
        path = folder / "small_cnn.onnx"
        onnx.save(small_cnn(), path)
        return read_network(str(path), {})
    return read_network(str(model_path(name)), dict(shapes_of(name)))


def near_jobs(plan: WorkList, worse: float = WORSE) -> list[Job]:
    """Return all conversions of a plan, and the primitives that may be at most so many times as slow as the fastest."""
    best: dict[Scenario, float] = {}
    for job in plan.jobs:
        if not isinstance(job.what, Conversion):
            best[job.what[0]] = min(job.predicted_ms, best.get(job.what[0], math.inf))
    return [
        job
        for job in plan.jobs
        if isinstance(job.what, Conversion)
        or job.what[1] in USUAL_NAMES
        or job.predicted_ms <= worse * best[job.what[0]]
    ]


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def priced(problem: Problem, choice: Choice) -> Choice:
    """Return a choice of the same alternatives at this problem's costs."""
    numbers = {
        name: next(n for n, each in enumerate(problem.alternatives[name]) if each.name == chosen.name)
        for name, chosen in choice.chosen.items()
    }
    return make_choice(problem, numbers)


def compared(name: str, core: str, workers: int) -> dict[str, Any]:
    """Return the three selections of a network for a core, and what they take by simulated costs.

    workers: processes. Raises: MavcgError.
    """
    board = board_of(BOARD)
    machines = workers_of(board, core)
    (tunable,) = simulated_cores(board, [core])
    with tempfile.TemporaryDirectory() as folder:
        network = read(name, Path(folder))
        files = {which: Path(folder) / f"{number}.sqlite" for number, which in enumerate((MODEL, UNSURE, ALL))}
        seconds = {MODEL: 0.0}
        open_db(files[MODEL]).close()
        before = cpu_seconds()
        simulated = simulate_unsure(
            network,
            BOARD,
            core,
            files[UNSURE],
            workers,
            progress=lambda *_: None,
            note=lambda words: print(words, file=sys.stderr, flush=True),
        )
        seconds[UNSURE] = cpu_seconds() - before
        primitives = [*all_primitives(), *eight_bit_primitives()]
        jobs = near_jobs(core_plan(network, primitives, tunable, core, lambda _: None))
        print(f"{name}, {core}: {len(jobs)} to simulate", file=sys.stderr, flush=True)
        before = cpu_seconds()
        with open_db(files[ALL]) as database:
            simulate_jobs_on(jobs, tunable, board, database, workers, ALL_AT_ONCE)
        seconds[ALL] = cpu_seconds() - before
        problems = {
            which: problem_on(network, machines, SelectQuestion(core=core, db=file))[0] for which, file in files.items()
        }
    choices = {which: select(problem, PBQP, TIME_LIMIT_S).choice for which, problem in problems.items()}
    return {
        "network": name,
        "core": core,
        "convolutions": len(network.convolutions),
        "all": len(jobs),
        "unsure": simulated.unsure,
        "simulated": simulated.simulated,
        "rounds": simulated.rounds,
        "selections": [
            row_of(which, choices[which], choices[ALL], problems[ALL], network, seconds[which]) for which in files
        ],
    }


def row_of(
    which: str, choice: Choice, best: Choice, problem: Problem, network: Network, seconds: float
) -> dict[str, Any]:
    """Return a selection beside the best one, both at the problem's costs."""
    again, names = priced(problem, choice), [node.name for node in network.convolutions]
    return {
        "costs": which,
        "ms": round(again.total_ms, 6),
        "over_best": round(again.total_ms / best.total_ms, 4),
        "expected_ms": round(choice.total_ms, 6),
        "different": sum(choice.chosen[name].name != best.chosen[name].name for name in names),
        "modelled": sum(again.chosen[name].cost.kind != SIMULATED for name in names),
        "cpu_seconds": round(seconds, 1),
        "chosen": {name: choice.chosen[name].name for name in names},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print the selections, and write bench/results/simulated_selections.json unless networks were named."""
    parser = network_options(NAME, __doc__, NETWORKS, "processes that compile and simulate")
    options = parser.parse_args(arguments)
    rows: list[Mapping[str, Any]] = []
    for network in options.networks or NETWORKS:
        for core in CORES:
            rows.append(compared(network, core, options.jobs))
            print({**rows[-1], "selections": [{**row, "chosen": "..."} for row in rows[-1]["selections"]]}, flush=True)
    if options.networks:
        print("no record: not all networks were compared", file=sys.stderr)
        return 0
    print(f"written: {write(NAME, facts('modelled', f'bench.{NAME}') | {'board': BOARD, 'rows': rows})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
