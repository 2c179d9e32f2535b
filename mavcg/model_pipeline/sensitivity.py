"""Sensitivity of a prediction to the facts assumed of a board: each is varied, and choices are made anew."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mavcg.cost_model.board_machine import AssumedFact, cluster_machines
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.model_pipeline.estimating import predict_file
from mavcg.predict.predict import Prediction, best_threads

FACTORS = (0.5, 2.0)
NO_CACHE = "l2_bytes"  # some chips' cores have no level 2 of their own: 0 is tried too
ASSUMED = "assumed"  # how a source begins that gives a reason, and no measurement or publication
_PLACE = re.compile(r"(?:clusters\[(\d+)\]\.)?(\w+)")  # of a fact, as board files' sources name it
_UNITS = {"_bytes": "bytes", "_gb_per_s": "GB/s", "_khz": "kHz", "_cores": "cores", "": "1"}
_WHOLE = ("max_khz", "l1d_bytes", "l2_bytes", "l2_cores", "l3_bytes")


@dataclass(frozen=True)
class Effect:
    """A fact with another value. layers: whose kernel or tasks are others. refused: why this value cannot be, if so."""

    fact: AssumedFact
    factor: float
    value: float
    ms: float = 0.0
    fastest_threads: int = 0
    layers: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Sensitivity:
    """The prediction with all assumptions as they are, and the effect of each."""

    plain: Prediction
    effects: tuple[Effect, ...]


def assumed_facts(board: Board) -> tuple[AssumedFact, ...]:
    """Return what is assumed of a board, each fact once: what its file lacks, and what it gives as an assumption."""
    missing = (fact for machine in cluster_machines(board) for fact in machine.missing)
    return tuple(dict.fromkeys((*missing, *_stated_value(board))))


def _stated_value(board: Board) -> Iterator[AssumedFact]:
    """Yield the facts that the board's file has with a source that begins with "assumed"."""
    for place, source in board.sources:
        match = _PLACE.fullmatch(place)
        if match is None or not source.startswith(ASSUMED):
            continue
        number, key = None if match[1] is None else int(match[1]), match[2]
        value = getattr(board if number is None else board.clusters[number], key, None)
        if isinstance(value, int | float):
            unit = next(unit for ending, unit in _UNITS.items() if key.endswith(ending))
            yield AssumedFact(number, key, value, unit)


def with_fact(board: Board, fact: AssumedFact, value: float) -> Board:
    """Return the board with a value for this fact."""
    given: dict[str, Any] = {fact.key: max(1, round(value)) if fact.key in _WHOLE else value}
    if fact.key == NO_CACHE and value == 0:
        given = {fact.key: 0, "l2_cores": None, "l2_gb_per_s": None}
    if fact.cluster is None:
        return replace(board, **given)
    clusters = [replace(c, **given) if n == fact.cluster else c for n, c in enumerate(board.clusters)]
    return replace(board, clusters=tuple(clusters))


def sensitivity(
    path: Path,
    board: Board,
    threads: int,
    shapes: Mapping[str, tuple[int, ...]],
    workers: int,
    factors: Sequence[float] = FACTORS,
    progress: Callable[[str], None] = lambda what: None,
) -> Sensitivity:
    """Predict a model anew with each assumed fact times each factor, choices made anew too; also without an
    assumed level 2. Raises: MavcgError."""
    plain = predict_file(path, board, threads, shapes, workers, progress)
    trials = [(fact, f) for fact in assumed_facts(board) for f in (*factors, *((0.0,) if fact.key == NO_CACHE else ()))]
    effects = []
    for number, (fact, factor) in enumerate(trials, 1):
        value = fact.value * factor
        if factor and fact.key in _WHOLE and max(1, round(value)) == round(fact.value):
            continue
        progress(f"{number} of {len(trials)}: {name_of(fact, board)} times {factor:g}")
        try:
            found = predict_file(path, with_fact(board, fact, value), threads, shapes, workers)
        except MavcgError as error:
            effects.append(Effect(fact, factor, value, refused=str(error)))
            continue
        layers = changed_layers(plain, found)
        effects.append(Effect(fact, factor, value, found.total_ms, best_threads(found).threads, layers))
    return Sensitivity(plain, tuple(effects))


def changed_layers(plain: Prediction, other: Prediction) -> tuple[str, ...]:
    """Return the layers that other kernels compute, in other tasks, or that only one of the two has."""

    def choices(prediction: Prediction) -> dict[str, list[object]]:
        found: dict[str, list[object]] = {}
        for layer in prediction.layers:
            work = layer.work
            found.setdefault(work.name, []).append((work.op, work.kernel, work.call_rows, work.chunk_rows))
        return found

    before, after = choices(plain), choices(other)
    return tuple(name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name))


def name_of(fact: AssumedFact, board: Board) -> str:
    """Return a fact's place and key, in words."""
    return f"{board.name if fact.cluster is None else board.clusters[fact.cluster].core}: {fact.key}"


def sensitivity_json(found: Sensitivity, board: Board) -> dict[str, Any]:
    """Return it as `mavcg estimate --sensitivity --json` prints it."""
    plain = found.plain
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
            for e in found.effects
        ],
    }
