"""Measures a network's primitives on the boards of a fleet, all types at once, each in its own thread."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from mavcg.choose.algorithms.costs.database_file import open_db
from mavcg.choose.algorithms.network import Network
from mavcg.errors import MavcgError
from mavcg.files.scratch import interrupts_on_signals
from mavcg.hardware.board import Board
from mavcg.hosts.host import find_board
from mavcg.lab.fleet.board_pool import BoardPool
from mavcg.lab.fleet.fleet_file import Fleet, FleetBoard
from mavcg.lab.fleet.fleet_tuning import tune_on_fleet
from mavcg.lab.fleet.hosts import BoardHosts, fleet_facts, open_hosts
from mavcg.lab.fleet.verdicts import BoardSummary
from mavcg.lab.runners.core_cpus import differences, hints
from mavcg.lab.runners.facts import MachineFacts
from mavcg.lab.runners.transport import RunnerError
from mavcg.lab.tuning.measured_core import MeasuredCore
from mavcg.lab.tuning.state import RunControl
from mavcg.lab.tuning.tune_network import BoardCore, TunedCore, bench_options, board_cores, core_plan, disagreements
from mavcg.specs.primitive import Primitive
from mavcg.toolchain.codegen import default_workers

Note = Callable[[str], None]


@dataclass(frozen=True)
class TunedType:
    """The results of each core of a type. boards: (name of the core, summary of a board); "" for unused boards."""

    kind: str
    cores: tuple[TunedCore, ...]
    boards: tuple[tuple[str, BoardSummary], ...]


@dataclass(frozen=True)
class FleetRequest:
    """A request to measure a network. cores: names of the cores to measure on; () for all. database: its file."""

    network: Network
    primitives: Sequence[Primitive]
    cores: tuple[str, ...]
    threads: int
    database: Path
    resume: bool
    limit_s: float | None


def tune_fleet(
    fleet: Fleet, request: FleetRequest, progress: Callable[[str], None], note: Note
) -> tuple[list[TunedType], bool]:
    """Measure on all boards of a fleet; return the results, and True if it was interrupted.

    All measured figures are in the database, also after an interrupt.
    Raises: MavcgError if a type has no board left; as tune_network. The other types are finished first.
    """
    kinds = _kinds(fleet, request.cores)
    stopped = Event()
    interrupted = False
    with interrupts_on_signals(), open_hosts(fleet) as hosts, ThreadPoolExecutor(len(kinds)) as threads:
        facts = fleet_facts(fleet, hosts)
        futures = [
            threads.submit(_tune_type, fleet, kind, facts, request, hosts, stopped, progress, note) for kind in kinds
        ]
        while True:
            try:
                tuned = [future.result() for future in futures]
                return tuned, interrupted
            except KeyboardInterrupt:
                stopped.set()
                interrupted = True
            except BaseException:
                for future in futures:  # measure the other types to their end
                    future.exception()
                raise


def _kinds(fleet: Fleet, cores: Sequence[str]) -> tuple[str, ...]:
    """Return the types that have one of these cores, all types for (). Raises: MavcgError for a core of no type."""
    of_kind = {kind: find_board(kind).cores for kind in fleet.kinds}
    for core in cores:
        if not any(core in has for has in of_kind.values()):
            has = ", ".join(dict.fromkeys(core_name for core_names in of_kind.values() for core_name in core_names))
            raise MavcgError(f"--core {core}: no board of {fleet.path} has it; they have {has}")
    return tuple(kind for kind, has in of_kind.items() if not cores or set(cores) & set(has))


def _tune_type(
    fleet: Fleet,
    kind: str,
    facts: dict[FleetBoard, MachineFacts | str],
    request: FleetRequest,
    hosts: BoardHosts,
    stopped: Event,
    progress: Callable[[str], None],
    note: Note,
) -> TunedType:
    """Measure on the boards of a type, one core after the other."""
    board = find_board(kind)
    places, aside = _usable(fleet, board, facts, request, note)
    known = [machine_facts for fleet_board in places if isinstance(machine_facts := facts[fleet_board], MachineFacts)]
    options = replace(bench_options(board, known), silence_s=fleet.rules.silence_s)
    tuned: list[TunedCore] = []
    summaries = [("", summary) for summary in aside]
    cores = next(iter(places.values()))
    spent_s = 0.0
    with open_db(request.database) as database:
        for number, core in enumerate(cores):
            name = core.machine.name
            cpus = {named_board.name: of_board[number].cpus for named_board, of_board in places.items()}
            measured = MeasuredCore(core.machine, core.core, core.cpus, True, f"fleet: {kind}", default_workers())
            plan = core_plan(request.network, request.primitives, core, f"{kind}, {name}, {len(places)} boards", note)

            def tell(done: int, count: int, words: str, name: str = name) -> None:
                progress(f"{kind}, {name}: {done} of {count}: {words}")

            with BoardPool(list(places), cpus, fleet.rules, hosts, stopped) as pool:
                control = RunControl(request.resume, request.limit_s, tell).part(spent_s, len(cores) - number)
                result = tune_on_fleet(plan, database, measured, pool, options, control)
                summaries += [(name, summary) for summary in pool.summaries()]
            for words in (*result.notes, *(f"{job.name}: {why}" for job, why in result.failed)):
                note(f"{kind}, {name}: {words}")
            spent_s += result.seconds
            tuned.append(TunedCore(core, plan, result))
            if stopped.is_set():
                break
    for words in disagreements(tuned):
        note(f"{kind}: {words}")
    return TunedType(kind, tuple(tuned), tuple(summaries))


def _usable(
    fleet: Fleet, board: Board, facts: dict[FleetBoard, MachineFacts | str], request: FleetRequest, note: Note
) -> tuple[dict[FleetBoard, tuple[BoardCore, ...]], list[BoardSummary]]:
    """Return the usable boards of a type with their cores, and summaries of the other boards with reasons.

    Raises: RunnerError if no board is usable.
    """
    requested = [core for core in request.cores if core in board.cores]
    places: dict[FleetBoard, tuple[BoardCore, ...]] = {}
    aside: list[BoardSummary] = []
    for fleet_board in fleet.boards:
        if fleet_board.kind != board.name:
            continue
        board_facts = facts[fleet_board]
        try:
            if isinstance(board_facts, str):
                raise RunnerError(board_facts)
            places[fleet_board], warnings = board_cores(
                board, requested, fleet_board.runner, board_facts, request.threads
            )
        except MavcgError as error:
            note(f"{fleet_board.name}: is left out: {error}")
            aside.append(BoardSummary(fleet_board.name, fleet_board.kind, aside=str(error)))
            continue
        for words in (*warnings, *differences(board_facts, board), *hints(board_facts)):
            note(f"{fleet_board.name}: {words}")
    if not places:
        reasons = "; ".join(f"{summary.name}: {summary.aside}" for summary in aside)
        raise RunnerError(f"{fleet.path}: no board of type {board.name} can be used: {reasons}")
    return places, aside
