"""Choices that change if the model of a core is wrong: each rate of a core is changed by the error of its model.

That error is the one which published cycles of kernels show (cost/model_error.py). The choices are those of algorithms,
layouts, bands and macro-tiles, which are made by the rates before there is code; the time that a change costs follows
from the code, and is not predicted here.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mavcg.choose.predict.predict import PredictedProgram
from mavcg.cost.board_model import ALL_RATES, RATE_KEYS, with_rate
from mavcg.cost.model_error import ModelError, model_error
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.graph import Graph
from mavcg.hardware.board import Board
from mavcg.hardware.core_model import BoardModel
from mavcg.model.estimating import lower_for_cores, model_of


@dataclass(frozen=True)
class ChangedChoice:
    """A layer whose choice changes: its kernels and their tasks with the core's own rates, and with the changed one."""

    layer: str
    before: str
    after: str


@dataclass(frozen=True)
class CoreEffect:
    """The effect of another rate of a core. key: of RATE_KEYS, or ALL_RATES. factor: of the core's own rate."""

    core: str
    key: str
    error: ModelError
    factor: float
    choices: tuple[ChangedChoice, ...]


def core_effects(
    name: str,
    graph: Graph,
    board: Board,
    workers: int,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[CoreEffect, ...]:
    """Make the choices of a model again with each rate of each core less, and more, by the error of the core's model.

    graph: optimised. workers: processes. Cores that are not known have no effects.
    """
    model = model_of(board)
    own = lower_for_cores(name, graph, model, progress)

    def effect(core: str, key: str, error: ModelError, factor: float) -> CoreEffect:
        changed = lower_for_cores(name, graph, with_rate(model, core, key, factor), lambda message: None)
        return CoreEffect(core, key, error, factor, changed_choices(own, changed))

    tasks = [
        Task(f"{core}: {key} times {factor:g}", partial(effect, core, key, error, factor))
        for core, error in _errors(model)
        for key, factor in itertools.product((ALL_RATES, *RATE_KEYS), (error.least_ratio, 1 + error.fraction))
    ]
    return tuple(run_tasks(tasks, workers, progress))


def _errors(model: BoardModel) -> Iterator[tuple[str, ModelError]]:
    """Yield each type of core of a board, and the error of its model."""
    cores = {cluster.core.name: cluster.core for cluster in model.clusters if cluster.core is not None}
    yield from ((name, model_error(core)) for name, core in cores.items())


def changed_choices(own: PredictedProgram, changed: PredictedProgram) -> tuple[ChangedChoice, ...]:
    """Return the layers whose kernels, tasks or macro-tiles differ between two programs of a model."""
    before, after = _choices(own), _choices(changed)
    return tuple(
        ChangedChoice(layer, _text(before.get(layer)), _text(after.get(layer)))
        for layer in dict.fromkeys([*before, *after])
        if before.get(layer) != after.get(layer)
    )


def _choices(program: PredictedProgram) -> dict[str, list[str]]:
    """Return what is chosen for each layer: a text for each of its steps."""
    chosen: dict[str, list[str]] = {}
    for work in program.works:
        tiles = sorted(f"{label} {tile}" for kernel, label, tile in program.plan if kernel == work.kernel)
        chosen.setdefault(work.name, []).append(
            f"{work.kernel}, {work.call_rows} of {work.rows} rows a task" + "".join(f"; {tile}" for tile in tiles)
        )
    return chosen


def _text(steps: Sequence[str] | None) -> str:
    return " + ".join(steps) if steps else "no step"


def core_facts_json(effects: Sequence[CoreEffect]) -> list[dict[str, Any]]:
    """Return the rows of `core_facts` of `mavcg estimate --sensitivity --json`."""
    return [
        {
            "core": effect.core,
            "key": effect.key,
            "error": effect.error.fraction,
            "error_is": "assumed" if effect.error.is_assumed else "published",
            "factor": effect.factor,
            "choices": [
                {"layer": choice.layer, "own": choice.before, "changed": choice.after} for choice in effect.choices
            ],
        }
        for effect in effects
    ]


def core_rows(facts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a table of these rows: core, rate, change and the layers whose choices change."""
    for row in facts:
        layers = ", ".join(choice["layer"] for choice in row["choices"])
        yield row["core"], row["key"], f"{100 * (row['factor'] - 1):+.1f} %", layers or "none"
