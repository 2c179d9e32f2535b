"""Model libraries in Python: `mavcg.load("libresnet50.so").run(x)`, NumPy arrays in and out.

By ctypes alone, through the table that every model library exports (runtime/csrc/engine_api.h): no compiler, no
glue, and the interpreter's lock is released while a model runs.
"""

import contextlib
import ctypes
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, TensorType

Array = NDArray[Any]
API = 1  # MAVCG_MODEL_API
_TYPES = dict(enumerate(("f32", "f16", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool"), 1))
AUTO = "auto"  # for a number of threads
_PIN = 1  # MAVCG_PIN
_CANCELLED = 1  # MAVCG_CANCELLED

_Places = ctypes.POINTER(ctypes.c_void_p)
_Sizes = ctypes.POINTER(ctypes.c_size_t)
_Times = ctypes.POINTER(ctypes.c_double)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("type", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("dims", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_size_t),
    )  # fmt: skip


class _Step(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("op", ctypes.c_char_p), ("kernel", ctypes.c_char_p), ("rows", ctypes.c_int64),
        ("grain", ctypes.c_int64), ("work", ctypes.c_int64),
    )  # fmt: skip


class _Options(ctypes.Structure):
    _fields_ = (("threads", ctypes.c_int32), ("flags", ctypes.c_uint32), ("reserved", ctypes.c_uint64 * 2))


class _Table(ctypes.Structure):
    _fields_ = (
        ("api", ctypes.c_uint32), ("input_count", ctypes.c_uint32), ("output_count", ctypes.c_uint32),
        ("step_count", ctypes.c_uint32), ("name", ctypes.c_char_p), ("inputs", ctypes.POINTER(_Tensor)),
        ("outputs", ctypes.POINTER(_Tensor)), ("steps", ctypes.POINTER(_Step)), ("arena_bytes", ctypes.c_uint64),
        ("scratch_bytes", ctypes.c_uint64), ("constants_bytes", ctypes.c_uint64),
        ("create", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Options), ctypes.POINTER(ctypes.c_void_p))),
        ("destroy", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("run", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _Places, _Places)),
        ("run_sized", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _Places, _Sizes, _Places, _Sizes)),
        ("profile", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _Places, _Places, _Times)),
        ("cancel", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
        ("threads", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
        ("error_text", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)),
    )  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """An input or output: dtype is NumPy's, such as float32."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class StepTime:
    """How long a step of a run took. name: the node in the model's file; kernel: the function that computes it, without
    its version; rows: its work, of which a thread takes `grain` at a time; work: elementary operations, about."""

    name: str
    op: str
    kernel: str
    rows: int
    grain: int
    work: int
    ns: float


class Model:
    """A context of a loaded model library; `load` makes it.

    name: the model's. inputs, outputs: what run takes and gives. threads: how many take part in a run. arena_bytes: of
    this context; scratch_bytes: of each of its threads; constants_bytes: packed weights in the library.
    Calls from several threads wait for each other; for runs at the same time each thread loads its own.
    """

    def __init__(self, path: Path, threads: int, pin: bool) -> None:
        self.path = path
        self._running = threading.Lock()  # held by run, profile and close
        self._alive = threading.Lock()  # held while the context is used or given up, never for long
        self._context = ctypes.c_void_p()
        self._library, self._where = _open(path)
        try:
            table: _Table = self._library.mavcg_model_api().contents
            self._table = table
            self.name = _text(table.name)
            self.inputs = tuple(_tensor(table.inputs[i]) for i in range(table.input_count))
            self.outputs = tuple(_tensor(table.outputs[i]) for i in range(table.output_count))
            self.arena_bytes = int(table.arena_bytes)
            self.scratch_bytes = int(table.scratch_bytes)
            self.constants_bytes = int(table.constants_bytes)
            self._steps = tuple(_step(table.steps[i]) for i in range(table.step_count))
            options = _Options(threads, _PIN if pin else 0)
            self._check(table.create(ctypes.byref(options), ctypes.byref(self._context)))
            self.threads = int(table.threads(self._context))
        except BaseException:
            _close(self._library, self._where)
            raise

    def run(self, *arrays: Array) -> tuple[Array, ...]:
        """Compute the outputs.

        arrays: one an input, of its shape and dtype; an array that is not contiguous is copied first.
        Raises: MavcgError for another number of arrays, a wrong shape or dtype, a closed or cancelled model.
        """
        outputs, status = self._run(arrays, None)
        self._check(status)
        return outputs

    def profile(self, *arrays: Array, runs: int = 1) -> tuple[StepTime, ...]:
        """The median time of each step over `runs` runs. Raises: as run."""
        if runs < 1:
            raise MavcgError(f"{self.path}: runs={runs}; give 1 or more")
        times = np.zeros((runs, len(self._steps)))
        for row in times:
            _, status = self._run(arrays, row)
            self._check(status)
        return tuple(StepTime(*step, float(ns)) for step, ns in zip(self._steps, np.median(times, axis=0), strict=True))

    def cancel(self) -> None:
        """Let a run that is under way in another thread end with an error before its next step."""
        with self._alive:
            if self._context:
                self._table.cancel(self._context)

    def close(self) -> None:
        """Give the context up, after a run that is under way. Twice does no harm."""
        with self._running, self._alive:
            if self._context:
                self._table.destroy(self._context)
                self._context = ctypes.c_void_p()
                del self._table  # it lies in the library
                _close(self._library, self._where)

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_context", None) and not self._running.locked():
            with contextlib.suppress(Exception):  # the interpreter may be half gone
                self.close()

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, tensors)) for tensors in (self.inputs, self.outputs))
        return f"<mavcg model {self.name}: in {takes}; out {gives}; threads {self.threads}>"

    def _run(self, arrays: Sequence[Array], step_ns: Array | None) -> tuple[tuple[Array, ...], int]:
        given = self._checked(arrays)
        outputs = tuple(np.empty(tensor.shape, tensor.dtype) for tensor in self.outputs)
        places_in, places_out = (_places(a) for a in (given, outputs))
        with self._running:
            if not self._context:
                raise MavcgError(f"{self.path}: the model is closed; load it again")
            if step_ns is None:
                return outputs, self._table.run(self._context, places_in, places_out)
            where = step_ns.ctypes.data_as(_Times)
            return outputs, self._table.profile(self._context, places_in, places_out, where)

    def _checked(self, arrays: Sequence[Array]) -> list[Array]:
        """The inputs as C takes them."""
        if len(arrays) != len(self.inputs):
            wanted = ", ".join(map(str, self.inputs)) or "none"
            raise MavcgError(f"{self.path}: {len(arrays)} inputs given, the model takes {len(self.inputs)}: {wanted}")
        checked = []
        for number, (value, tensor) in enumerate(zip(arrays, self.inputs, strict=True)):
            array = np.asarray(value)
            what = f"{self.path}: input {number} ({tensor.name})"
            if array.shape != tensor.shape:
                has, takes = list(array.shape), list(tensor.shape)
                raise MavcgError(f"{what}: shape {has}, the model takes {takes}; give an array of that shape")
            if array.dtype != tensor.dtype:
                raise MavcgError(
                    f"{what}: {array.dtype}, the model takes {tensor.dtype}; convert it with .astype('{tensor.dtype}')"
                )
            checked.append(np.require(array, requirements=["C", "A"]))
        return checked

    def _check(self, status: int) -> None:
        if status:
            words = "cancelled" if status == _CANCELLED else _text(self._table.error_text(status))
            raise MavcgError(f"{self.path}: {words}")


def load(path: str | os.PathLike[str], threads: int | str = 1, pin: bool = False) -> Model:
    """A context of a library that `mavcg build` made of a model.

    threads: that take part in a run; "auto", or 0: the library chooses how many and on which core types, by what was
    predicted when it was built; without predictions it takes one for each CPU that this process may use. pin: tie each
    of the context's own threads to a CPU.
    Raises: MavcgError for a file that is not a model library of this machine, for threads out of range, for a processor
    without the instructions that the library needs.
    """
    return Model(Path(path), thread_count(threads), pin)


def thread_count(threads: int | str) -> int:
    """As the library takes it: 0 for "auto". Raises: MavcgError for a word or a number that is no count of threads."""
    text = str(threads).strip()
    count = 0 if text == AUTO else int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else -1
    if not 0 <= count <= 0x7FFFFFFF:
        raise MavcgError(f"threads={threads}: give a number from 0 on, or {AUTO} (as 0: the library chooses)")
    return count


# Libraries in use, by path: (identity of the file, how many contexts). The dynamic loader goes by names: while a
# library is loaded, a new file of that name is the old one to it.
_libraries: dict[str, tuple[tuple[int, int, int], int]] = {}
_loading = threading.Lock()


def _open(path: Path) -> tuple[ctypes.CDLL, str]:
    with _loading:
        try:
            where = str(path.resolve(strict=True))
            status = os.stat(where)
        except OSError as error:
            raise MavcgError(f"{path}: cannot be loaded ({error.strerror}); name a library that mavcg built") from error
        identity = (status.st_dev, status.st_ino, status.st_mtime_ns)
        loaded, count = _libraries.get(where, (identity, 0))
        if loaded != identity:
            raise MavcgError(f"{path}: has changed since it was loaded; close the models that use the old one first")
        try:
            library = ctypes.CDLL(where, mode=ctypes.RTLD_LOCAL)
        except OSError as error:
            raise MavcgError(
                f"{path}: cannot be loaded ({error}); name a model library that mavcg built for this machine"
            ) from error
        try:
            library.mavcg_model_api.restype = ctypes.POINTER(_Table)
            api = library.mavcg_model_api().contents.api
        except AttributeError as error:
            _dlclose(library)
            raise MavcgError(f"{path}: is not a model library; name one that `mavcg build` made of a model") from error
        if api != API:
            _dlclose(library)
            raise MavcgError(f"{path}: was built by another mavcg (API {api}, here {API}); build it again")
        _libraries[where] = (identity, count + 1)
        return library, where


def _close(library: ctypes.CDLL, where: str) -> None:
    with _loading:
        identity, count = _libraries[where]
        if count > 1:
            _libraries[where] = (identity, count - 1)
        else:
            del _libraries[where]
        _dlclose(library)


def _dlclose(library: ctypes.CDLL) -> None:
    import _ctypes

    _ctypes.dlclose(library._handle)


def _tensor(tensor: _Tensor) -> Tensor:
    kind = TensorType(_TYPES[tensor.type], tuple(tensor.dims[i] for i in range(tensor.rank)))
    return Tensor(_text(tensor.name), kind.shape, DTYPES[kind.dtype])


def _step(step: _Step) -> tuple[str, str, str, int, int, int]:
    return _text(step.name), _text(step.op), _text(step.kernel), step.rows, step.grain, step.work


def _places(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
