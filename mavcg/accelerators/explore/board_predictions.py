"""Latency of networks on boards, by the predictor: the tasks of a space of boards."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mavcg.choose.predict.predict import predict
from mavcg.errors import MavcgError
from mavcg.files.decode import json_document
from mavcg.graph import Graph
from mavcg.graph.parts import DTYPES
from mavcg.hardware.board import Board
from mavcg.importers.declared_shapes import GivenShapes
from mavcg.importers.load import import_model
from mavcg.lab.jobs.messages import MessageError
from mavcg.lab.jobs.sources_digest import compiler_digest
from mavcg.model.estimating import lower_for_board
from mavcg.passes.graph.pipeline import optimise

GRAPHS = 8  # optimised networks that a process caches
# Cores at work, by core type, and ms of a run.
Rows = tuple[tuple[Mapping[str, int], Annotated[float, Meta(ge=0, lt=1e300)]], ...]


@dataclass(frozen=True)
class BoardPrediction:
    """A task: a network on a board. model: path of its file, which must have this digest."""

    model: str
    digest: str
    board: Board

    @property
    def key(self) -> str:
        """Key of the result in the store: digest of the network, all facts of the board, and the code."""
        facts = asdict(replace(self.board, name="", soc="", sources=()))
        text = json.dumps([self.digest, facts, compiler_digest()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def predict_boards(tasks: tuple[BoardPrediction, ...]) -> tuple[str, ...]:
    """Return for each task, as JSON, the working cores and the milliseconds for each number of threads.

    Raises: MavcgError.
    """
    return tuple(map(_predict, tasks))


def rows_of(text: str) -> Rows:
    """Return the rows of a prediction's JSON. Raises: MavcgError for a text that is none."""
    return json_document(text, "a prediction", "run it again").decode(Rows)


def check_predict_boards(tasks: Sequence[BoardPrediction], results: Sequence[str]) -> None:
    """Raise MessageError for a text of a worker that is not a prediction's."""
    for text in results:
        try:
            rows_of(text)
        except MavcgError as error:
            raise MessageError(f"what is no prediction of latencies ({error})") from None


def model_file_digest(model: str) -> str:
    """Return a digest of a model file. Raises: MavcgError."""
    try:
        return hashlib.sha256(Path(model).read_bytes()).hexdigest()[:24]
    except OSError as error:
        remedy = "name an .onnx, .tflite or .prototxt file: boards are predicted from models, not from built-in layers"
        raise MavcgError(f"{model}: cannot be read ({error.strerror or error}); {remedy}") from None


@dataclass(frozen=True)
class ModelWork:
    """A network's multiply-accumulates, and the size of its smallest elements in bytes."""

    macs: int
    element_bytes: int


def model_work(model: str, board: Board, shapes: GivenShapes) -> ModelWork:
    """Return a network's work, lowered for a board. Raises: MavcgError."""
    graph = optimise(import_model(Path(model), shapes))
    works = lower_for_board(Path(model).stem, graph, board, _quiet).works
    element_bytes = min(DTYPES[tensor.dtype].itemsize for tensor in graph.types.values())
    return ModelWork(sum(work.macs for work in works), element_bytes)


def _predict(task: BoardPrediction) -> str:
    source = lower_for_board(Path(task.model).stem, _graph(task.model, task.digest), task.board, _quiet)
    prediction = predict(source)
    return json.dumps([[row.cores, row.ms] for row in prediction.by_threads])


@lru_cache(maxsize=GRAPHS)
def _graph(model: str, digest: str) -> Graph:
    if model_file_digest(model) != digest:
        raise MavcgError(f"{model}: differs from the file at the start of the exploration; give it the same path")
    return optimise(import_model(Path(model), GivenShapes(ignore_declared=True)))  # model_work compared them


def _quiet(message: str) -> None:
    """Ignore the progress of a worker; the process that started the exploration counts tasks."""
