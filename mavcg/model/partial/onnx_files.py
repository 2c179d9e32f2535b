"""The files of an ONNX model, as a library recognises them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError
from mavcg.importers.onnx_proto import load_model
from mavcg.runtime.drop_in_text import DIGEST_BYTES, ModelFile

if TYPE_CHECKING:
    import onnx

_PIECE_BYTES = 1 << 20


def onnx_files(path: Path) -> tuple[ModelFile, ...]:
    """Return the model's file and those of its external data, with their digests.

    Raises: MavcgError for a file that cannot be read.
    """
    model = load_model(path)
    locations = dict.fromkeys(
        entry.value
        for tensor in _tensors(model)
        if tensor.data_location == 1
        for entry in tensor.external_data
        if entry.key == "location"
    )
    return tuple(_file(path.parent / (location or path.name), location) for location in ("", *locations))


def _tensors(model: "onnx.ModelProto") -> "Iterator[onnx.TensorProto]":
    """Yield initializers and tensors in attributes, also those of graphs inside of nodes."""
    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            yield from [attribute.t, *attribute.tensors]
            graphs += [attribute.g] * attribute.HasField("g") + list(attribute.graphs)


def _file(path: Path, location: str) -> ModelFile:
    digest, size = hashlib.blake2b(digest_size=DIGEST_BYTES), 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror})") from error
    return ModelFile(location, size, digest.digest())
