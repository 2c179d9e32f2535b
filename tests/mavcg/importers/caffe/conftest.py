"""Caffe networks written for tests: prototxt, caffemodel by the wire format itself, import and run."""

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from mavcg.graph import Array, Graph
from mavcg.graph.ops.nodes import verify
from mavcg.graph.reference import run
from mavcg.importers.caffe_file import import_caffe

pytest.importorskip("google.protobuf", reason="the importer reads weights by protobuf")

Blobs = Mapping[str, Sequence[Array]]


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes((*made, number))


def message(number: int, content: bytes) -> bytes:
    """A field that holds bytes: a string, a message, packed numbers."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def blob(array: Array, legacy: bool = False, double: bool = False) -> bytes:
    """A BlobProto; legacy: num, channels, height, width in place of a shape."""
    kind = "<f8" if double else "<f4"
    numbers = message(8 if double else 5, np.asarray(array).astype(kind).tobytes())
    if legacy:
        dims = (1,) * (4 - array.ndim) + array.shape
        return b"".join(varint(i << 3) + varint(d) for i, d in enumerate(dims, 1)) + numbers
    return numbers + message(7, message(1, b"".join(map(varint, array.shape))))


def caffemodel(blobs: Blobs, old: bool = False, double: bool = False) -> bytes:
    """A NetParameter with these layers; old: V1LayerParameter, with shapes of 4 dimensions."""
    name, content, layer = (4, 6, 2) if old else (1, 7, 100)
    made = message(1, b"net")
    for key, arrays in blobs.items():
        fields = message(name, key.encode()) + varint(5 << 3) + varint(4) * old if old else message(name, key.encode())
        made += message(layer, fields + b"".join(message(content, blob(a, old, double)) for a in arrays))
    return made


def unpacked(array: Array) -> bytes:
    """A BlobProto whose numbers are not packed: a tag before each."""
    numbers = b"".join(varint(5 << 3 | 5) + struct.pack("<f", v) for v in array.reshape(-1))
    return numbers + message(7, message(1, b"".join(map(varint, array.shape))))


Import = Callable[..., Graph]


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    def do(text: str, blobs: Blobs | bytes | None = None, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        path = tmp_path / "net.prototxt"
        path.write_text(text)
        if blobs is not None:
            path.with_suffix(".caffemodel").write_bytes(blobs if isinstance(blobs, bytes) else caffemodel(blobs))
        graph = import_caffe(path, shapes or {})
        verify(graph)
        return graph

    return do


@pytest.fixture
def computed() -> Callable[..., tuple[Array, ...]]:
    """Computes a graph by its definition: the outputs, in order."""
    return run


@pytest.fixture
def write_caffemodel() -> Callable[..., bytes]:
    return caffemodel


@pytest.fixture
def write_unpacked() -> Callable[[Array], bytes]:
    """A layer `l` with one blob whose numbers have a tag each."""
    return lambda array: message(100, message(1, b"l") + message(7, unpacked(array)))
