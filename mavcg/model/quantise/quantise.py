"""The pipeline of `mavcg quantise`: from a file in f32 and calibration inputs to models with layers in 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.choose.predict.predict import Prediction, predict
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.hardware.board import Board
from mavcg.importers.load import import_model
from mavcg.importers.onnx_file import import_model as import_onnx_model
from mavcg.importers.onnx_proto import load_model
from mavcg.model.estimating import lower_for_board
from mavcg.model.precision import F32, optimised_graph
from mavcg.model.quantise.errors import layer_errors, model_error
from mavcg.model.quantise.front import (
    LayerJudgement,
    Point,
    choose_point,
    judgements,
    measure_points,
    mixtures,
    on_front,
)
from mavcg.model.quantise.layers import layers_of
from mavcg.model.quantise.onnxruntime_models import Quantiser, check_installed, folded_model, runner
from mavcg.model.quantise.samples import check_samples, free_shapes, read_samples
from mavcg.toolchain.target import parse_target

if TYPE_CHECKING:
    import onnx

Progress = Callable[[str], None]
LARGEST_MODEL = 2**31 - 1  # of a protobuf


@dataclass(frozen=True)
class PredictedTimes:
    """Predicted ms of a model, and of the steps of each node of its file."""

    ms: float
    by_node: Mapping[str, float]


PredictGraph = Callable[[Graph], PredictedTimes]


@dataclass(frozen=True)
class QuantiseQuestion:
    """Request of a model with layers in 8 bits.

    point: number of the point to take; None: the fastest within max_error.
    """

    model: Path
    inputs: Path
    board: Board
    max_error: float
    mixtures: int
    point: int | None


@dataclass(frozen=True)
class QuantisedModel:
    """The judgement of each layer, the measured points with the chosen one, and the chosen model's bytes."""

    samples: int
    layers: tuple[LayerJudgement, ...]
    points: tuple[Point, ...]
    front: tuple[bool, ...]
    chosen: int
    model: bytes


def check_format(path: Path) -> None:
    """Raise MavcgError for a file that is not ONNX, with the tool of its format."""
    if path.suffix.lower() == ".tflite":
        raise MavcgError(
            f"{path}: is a TFLite file, and ONNX files are quantised here; give TensorFlow's converter a "
            "representative_dataset, or convert the network to ONNX first"
        )
    if path.suffix.lower() in (".prototxt", ".caffemodel"):
        raise MavcgError(f"{path}: is a Caffe network, and ONNX files are quantised here; convert it to ONNX first")


def quantise(
    question: QuantiseQuestion, predict_graph: PredictGraph, folder: Path, progress: Progress
) -> QuantisedModel:
    """Return the points of a model between f32 and 8 bits, and the model of the chosen one.

    predict_graph: predicts an optimised graph on the board. folder: for files between.
    Raises: MavcgError for a file that mavcg does not support, for bad samples, without layers that can be in 8 bits,
    and as choose_point.
    """
    path = question.model
    check_format(path)
    check_installed()
    progress(f"reading {path.name}")
    inputs, free = inputs_of(load_model(path))
    samples = read_samples(question.inputs, inputs)
    shapes = free_shapes(samples, free)
    plain = import_model(path, shapes)  # checks the file, before another library reads it
    check_samples(samples, {name: plain.types[name] for name in plain.inputs}, question.inputs)
    folded = folded_model(path, folder)
    nodes = layers_of(folded)
    if not nodes:
        raise MavcgError(f"{path}: has no convolution or product with weights in f32: nothing to quantise")
    names = [node.name for node in nodes]
    target = parse_target(question.board.target)
    quantiser = Quantiser(path, folded, samples, target.arch == "x86_64", folder)

    def times(model: onnx.ModelProto, words: str) -> PredictedTimes:
        progress(f"predicting {words} on {question.board.name}")
        return predict_graph(optimised_graph(import_onnx_model(model, path, shapes), F32))

    progress("quantising all layers")
    whole = quantiser.quantise(names)
    errors = layer_errors(folded, whole, names, samples, str(path), progress)
    if not any(error is not None for error in errors.values()):
        raise MavcgError(f"{path}: the quantiser left every layer in f32: nothing to quantise")
    single, eight = times(folded, "the model in f32"), times(whole, "the model in 8 bits")
    layers = judgements([(n.name, n.op_type) for n in nodes], single.by_node, eight.by_node, errors)
    exact_run = runner(folded, str(path))
    exact = [exact_run(sample) for sample in samples]
    models: dict[tuple[str, ...], onnx.ModelProto] = {}

    def measure(chosen: tuple[str, ...]) -> tuple[float, float]:
        words = f"with {len(chosen)} of {len(names)} layers in 8 bits"
        progress(f"quantising {words}")
        model = models[chosen] = whole if list(chosen) == names else quantiser.quantise(chosen)
        prediction = single if not chosen else eight if model is whole else times(model, words)
        run = runner(model, str(path))
        return prediction.ms, model_error(exact, (run(sample) for sample in samples))

    points = measure_points(mixtures(layers, question.mixtures), measure)
    chosen = choose_point(points, question.max_error, question.point)
    content = content_of(models[points[chosen].layers], path)
    return QuantisedModel(len(samples), layers, points, on_front(points), chosen, content)


def predictor(board: Board, name: str, threads: int, workers: int, progress: Progress) -> PredictGraph:
    """Return what predicts a graph on a board, with so many threads."""

    def predict_graph(graph: Graph) -> PredictedTimes:
        prediction = predict(lower_for_board(name, graph, board, progress), threads, workers, progress)
        return PredictedTimes(prediction.total_ms, _ms_by_node(prediction))

    return predict_graph


def inputs_of(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    """Return the names of a model's inputs, and of those that have free dimensions."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    free = [i.name for i in inputs if any(not dim.HasField("dim_value") for dim in i.type.tensor_type.shape.dim)]
    return [i.name for i in inputs], free


def _ms_by_node(prediction: Prediction) -> Mapping[str, float]:
    """Return the predicted ms of the steps of each node of the file."""
    times: dict[str, float] = {}
    for layer in prediction.layers:
        times[layer.work.name] = times.get(layer.work.name, 0.0) + layer.ms
    return times


def content_of(model: onnx.ModelProto, path: Path) -> bytes:
    """Return the bytes of a model's file. Raises: MavcgError for one that is too large for a file."""
    if model.ByteSize() > LARGEST_MODEL:
        raise MavcgError(f"{path}: has {model.ByteSize()} bytes in 8 bits; an ONNX file holds at most {LARGEST_MODEL}")
    content: bytes = model.SerializeToString(deterministic=True)
    return content
