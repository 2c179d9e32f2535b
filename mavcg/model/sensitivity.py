"""Sensitivity of a prediction to the assumed facts of a board: each is varied, and all choices are made again.

Those of the cores are varied by the error of each core's model (core_sensitivity.py).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mavcg.choose.predict.files import is_model_file
from mavcg.choose.predict.kernel_cycles import KnownModels
from mavcg.choose.predict.predict import Prediction, best_threads, predict
from mavcg.cost.board_model import core_models
from mavcg.errors import MavcgError
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.hardware.board import Board
from mavcg.hardware.core_model import AssumedFact
from mavcg.importers.load import import_model
from mavcg.model.core_sensitivity import CoreEffect, core_effects, core_facts_json
from mavcg.model.dump import dump
from mavcg.model.estimating import read_source
from mavcg.model.precision import F32, optimised_graph

FACTORS = (0.5, 2.0)
NO_CACHE = "l2_bytes"  # for this fact 0 is tried too, as some cores have no L2
ASSUMED = "assumed"  # beginning of a source that is neither a measurement nor a publication
_PLACE = re.compile(r"(?:clusters\[(\d+)\]\.)?(\w+)")  # a fact, as named in the sources of board files
_UNITS = {"_bytes": "bytes", "_gb_per_s": "GB/s", "_khz": "kHz", "_cores": "cores", "": "1"}
_WHOLE = ("max_khz", "l1d_bytes", "l2_bytes", "l2_cores", "l3_bytes")


@dataclass(frozen=True)
class Effect:
    """The effect of another value of a fact.

    layers: layers whose kernel or tasks change. refused: reason why the value is impossible, "" if it is possible.
    """

    fact: AssumedFact
    factor: float
    value: float
    ms: float = 0.0
    fastest_threads: int = 0
    layers: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Sensitivity:
    """The prediction with all assumptions unchanged, and the effect of varying each.

    cores: effects of the rates of cores; none for a library, in which all is chosen.
    """

    plain: Prediction
    effects: tuple[Effect, ...]
    cores: tuple[CoreEffect, ...] = ()


def assumed_facts(board: Board) -> tuple[AssumedFact, ...]:
    """Return the assumed facts of a board, each once: facts that its file lacks, and facts that it states as
    assumptions."""
    missing = (fact for machine in core_models(board) for fact in machine.missing)
    return tuple(dict.fromkeys((*missing, *_stated_assumptions(board))))


def _stated_assumptions(board: Board) -> Iterator[AssumedFact]:
    """Yield the facts in the board's file whose source begins with "assumed"."""
    for key_path, source in board.sources:
        match = _PLACE.fullmatch(key_path)
        if match is None or not source.startswith(ASSUMED):
            continue
        number, key = None if match[1] is None else int(match[1]), match[2]
        value = getattr(board if number is None else board.clusters[number], key, None)
        if isinstance(value, int | float):
            unit = next(unit for ending, unit in _UNITS.items() if key.endswith(ending))
            yield AssumedFact(number, key, value, unit)


def with_fact(board: Board, fact: AssumedFact, value: float) -> Board:
    """Return the board with another value of a fact."""
    changes: dict[str, Any] = {fact.key: max(1, round(value)) if fact.key in _WHOLE else value}
    if fact.key == NO_CACHE and value == 0:
        changes = {fact.key: 0, "l2_cores": None, "l2_gb_per_s": None}
    if fact.cluster is None:
        return replace(board, **changes)
    clusters = [replace(c, **changes) if n == fact.cluster else c for n, c in enumerate(board.clusters)]
    return replace(board, clusters=tuple(clusters))


def sensitivity(
    path: Path,
    board: Board,
    threads: int,
    shapes: Mapping[str, tuple[int, ...]],
    workers: int,
    factors: Sequence[float] = FACTORS,
    progress: Callable[[str], None] = lambda message: None,
) -> Sensitivity:
    """Predict a model again with each assumed fact times each factor, and without an assumed L2. Raises: MavcgError.

    All choices are made again for each value, and for each rate of a core that is wrong by as much as its model errs.
    workers: processes, each with a value of its own.
    """
    known: KnownModels = {}  # of the unchanged board: processes of the trials begin with them
    plain = predict(read_source(path, board, shapes, progress), threads, workers, progress, known=known)
    trials = [(fact, f) for fact in assumed_facts(board) for f in (*factors, *((0.0,) if fact.key == NO_CACHE else ()))]

    def effect(fact: AssumedFact, factor: float) -> Effect:
        value = fact.value * factor
        try:
            source = read_source(path, with_fact(board, fact, value), shapes, lambda message: None)
            prediction = predict(source, threads, known=known)
        except MavcgError as error:
            return Effect(fact, factor, value, refused=str(error))
        layers = changed_layers(plain, prediction)
        return Effect(fact, factor, value, prediction.total_ms, best_threads(prediction).threads, layers)

    tasks = [
        Task(f"{name_of(fact, board)} times {factor:g}", partial(effect, fact, factor))
        for fact, factor in trials
        if not factor or fact.key not in _WHOLE or max(1, round(fact.value * factor)) != round(fact.value)
    ]
    effects = run_tasks(tasks, workers, progress)
    cores: tuple[CoreEffect, ...] = ()
    if is_model_file(path):
        graph = optimised_graph(import_model(path, shapes), F32, dump)
        cores = core_effects(path.stem, graph, board, workers, progress)
    return Sensitivity(plain, tuple(effects), cores)


def changed_layers(plain: Prediction, changed: Prediction) -> tuple[str, ...]:
    """Return the layers whose kernel or tasks differ between the predictions, and those in only one of them."""

    def choices(prediction: Prediction) -> dict[str, list[object]]:
        by_layer: dict[str, list[object]] = {}
        for layer in prediction.layers:
            work = layer.work
            by_layer.setdefault(work.name, []).append((work.op, work.kernel, work.call_rows, work.chunk_rows))
        return by_layer

    before, after = choices(plain), choices(changed)
    return tuple(name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name))


def name_of(fact: AssumedFact, board: Board) -> str:
    """Return the name of a fact: its core or board, and its key."""
    return f"{board.name if fact.cluster is None else board.clusters[fact.cluster].core}: {fact.key}"


def sensitivity_json(result: Sensitivity, board: Board) -> dict[str, Any]:
    """Return the document of `mavcg estimate --sensitivity --json`."""
    plain = result.plain
    return {
        "model": plain.model,
        "board": plain.board,
        "threads": plain.chosen.threads,
        "times_are": "modelled, not measured",
        "ms": round(plain.total_ms, 6),
        "fastest_threads": best_threads(plain).threads,
        "layers": len(plain.layers),
        "facts": [
            {
                "cluster": None if e.fact.cluster is None else board.clusters[e.fact.cluster].core,
                "key": e.fact.key,
                "unit": e.fact.unit,
                "assumed": e.fact.value,
                "factor": e.factor,
                "value": e.value,
                **(
                    {"refused": e.refused}
                    if e.refused
                    else {
                        "ms": round(e.ms, 6),
                        "ratio": round(e.ms / plain.total_ms, 4) if plain.total_ms else 1.0,
                        "fastest_threads": e.fastest_threads,
                        "layers_changed": list(e.layers),
                    }
                ),
            }
            for e in result.effects
        ],
        "core_facts": core_facts_json(result.cores),
    }
