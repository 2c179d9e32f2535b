"""Model libraries in Python: `mavcg.load("libresnet50.so").run(x)`, NumPy arrays in and out.

It calls by cffi through the table that every model library exports; runtime/csrc/engine_api.h declares it to C and to
Python. It needs no compiler and no parser, and releases the interpreter's lock while a model runs.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES
from mavcg.runtime.declared import ffi
from mavcg.runtime.type_codes import TYPE_CODES

Array = NDArray[Any]
ndarray, empty, from_buffer = np.ndarray, np.empty, ffi.from_buffer
API: int = ffi.integer_const("MAVCG_MODEL_API")
SIZES_API: int = ffi.integer_const("MAVCG_SIZES_API")
APP_API: int = ffi.integer_const("MAVCG_APP_API")
AUTO = "auto"  # for a number of threads
_DTYPES = {code: DTYPES[name] for name, code in TYPE_CODES.items()}
_PIN: int = ffi.integer_const("MAVCG_PIN")
_CANCELLED: int = ffi.integer_const("MAVCG_CANCELLED")


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
    """The time of a step in a run, in nanoseconds. name: the node in the model's file; kernel: the function that
    computes it, without its version; rows: its work; grain: the minimum chunk, rows that a thread takes at least at a
    time; work: elementary operations, approximately."""

    name: str
    op: str
    kernel: str
    rows: int
    grain: int
    work: int
    ns: float


class Model:
    """A context of a loaded model library; `load` creates it.

    name: the model's. inputs, outputs: the arrays of run. threads: the number that take part in a run. arena_bytes: of
    this context; scratch_bytes: of each of its threads; constants_bytes: packed weights in the library.
    Calls from several threads wait for each other; for runs at the same time each thread loads its own.
    """

    def __init__(
        self, path: Path, threads: int, pin: bool, network: str | None = None, size: int | None = None
    ) -> None:
        library, where = open_library(path)

        def close() -> None:
            close_library(library, where)

        try:
            table = _model_table(path, library, network) if size is None else _size_tables(path, library)[size]
            options = ffi.new("mavcg_options *", context_options(threads, pin))
            context = ffi.new("void **")
            check_status(path, table, table.create(options, context))
            self._use(path, table, context[0], table.destroy, close)
        except BaseException:
            close()
            raise

    @classmethod
    def of_context(cls, path: Path, table: Any, context: Any) -> "Model":
        """Return the model of a context that its application owns: close() only forgets it."""
        model = cls.__new__(cls)
        model._use(path, table, context, lambda context: None, lambda: None)
        return model

    def _use(
        self, path: Path, table: Any, context: Any, destroy: Callable[[Any], None], end: Callable[[], None]
    ) -> None:
        """Take a context and what close() calls: destroy with it, then end."""
        self.path = path
        self._running = threading.Lock()  # held by run, profile and close
        self._alive = threading.Lock()  # held while the context is used or destroyed, never for long
        self._context, self._destroy, self._end = context, destroy, end
        self._table = table
        self._run_model, self._profile_model = table.run, table.profile
        self.name = text_of(table.name)
        self.inputs = tuple(_tensor(table.inputs[i]) for i in range(table.input_count))
        self.outputs = tuple(_tensor(table.outputs[i]) for i in range(table.output_count))
        self.arena_bytes = int(table.arena_bytes)
        self.scratch_bytes = int(table.scratch_bytes)
        self.constants_bytes = int(table.constants_bytes)
        self._steps = tuple(_step(table.steps[i]) for i in range(table.step_count))
        self.threads = int(table.threads(context))
        counts = (max(1, len(tensors)) for tensors in (self.inputs, self.outputs))
        self._pointers = tuple(ffi.new("void *[]", count) for count in counts)  # used while _running is held

    def run(self, *arrays: Any, out: Sequence[Array] | Array | None = None) -> tuple[Array, ...]:
        """Compute the outputs.

        arrays: one for each input, of its shape and dtype: NumPy's, or of another library by DLPack, without a copy; an
        array that is not contiguous is copied first. out: an array for each output, which is written and returned;
        contiguous, and no memory of an input's; the array alone where there is one output. Without it arrays are new.
        Raises: MavcgError for another number of arrays, a wrong shape or dtype, a closed or cancelled model.
        """
        status, outputs = self._run(arrays, out, None)
        if status:
            check_status(self.path, self._table, status)
        return outputs

    def profile(self, *arrays: Array, runs: int = 1) -> tuple[StepTime, ...]:
        """The median time of each step over `runs` runs. Raises: as run."""
        if runs < 1:
            raise MavcgError(f"{self.path}: runs={runs}; give 1 or more")
        times = np.zeros((runs, len(self._steps)))
        for row in times:
            status, _ = self._run(arrays, None, row)
            check_status(self.path, self._table, status)
        return tuple(StepTime(*step, float(ns)) for step, ns in zip(self._steps, np.median(times, axis=0), strict=True))

    def cancel(self) -> None:
        """End a run of another thread with an error before its next step."""
        with self._alive:
            if self._context:
                self._table.cancel(self._context)

    def close(self) -> None:
        """Destroy the context, after a run of another thread has ended. A second call does nothing."""
        with self._running, self._alive:
            if self._context:
                self._destroy(self._context)
                self._context = ffi.NULL
                del self._table, self._run_model, self._profile_model, self._destroy  # they lie in the library
                self._end()

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

    def _run(
        self, arrays: Sequence[Any], out: Sequence[Array] | Array | None, step_ns: Array | None
    ) -> tuple[int, tuple[Array, ...]]:
        # Of small models the time of a call is in these lines: they make no objects of cffi but buffers.
        given = self.check_inputs(arrays)
        if out is None:
            outputs = self.empty_outputs()
        else:
            outputs = self._check_outputs(out)
        # The result of from_buffer keeps its array alive.
        buffers_in, buffers_out = [from_buffer(array) for array in given], [from_buffer(array) for array in outputs]
        with self._running:
            if not self._context:
                raise MavcgError(f"{self.path}: the model is closed; load it again")
            pointers_in, pointers_out = self._pointers
            for i, buffer in enumerate(buffers_in):
                pointers_in[i] = buffer
            for i, buffer in enumerate(buffers_out):
                pointers_out[i] = buffer
            if step_ns is None:
                return self._run_model(self._context, pointers_in, pointers_out), outputs
            times = ffi.from_buffer("double[]", step_ns)
            return self._profile_model(self._context, pointers_in, pointers_out, times), outputs

    def empty_outputs(self) -> tuple[Array, ...]:
        """Return arrays for the outputs."""
        return tuple([empty(tensor.shape, tensor.dtype) for tensor in self.outputs])

    def check_inputs(self, arrays: Sequence[Any]) -> list[Array]:
        """Return the inputs as dense arrays. Raises: MavcgError for a number, shape or dtype that is not the
        model's."""
        if len(arrays) != len(self.inputs):
            required = ", ".join(map(str, self.inputs)) or "none"
            raise MavcgError(f"{self.path}: {len(arrays)} inputs given, the model takes {len(self.inputs)}: {required}")
        checked: list[Array] = []
        for value, tensor in zip(arrays, self.inputs):  # noqa: B905 - strict takes time, and the lengths are equal
            array = value if type(value) is ndarray else self._array_of(value, tensor)
            if array.shape != tensor.shape or array.dtype != tensor.dtype:
                number = len(checked)
                raise MavcgError(f"{self.path}: input {number} ({tensor.name}): {_mismatch(array, tensor)}")
            flags = array.flags
            dense = flags.c_contiguous and flags.aligned
            checked.append(array if dense else np.require(array, requirements=["C", "A"]))
        return checked

    def _check_outputs(self, out: Sequence[Array] | Array) -> tuple[Array, ...]:
        """Return arrays that the caller gave for the outputs. Raises: MavcgError for those that cannot be written."""
        outputs = (out,) if type(out) is ndarray else tuple(out)
        if len(outputs) != len(self.outputs):
            raise MavcgError(f"{self.path}: out has {len(outputs)} arrays, the model gives {len(self.outputs)}")
        for array, tensor in zip(outputs, self.outputs):  # noqa: B905 - as above
            if type(array) is not ndarray:
                raise MavcgError(f"{self.path}: out ({tensor.name}): is no NumPy array; give one for it to be written")
            if array.shape != tensor.shape or array.dtype != tensor.dtype:
                raise MavcgError(f"{self.path}: out ({tensor.name}): {_mismatch(array, tensor)}")
            if not array.flags.carray:
                raise MavcgError(
                    f"{self.path}: out ({tensor.name}): is not contiguous, aligned and writeable; give such an array"
                )
        return outputs

    def _array_of(self, value: Any, tensor: Tensor) -> Array:
        """Return what is given for an input as an array, by DLPack where it is of another library. Raises:
        MavcgError."""
        if isinstance(value, ndarray) or not hasattr(value, "__dlpack__"):
            return np.asarray(value)
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise MavcgError(
                f"{self.path}: input ({tensor.name}): cannot be read by DLPack ({error}); give a tensor in the memory "
                "of the CPU, without gradients, or a NumPy array"
            ) from error


def check_status(path: Path, table: Any, status: int) -> None:
    """Raise MavcgError for a status that is not MAVCG_OK."""
    if status:
        message = "cancelled" if status == _CANCELLED else text_of(table.error_text(status))
        raise MavcgError(f"{path}: {message}")


def context_options(threads: int, pin: bool) -> dict[str, int]:
    """Return a mavcg_options as cffi initialises it."""
    return {"threads": threads, "flags": _PIN if pin else 0}


def _mismatch(array: Array, tensor: Tensor) -> str:
    """Describe how an array differs from the model's input, and what to do."""
    if array.shape != tensor.shape:
        return f"shape {list(array.shape)}, the model takes {list(tensor.shape)}; give an array of that shape"
    return f"{array.dtype}, the model takes {tensor.dtype}; convert it with .astype('{tensor.dtype}')"


def load(path: str | os.PathLike[str], threads: int | str = 1, pin: bool = False, network: str | None = None) -> Model:
    """Create a context of a library that `mavcg build` made of a model, or of one network of an application's.

    threads: number that take part in a run; "auto", or 0: the library chooses their number and core types, by the
    predictions of its build; without predictions it takes one for each CPU that this process may use. pin: tie each
    of the context's own threads to a CPU. network: of an application's library; the context then has memory of its
    own (load_application gives contexts in the application's memory).
    Raises: MavcgError for a file that is not a model library of this machine, for threads out of range, for a processor
    without the instructions that the library needs.
    """
    return Model(Path(path), thread_count(threads), pin, network)


def thread_count(threads: int | str) -> int:
    """Return the number of threads for the library: 0 for "auto". Raises: MavcgError for text or a number that is no
    count of threads."""
    text = str(threads).strip()
    count = 0 if text == AUTO else int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else -1
    if not 0 <= count <= 0x7FFFFFFF:
        raise MavcgError(f"threads={threads}: give a number from 0 on, or {AUTO} (as 0: the library chooses)")
    return count


# Libraries in use, by path: (identity of the file, number of contexts). The dynamic loader identifies libraries by
# name: while a library is loaded, it takes a new file of that name for the old one.
_libraries: dict[str, tuple[tuple[int, int, int], int]] = {}
_loading = threading.Lock()


def open_library(path: Path) -> tuple[Any, str]:
    """Load a library, or use it once more. Returns it with its path, for close_library. Raises: MavcgError."""
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
            library = ffi.dlopen(where, ffi.RTLD_NOW | ffi.RTLD_LOCAL)
        except OSError as error:
            why = str(error).rpartition(f"'{where}': ")[2]
            raise MavcgError(
                f"{path}: cannot be loaded ({why}); name a model library that mavcg built for this machine"
            ) from error
        _libraries[where] = (identity, count + 1)
        return library, where


def close_library(library: Any, where: str) -> None:
    """Use a library once less."""
    with _loading:
        identity, count = _libraries[where]
        if count > 1:
            _libraries[where] = (identity, count - 1)
        else:
            del _libraries[where]
        ffi.dlclose(library)


def _model_table(path: Path, library: Any, network: str | None) -> Any:
    """Return the mavcg_model_table of a model library, or of a network of an application's."""
    application = application_table(path, library)
    if application is None:
        if network is not None:
            raise MavcgError(
                f"{path}: holds one model, not networks of an application; leave the network {network!r} out"
            )
        try:
            table = library.mavcg_model_api()
        except ffi.error as error:
            raise MavcgError(
                f"{path}: is not a library of a whole model; name one that `mavcg build` made without --partial"
            ) from error
        if table.api != API:
            raise MavcgError(f"{path}: was built by another mavcg (API {table.api}, here {API}); build it again")
        return table
    names = [text_of(application.networks[i].model.name) for i in range(application.network_count)]
    if network not in names:
        given = "holds several networks" if network is None else f"has no network {network!r}"
        raise MavcgError(f"{path}: {given}; name one by --network, or network=: {', '.join(names)}")
    return application.networks[names.index(network)].model


def _size_tables(path: Path, library: Any) -> list[Any]:
    """Return the mavcg_model_table of each size of a library, or its only one. Raises: MavcgError."""
    try:
        table = library.mavcg_sizes_api()
    except ffi.error:
        return [_model_table(path, library, None)]
    if table.api != SIZES_API or table.models[0].api != API:
        raise MavcgError(f"{path}: was built by another mavcg (API {table.api}, here {SIZES_API}); build it again")
    return [table.models[i] for i in range(table.count)]


def input_shapes_of_sizes(path: Path) -> list[tuple[tuple[int, ...], ...]]:
    """Return the shapes of the inputs in each size of a library. Raises: MavcgError as load."""
    library, where = open_library(path)
    try:
        tables = _size_tables(path, library)
        return [tuple(_tensor(table.inputs[i]).shape for i in range(table.input_count)) for table in tables]
    finally:
        close_library(library, where)


def application_table(path: Path, library: Any) -> Any:
    """Return the mavcg_app_table of an application's library, None for another library. Raises: MavcgError for one of
    another version."""
    try:
        table = library.mavcg_app_api()
    except ffi.error:
        return None
    if table.api != APP_API or table.networks[0].model.api != API:
        raise MavcgError(f"{path}: was built by another mavcg (API {table.api}, here {APP_API}); build it again")
    return table


def _tensor(tensor: Any) -> Tensor:
    """Convert a mavcg_tensor."""
    return Tensor(text_of(tensor.name), tuple(tensor.dims[0 : tensor.rank]), _DTYPES[tensor.type])


def _step(step: Any) -> tuple[str, str, str, int, int, int]:
    return text_of(step.name), text_of(step.op), text_of(step.kernel), step.rows, step.grain, step.work


def text_of(pointer: Any) -> str:
    """Convert a char *."""
    text: bytes = ffi.string(pointer)
    return text.decode("utf-8", "replace")
