"""A network's primitives selected for one core of a board: what `mavcg select` asks, and what it answers."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.host import HOST, find_board, measured_host_board
from mavcg.importers.load import SUFFIXES, import_model
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.passes.graph.pipeline import optimise
from mavcg.planner.board_machine import ClusterMachine, cluster_machines
from mavcg.planner.networks import NAMES
from mavcg.planner.networks import network as built_in
from mavcg.selection.choice import Limits, make_problem
from mavcg.selection.cost_db import default_path, open_db
from mavcg.selection.costs import CostProvider, first_of
from mavcg.selection.modelled import modelled_costs
from mavcg.selection.network import Network, network_of
from mavcg.selection.report import Selection
from mavcg.selection.strategies import PBQP, TIME_LIMIT_S, compare, select


@dataclass(frozen=True)
class SelectQuestion:
    """How to select. core: of the board, "" for its fastest. max_error, max_workspace_bytes: of each primitive.

    shared: conversions of an image that several nodes read are counted once. db: of costs; None: this user's, where
    there is one.
    """

    strategy: str = PBQP
    core: str = ""
    max_error: float = math.inf
    max_workspace_bytes: int | None = None
    shared: bool = False
    db: Path | None = None
    time_limit_s: float = TIME_LIMIT_S


def read_network(model: str, shapes: Mapping[str, tuple[int, ...]]) -> Network:
    """A built-in network, or a model's file, after the passes that every model goes through.

    Raises: MavcgError for what is neither, for a file that cannot be imported, and where no convolution is f32.
    """
    if model in NAMES:
        if shapes:
            raise MavcgError(f"--shape: {model} is a built-in network of one shape; give a model's file")
        return network_of(optimise(built_in(model)))
    path = Path(model)
    if not path.exists() and path.suffix.lower() not in SUFFIXES:
        raise MavcgError(
            f"{model}: is neither a file nor a built-in network; name a model file (.onnx or .tflite), "
            f"or one of {', '.join(NAMES)}"
        )
    found = network_of(optimise(import_model(path, shapes)))
    if not found.convolutions:
        why = "; ".join(sorted({f"{node.name} {node.why}" for node in found.left_out})[:3])
        raise MavcgError(
            f"{model}: has no convolution that primitives compute{': ' + why if why else ''}; name a model with square "
            f"convolutions of f32, of one image"
        )
    return found


def machine_of(board: str, core: str = "") -> ClusterMachine:
    """A core of a board: the one of that name, or the fastest. Raises: MavcgError for unknown ones."""
    machines = cluster_machines(measured_host_board() if board == HOST else find_board(board))
    if core:
        for machine in machines:
            if machine.cluster.core == core:
                return machine
        names = ", ".join(dict.fromkeys(machine.cluster.core for machine in machines))
        raise MavcgError(f"--core {core}: {board} has no such core; it has {names}")
    return max(machines, key=lambda one: one.accelerator.frequency_ghz * one.accelerator.pes)


def select_network(model: str, network: Network, board: str, question: SelectQuestion) -> Selection:
    """Select by the question's strategy, and by all others to compare; costs of the database first, then of the model.

    Raises: MavcgError for an unknown board, core or strategy, a limit that leaves nothing, a database that is none.
    """
    machine = machine_of(board, question.core)
    limits = Limits(question.max_error, question.max_workspace_bytes)
    with contextlib.ExitStack() as stack:
        costs = costs_of(machine, question.db, stack)
        problem = make_problem(network, costs, all_primitives(), limits, question.shared)
    compared = compare(problem, question.time_limit_s)
    # Asked again where it is unknown or cannot do the network, to say why.
    selected = compared.get(question.strategy) or select(problem, question.strategy, question.time_limit_s)
    return Selection(
        model, board, machine.cluster.core, 1, problem, selected, compared, machine.assumed
    )  # fmt: skip


def costs_of(machine: ClusterMachine, db: Path | None, stack: contextlib.ExitStack) -> CostProvider:
    """What the database has, else what is modelled; open as long as the stack is. db: None is this user's, if any."""
    model = modelled_costs(machine)
    path = _database(db)
    if path is None:
        return model
    database = stack.enter_context(open_db(path))
    return first_of(database.provider(machine.cluster.core, 1, model.block), model)


def _database(db: Path | None) -> Path | None:
    """Raises: MavcgError where one is named that is not there."""
    if db is not None:
        if not db.exists():
            raise MavcgError(f"--db {db}: there is no such file; `mavcg tune MODEL --db {db}` makes it")
        return db
    try:
        path = default_path()
    except MavcgError:
        return None  # this user keeps nothing
    return path if path.exists() else None
