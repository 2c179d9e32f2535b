"""Reader of a caffemodel: the weights of a Caffe network by the names of its layers.

The schema, which is given to protobuf as descriptors, has only the fields of weights; all others are skipped.
Source of the field numbers: caffe.proto of BVLC's Caffe (NetParameter, LayerParameter, V1LayerParameter, BlobProto).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mavcg.errors import MavcgError, import_problem
from mavcg.files.bounded_read import read_bounded
from mavcg.graph import Array
from mavcg.importers.limits import MOST_FILE_BYTES

_HDF5 = b"\x89HDF\r\n\x1a\n"
_MOST_DIMS = 32  # kMaxBlobAxes of Caffe
# Message -> its fields: (name, number, kind). Names are bytes, so that text that is not UTF-8 is not an error. A packed
# list of numbers has the wire format of bytes, and becomes an array without a Python number per element.
_MESSAGES = {
    "BlobShape": (("dim", 1, "int64s"),),
    "BlobProto": (
        ("num", 1, "int32"),
        ("channels", 2, "int32"),
        ("height", 3, "int32"),
        ("width", 4, "int32"),
        ("data", 5, "chunks"),
        ("shape", 7, "BlobShape"),
        ("double_data", 8, "chunks"),
    ),
    "LayerParameter": (("name", 1, "bytes"), ("blobs", 7, "BlobProto..")),
    "V1LayerParameter": (("layer", 1, "bytes"), ("name", 4, "bytes"), ("blobs", 6, "BlobProto..")),
    "NetParameter": (("layers", 2, "V1LayerParameter.."), ("layer", 100, "LayerParameter..")),
}


def read_caffemodel(path: Path) -> Mapping[str, tuple[Array, ...]]:
    """Return the blobs of each layer with weights: f32 arrays of the shapes in the file.

    Raises: MavcgError for a file that cannot be read, is of another format, or is damaged.
    """
    try:
        data = read_bounded(path, MOST_FILE_BYTES)
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); name a .caffemodel file") from error
    if not data:
        raise MavcgError(f"{path}: is empty; a .caffemodel holds the network's weights")
    if data.startswith(_HDF5):
        raise MavcgError(f"{path}: is HDF5; save the network as a .caffemodel (snapshot_format: BINARYPROTO)")
    net = _parse_message(data, path)
    del data
    blobs: dict[str, tuple[Array, ...]] = {}
    for layer in (*net.layers, *net.layer):
        name = printable(layer.name)
        if any(field.name == "layer" for field, _ in layer.ListFields()):
            raise MavcgError(f"{path}: has layers of Caffe's oldest format; upgrade_net_proto_binary rewrites it")
        if layer.blobs and name in blobs:
            raise MavcgError(f"{path}: two layers are called '{name}'; each needs a name of its own")
        if layer.blobs:
            blobs[name] = tuple(_array(blob, f"{path}: layer '{name}', blob {i}") for i, blob in enumerate(layer.blobs))
    if not net.layers and not net.layer:
        raise MavcgError(f"{path}: has no layers; is it a .caffemodel?")
    return MappingProxyType(blobs)


def printable(name: bytes) -> str:
    """Return a name as text on one line."""
    return "".join(c if c.isprintable() else "?" for c in name.decode("utf-8", "replace"))


def _parse_message(data: bytes, path: Path) -> Any:
    try:
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    except ImportError as error:
        absent = f"Caffe's weights need the protobuf package ({error}); pip install mavcg[models]"
        raise import_problem(error, absent) from error
    net = net_parameter()()
    try:
        net.ParseFromString(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise MavcgError(f"{path}: is not a .caffemodel, or is damaged ({' '.join(str(error).split())})") from error
    return net


@cache
def net_parameter() -> Any:
    """Return the protobuf message class NetParameter with the fields of weights."""
    from google.protobuf import (  # type: ignore[import-untyped]
        descriptor_pb2,
        descriptor_pool,
        message_factory,
    )

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="mavcg_caffe.proto", package="mavcg_caffe", syntax="proto2")
    for message, fields in _MESSAGES.items():
        made = file.message_type.add(name=message)
        for name, number, kind in fields:
            repeated = kind.endswith(("..", "s")) and kind != "bytes"
            field = made.field.add(
                name=name, number=number, label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            )
            if kind in ("bytes", "chunks"):
                field.type = kinds.TYPE_BYTES
            elif kind.startswith("int"):
                field.type = kinds.TYPE_INT64 if kind == "int64s" else kinds.TYPE_INT32
                field.options.packed = kind == "int64s"
            else:
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".mavcg_caffe.{kind.removesuffix('..')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("mavcg_caffe.NetParameter"))


def _array(blob: Any, location: str) -> Array:
    """Return a blob's numbers as f32 in its shape, which files before 2015 give as num, channels, height, width."""
    shape = (
        tuple(blob.shape.dim)
        if blob.HasField("shape")
        else tuple(getattr(blob, name) for name in ("num", "channels", "height", "width"))
    )
    chunks: Sequence[bytes] = blob.data or blob.double_data
    kind = np.dtype("<f4" if blob.data else "<f8")
    raw = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    count = 1
    for length in shape:
        count *= length  # Python's integers do not overflow
    if len(shape) > _MOST_DIMS or any(length < 0 for length in shape):
        raise MavcgError(f"{location}: its shape is {list(shape)[:8]}; the file is damaged")
    if count * kind.itemsize != len(raw):
        raise MavcgError(
            f"{location}: {len(raw)} bytes of numbers where its shape {list(shape)} takes {count * kind.itemsize}; "
            "the file is damaged, or its numbers are not packed as Caffe writes them"
        )
    numbers = np.frombuffer(raw, kind).reshape(shape)
    return np.asarray(numbers, np.float32)
