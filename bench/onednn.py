"""oneDNN's matrix product with packed weights, called through its C API by ctypes; a wheel on PyPI contains the
library.

Results are written to the caller's array, so that they can be compared. Source: oneDNN's C API, version 3, and its
guide's "Memory Format Propagation": weights are declared with the format "any", the primitive states the format that it
needs, and a reorder converts them once.
"""

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.wheels import cache_folder, file_of_wheel
from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole
from mavcg.graph import Array

# The newest one that needs no other packages; it runs its threads by GNU's OpenMP.
PACKAGE = "onednn-cpu-gomp==2023.2.0"
MEMBER = "data/lib/libdnnl.so.3.2"

_CPU, _IN_ORDER, _F32, _ANY = 1, 1, 3, 1  # dnnl_cpu, dnnl_stream_in_order, dnnl_f32, dnnl_format_tag_any
_SRC, _DST, _WEIGHTS = 1, 17, 33  # DNNL_ARG_*; a reorder's FROM is 1, its TO is 17
_IMPLEMENTATION, _WEIGHTS_MD = 8, 131  # dnnl_query_impl_info_str, dnnl_query_weights_md
_INFERENCE = 96  # dnnl_forward_inference
_ALLOCATE = ctypes.c_void_p(-1)  # DNNL_MEMORY_ALLOCATE


class _Argument(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("memory", ctypes.c_void_p))


@dataclass(frozen=True)
class Product:
    """A prepared product.

    address: of dnnl_primitive_execute; arguments: its arguments, as integers. implementation: oneDNN's name of the
    chosen code. keep: objects that must live as long as this one.
    """

    address: int
    arguments: tuple[int, int, int, int]
    implementation: str
    keep: Any


class OneDnn:
    """oneDNN, for one thread. Raises: MavcgError if it cannot be downloaded."""

    def __init__(self) -> None:
        os.environ["OMP_NUM_THREADS"] = "1"  # read when the library brings OpenMP along
        self._library = ctypes.CDLL(str(_library_path()))
        self._engine, self._stream = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("dnnl_engine_create", ctypes.byref(self._engine), _CPU, ctypes.c_size_t(0))
        self._call("dnnl_stream_create", ctypes.byref(self._stream), self._engine, _IN_ORDER)

    @property
    def version(self) -> str:
        """Return the library's version."""
        numbers = self._library.dnnl_version
        numbers.restype = ctypes.POINTER(ctypes.c_int)
        return ".".join(str(numbers()[i]) for i in range(3))

    def matmul(self, left: Array, right: Array, out: Array) -> Product:
        """Prepare out = left @ right by the matmul primitive, f32 and dense.

        right is packed by this call; left and out are read and written in place.
        """
        create, front = "dnnl_matmul_primitive_desc_create", ()
        return self._product(create, front, left, right, out)

    def inner_product(self, left: Array, right: Array, out: Array) -> Product:
        """Prepare the same product by the primitive of fully connected layers, whose weights are [N, K]."""
        create, front = "dnnl_inner_product_forward_primitive_desc_create", (_INFERENCE,)
        return self._product(create, front, left, np.ascontiguousarray(right.T), out)

    def _product(self, create: str, front: tuple[int, ...], left: Array, weights: Array, out: Array) -> Product:
        plain = [self._describe(array.shape) for array in (left, weights, out)]
        any_format = self._describe(weights.shape, tag=_ANY)
        made = ctypes.c_void_p()
        self._call(create, ctypes.byref(made), self._engine, *front, plain[0], any_format, None, plain[2], None)
        query = self._library.dnnl_primitive_desc_query_md
        query.restype = ctypes.c_void_p
        packed_as = ctypes.c_void_p(query(made, _WEIGHTS_MD, 0))
        given, packed = self._memory(plain[1], weights.ctypes.data), self._memory(packed_as, _ALLOCATE)
        self._reorder(plain[1], packed_as, given, packed)
        primitive = self._primitive(made)
        places = (
            (_SRC, self._memory(plain[0], left.ctypes.data)),
            (_WEIGHTS, packed),
            (_DST, self._memory(plain[2], out.ctypes.data)),
        )
        arguments = (_Argument * 3)(*(_Argument(number, memory) for number, memory in places))
        name = ctypes.c_char_p()
        self._call("dnnl_primitive_desc_query", made, _IMPLEMENTATION, 0, ctypes.byref(name))
        address = ctypes.cast(self._library.dnnl_primitive_execute, ctypes.c_void_p).value or 0
        called = (primitive.value or 0, self._stream.value or 0, 3, ctypes.addressof(arguments))
        return Product(address, called, (name.value or b"").decode(), (self, left, out, arguments))

    def _reorder(self, source: Any, target: Any, given: Any, packed: Any) -> None:
        made = ctypes.c_void_p()
        self._call(
            "dnnl_reorder_primitive_desc_create",
            ctypes.byref(made),
            source,
            self._engine,
            target,
            self._engine,
            None,
        )
        arguments = (_Argument * 2)(_Argument(_SRC, given), _Argument(_DST, packed))
        self._call("dnnl_primitive_execute", self._primitive(made), self._stream, 2, arguments)
        self._call("dnnl_stream_wait", self._stream)

    def _describe(self, shape: Sequence[int], tag: int = 0) -> ctypes.c_void_p:
        """Return the descriptor of a dense matrix, or of one in a format that the primitive may choose."""
        description, dims = ctypes.c_void_p(), (ctypes.c_int64 * 2)(*shape)
        if tag:
            self._call("dnnl_memory_desc_create_with_tag", ctypes.byref(description), 2, dims, _F32, tag)
        else:
            strides = (ctypes.c_int64 * 2)(shape[1], 1)
            self._call("dnnl_memory_desc_create_with_strides", ctypes.byref(description), 2, dims, _F32, strides)
        return description

    def _memory(self, described: Any, address: Any) -> ctypes.c_void_p:
        memory = ctypes.c_void_p()
        where = address if isinstance(address, ctypes.c_void_p) else ctypes.c_void_p(address)
        self._call("dnnl_memory_create", ctypes.byref(memory), described, self._engine, where)
        return memory

    def _primitive(self, described: Any) -> ctypes.c_void_p:
        primitive = ctypes.c_void_p()
        self._call("dnnl_primitive_create", ctypes.byref(primitive), described)
        return primitive

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise MavcgError(f"oneDNN: {name} answered {status}")


def _library_path() -> Path:
    """Return the library's path, unpacked from its wheel into the cache."""
    path = cache_folder() / "wheels" / PACKAGE / Path(MEMBER).name
    if not path.exists():
        write_whole(path, file_of_wheel(PACKAGE, MEMBER))
    return path
