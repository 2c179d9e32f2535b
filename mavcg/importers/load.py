"""Choice of the importer for a file, by its content, then by its name."""

from collections.abc import Collection, Mapping
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.importers.limits import LEAST_TRIPS

SUFFIXES = (".onnx", ".tflite", ".prototxt")
FILES = ".onnx, .tflite or .prototxt"  # in messages
_TFLITE_MARK = b"TFL3"  # a flatbuffer's file identifier, at bytes 4 to 8


def import_model(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    weights: Path | None = None,
    loops: bool = False,
    least_trips: int = LEAST_TRIPS,
) -> Graph:
    """Return the graph of an ONNX or TFLite file, or of a Caffe network's prototxt.

    shapes: shapes of inputs with free dimensions, by name. weights: the caffemodel of a prototxt; None: the file beside
    it. loops: recurrent operators and loops of at least `least_trips` iterations become loops of the graph
    (graph/ops/loops.py); else they are unrolled.
    Raises: MavcgError for a file that is missing, of another format, damaged, or has an unsupported operator.
    """
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except IsADirectoryError as error:
        raise MavcgError(f"{path}: is a folder; name a model file ({FILES})") from error
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); name a model file ({FILES})") from error
    if weights is not None and path.suffix.lower() != ".prototxt":
        raise MavcgError(f"--weights {weights}: is for a Caffe network; {path} holds its weights itself")
    if path.suffix.lower() == ".caffemodel":
        raise MavcgError(f"{path}: holds weights alone; name the network's prototxt, and these by --weights {path}")
    if path.suffix.lower() == ".prototxt":
        from mavcg.importers.caffe_file import import_caffe

        return import_caffe(path, shapes, weights)
    if head[4:8] == _TFLITE_MARK or path.suffix == ".tflite":
        from mavcg.importers.tflite_file import import_tflite

        return import_tflite(path, shapes, loops, least_trips)
    if path.suffix != ".onnx" and not head:
        raise MavcgError(f"{path}: is empty; name a model file ({FILES})")
    from mavcg.importers.onnx_file import import_onnx

    return import_onnx(path, shapes, loops, least_trips)


def model_path(model: str, built_in: Collection[str]) -> Path:
    """Return the path of a model's file, where a name may also be that of a built-in network, but is not here.

    Raises: MavcgError for a name that is no file's either.
    """
    path = Path(model)
    if not path.exists() and path.suffix.lower() not in SUFFIXES:
        raise MavcgError(
            f"{model}: is neither a file nor a built-in network; name a model file ({FILES}), "
            f"or one of {', '.join(built_in)}"
        )
    return path


def dimension_name(path: Path, tensor: str, axis: int) -> str:
    """Return the name of a dimension of an input: the file's if it is free and has one, else <input>.<axis>.

    Raises: MavcgError as import_model.
    """
    if path.suffix.lower() == ".onnx":
        from mavcg.importers.onnx_file import dims_of
        from mavcg.importers.onnx_proto import load_model

        for info in load_model(path).graph.input:
            if info.name == tensor and axis < len(dims := dims_of(info)) and dims[axis]:
                return str(dims[axis]) if isinstance(dims[axis], str) else f"{tensor}.{axis}"
    return f"{tensor}.{axis}"


def is_model(path: Path) -> bool:
    """Return True if `mavcg build` treats this argument as a model, not as a build file."""
    return path.suffix.lower() in SUFFIXES


def is_tflite(path: Path) -> bool:
    """Return True for a TFLite file by its name; its content is checked when it is read."""
    return path.suffix.lower() == ".tflite"
