"""Measures a network's primitives on the cores of a board, for `mavcg tune`."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mavcg.choose.algorithms.costs.database import CostDb, compiler_version
from mavcg.choose.algorithms.costs.modelled import modelled_costs
from mavcg.choose.algorithms.costs.threads import threaded_costs
from mavcg.choose.algorithms.network import Network
from mavcg.cost.board_model import core_models
from mavcg.errors import MavcgError
from mavcg.hardware.board import HOST, Board
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.cpu_list import cpus_text
from mavcg.hosts.host import find_board, measured_host_board
from mavcg.lab.runners.bench_run import BenchOptions
from mavcg.lab.runners.core_cpus import cpus_of, differences, hints
from mavcg.lab.runners.facts import MachineFacts
from mavcg.lab.runners.shell_runner import ShellRunner
from mavcg.lab.tuning.measured_core import ReachedCore
from mavcg.lab.tuning.state import INTERRUPT, RunControl, TunedOn
from mavcg.lab.tuning.tune_core import tune_on
from mavcg.lab.tuning.work_list import WorkList, fastest, plan_of
from mavcg.profiles.load import cores_for
from mavcg.runtime.machines import block_of
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import Primitive
from mavcg.toolchain.codegen import default_workers
from mavcg.toolchain.target import parse_target

LOCAL = "local"
EVICT_BYTES = 64 << 20  # minimum of bytes read to evict caches; more than a phone's caches


@dataclass(frozen=True)
class BoardCore:
    """A core of the board, and the CPUs that threads run on."""

    model: CoreModel
    cpus: tuple[int, ...]

    @property
    def machine(self) -> Machine:
        """The core as emitters see it."""
        return self.model.machine

    @property
    def core(self) -> Core | None:
        """Facts of its file."""
        return self.model.core

    @property
    def threads(self) -> int:
        """Number of threads to measure with."""
        return max(1, len(self.cpus))


@dataclass(frozen=True)
class TunedCore:
    """The costs of a network's primitives, measured on one core."""

    board_core: BoardCore
    plan: WorkList
    tuned: TunedOn


def board_of(name: str, runner: str) -> Board:
    """Return the board to measure. Raises: MavcgError for an unknown board, or if a remote machine's is not named."""
    if name != HOST:
        return find_board(name)
    if runner != LOCAL:
        raise MavcgError(f"--runner {runner}: its board is not named; name it by --board (`mavcg cores` lists them)")
    return measured_host_board()


def board_cores(
    board: Board, requested: Sequence[str], runner: str, facts: MachineFacts, threads: int = 1
) -> tuple[tuple[BoardCore, ...], tuple[str, ...]]:
    """Return the requested cores, or all of the board's, each with as many CPUs as threads; and warnings.

    Raises: MavcgError for cores that the board or the machine does not have, or for another architecture.
    """
    clusters = core_models(board, threads)
    names = list(dict.fromkeys(cluster.cluster.core for cluster in clusters))
    for core in requested:
        if core not in names:
            raise MavcgError(f"--core {core}: {board.name} has no such core; it has {', '.join(names)}")
    target = parse_target(board.target)
    if facts.arch != target.arch:
        raise MavcgError(f"{runner}: is {facts.arch}, and {board.name} is {target.arch}; name its own --board")
    if known := [name for name in names if name != GENERIC]:
        cores_for(known)  # refuses a core without a file
    tunable, warnings = [], []
    for name in list(dict.fromkeys(requested)) or names:
        cpus: tuple[int, ...] = ()
        if facts.cpus:  # without Linux, this machine neither lists its CPUs nor binds threads
            cpus, warning = cpus_of(facts, board, name, runner, threads)
            warnings += [warning] if warning else []
        elif threads > 1:
            raise MavcgError(f"{runner}: --threads {threads}: does not bind threads to CPUs; leave it out")
        cluster = next(c for c in clusters if c.cluster.core == name)
        tunable.append(BoardCore(cluster, cpus))
    return tuple(tunable), tuple(warnings)


def tune_network(
    network: Network,
    primitives: Sequence[Primitive],
    board: Board,
    board_cores: Sequence[BoardCore],
    runner: ShellRunner,
    facts: MachineFacts,
    database: CostDb,
    control: RunControl,
) -> list[TunedCore]:
    """Measure the primitives that the model does not rule out, core by core; an interrupt or the limit ends all.

    control: its time limit is for all cores, in equal parts. Raises: as plan_of and tune_on.
    """
    local = runner.name == LOCAL
    host = platform.node() if local else " ".join(word for word in (runner.name, facts.model) if word)
    done: list[TunedCore] = []
    for number, core in enumerate(board_cores):
        where = ", ".join(filter(None, (core.machine.name, cpus_text(core.cpus))))
        plan = core_plan(network, primitives, core, where, control.note)
        reached = ReachedCore(core.machine, core.core, core.cpus, not local, host, default_workers(), runner=runner)
        spent_s = sum(tuned_core.tuned.seconds for tuned_core in done)
        part = control.part(spent_s, len(board_cores) - number)
        tuned = tune_on(plan, database, reached, part, bench_options(board, [facts]))
        for words in (*tuned.notes, *(f"{job.name}: {why}" for job, why in tuned.failed)):
            control.note(words)
        done.append(TunedCore(core, plan, tuned))
        if tuned.stopped == INTERRUPT:
            break
    for words in disagreements(done):
        control.note(words)
    return done


def core_plan(
    network: Network, primitives: Sequence[Primitive], core: BoardCore, where: str, note: Callable[[str], None]
) -> WorkList:
    """Return the plan of measurements of a network on a core, with notes on assumptions. Raises: as plan_of."""
    model = modelled_costs(core.model) if core.threads == 1 else threaded_costs([core.model] * core.threads)
    plan = plan_of(network, primitives, model)
    for words in (*core.model.assumed, *plan.left_out):
        note(words)
    note(
        f"{where}: {len(plan.scenarios)} convolutions, {len(plan.sizes)} sizes of images: {len(plan.jobs)} "
        f"measurements, {plan.pruned} left out by the model"
    )
    return plan


def bench_options(board: Board, machines: Sequence[MachineFacts]) -> BenchOptions:
    """Return the options of programs for all these machines; the memory to evict caches is available on each."""
    evict_bytes = max(EVICT_BYTES, 2 * (board.l3_bytes or 0))
    evict_bytes = min([evict_bytes, *(facts.memory_bytes // 4 for facts in machines if facts.memory_bytes)])
    return BenchOptions(evict_bytes=evict_bytes)


def disagreements(tuned_cores: Sequence[TunedCore]) -> list[str]:
    """Return descriptions of scenarios in which two cores computed different bits from equal inputs, an error."""
    first: dict[object, tuple[str, str]] = {}
    disagreeing = []
    for tuned_core in tuned_cores:
        name = tuned_core.board_core.machine.name
        for job, checksum in tuned_core.tuned.checksums.items():
            before, first_core = first.setdefault(job.what, (checksum, name))
            if before != checksum:
                disagreeing.append(f"{job.name}: {name} and {first_core} compute other results; tell the authors")
    return disagreeing


def facts_document(runner: str, facts: MachineFacts, board: Board | None) -> dict[str, Any]:
    """Return the JSON document of a machine's facts, for --check."""
    return {
        "runner": runner,
        **asdict(facts),
        "celsius": dict(facts.celsius),
        "board": board.name if board else None,
        "differences": list(differences(facts, board)) if board else [],
        "hints": list(hints(facts)),
    }


def tuned_document(
    model: str,
    board: str,
    runner: str,
    tuned_cores: Sequence[TunedCore],
    database: CostDb,
    primitives: Sequence[Primitive],
) -> dict[str, Any]:
    """Return the JSON document of the results: a table for each core, and sums."""
    cores = [_core_document(tuned_core, database, primitives) for tuned_core in tuned_cores]
    threads = max((tuned_core.board_core.threads for tuned_core in tuned_cores), default=1)
    sums = {
        key: sum(core[key] for core in cores)
        for key in ("measured", "already", "pruned", "left", "in_turns", "undecided", "seconds")
    }
    stopped = next((tuned_core.tuned.stopped for tuned_core in tuned_cores if tuned_core.tuned.stopped), "")
    return {
        "model": model,
        "board": board,
        "runner": runner,
        "threads": threads,
        "compiler": compiler_version(),
        **sums,
        "stopped": stopped,
        "cores": cores,
    }


def _core_document(tuned_core: TunedCore, database: CostDb, primitives: Sequence[Primitive]) -> dict[str, Any]:
    plan, tuned, machine = tuned_core.plan, tuned_core.tuned, tuned_core.board_core.machine
    costs = database.provider(machine.name, tuned_core.board_core.threads, block_of(machine))
    return {
        "core": machine.name,
        "cpus": list(tuned_core.board_core.cpus),
        "convolutions": len(plan.scenarios),
        "sizes": len(plan.sizes),
        "measured": len(tuned.measured),
        "already": tuned.already,
        "pruned": plan.pruned,
        "left": tuned.left,
        "in_turns": tuned.interleaved,
        "undecided": tuned.undecided,
        "failed": [{"what": job.name, "why": why} for job, why in tuned.failed],
        "seconds": tuned.seconds,
        "program_bytes": tuned.program_bytes,
        "fastest": [
            {"scenario": scenario.text, "primitive": name, "macs": scenario.macs, **asdict(cost)}
            for scenario, name, cost in fastest(plan, costs, primitives)
        ],
        "costs": [{"what": job.name, "predicted_ms": job.predicted_ms, **asdict(cost)} for job, cost in tuned.measured],
    }
