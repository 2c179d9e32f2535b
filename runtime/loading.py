"""Run model libraries from Python: `mavcg.load("libresnet50.so").run(x)`, with NumPy arrays.

It calls by cffi through the table that every model library exports; runtime/csrc/engine_api.h declares it to C and to
Python. It needs no compiler and no parser, and releases Python's global lock while a model runs.
"""

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.runtime.bounded_shape import check_run, context_tensors, set_shapes, shapes_of
from mavcg.runtime.declared import ffi
from mavcg.runtime.library_tables import (
    Tensor,
    check_status,
    close_library,
    counted_of,
    dimensions_of,
    has_states,
    model_table,
    open_library,
    size_tables,
    step_of,
    tensor_of,
    text_of,
)
from mavcg.runtime.run_arrays import Array, are_inputs, dense_inputs, given_outputs, new_outputs

from_buffer = ffi.from_buffer
AUTO = "auto"  # for a number of threads
_PIN: int = ffi.integer_const("MAVCG_PIN")


@dataclass(frozen=True)
class StepTime:
    """The time of a step in a run.

    name: node in the model's file. kernel: function that computes it, without its version. rows: its rows of work.
    grain: minimum chunk, in rows. work: elementary operations, approximately. ns: time in nanoseconds.
    """

    name: str
    op: str
    kernel: str
    rows: int
    grain: int
    work: int
    ns: float


class Model:
    """A context of a loaded model library; `load` creates it.

    name: name of the model. inputs, outputs: tensors of `run`. threads: number of threads in a run. arena_bytes: size
    of this context's buffers. scratch_bytes: scratch memory of each of its threads. constants_bytes: packed weights in
    the library. states: tensors that stay in the context from one run to the next; state_bytes: their memory.
    dimensions: bounds of the bounded dimension by its name, of which each run has a length; inputs and outputs are then
    those of the last run, at first of the longest length, or of the least one where a state grows by it. counted: the
    axis of whose length each run decides, by the name of the output; `outputs` have the longest. Calls from several
    threads wait for each other; for runs at the same time, each thread loads its own context.
    """

    def __init__(
        self, path: Path, threads: int, pin: bool, network: str | None = None, size: int | None = None
    ) -> None:
        library, where = open_library(path)

        def close() -> None:
            close_library(library, where)

        try:
            table = model_table(path, library, network) if size is None else size_tables(path, library)[size]
            options = ffi.new("mavcg_options *", context_options(threads, pin))
            context = ffi.new("void **")
            check_status(path, table, table.create(options, context))
            self._use(path, table, context[0], table.destroy, close)
        except BaseException:
            close()
            raise

    @classmethod
    def of_context(cls, path: Path, table: Any, context: Any) -> "Model":
        """Return the model of a context that its application owns; close() does not destroy it."""
        model = cls.__new__(cls)
        model._use(path, table, context, lambda context: None, lambda: None)
        return model

    def _use(
        self, path: Path, table: Any, context: Any, destroy: Callable[[Any], None], end: Callable[[], None]
    ) -> None:
        """Set the context, and the functions that close() calls: destroy with the context, then end."""
        self.path = path
        self._running = threading.Lock()  # held by run, profile and close
        self._alive = threading.Lock()  # held while the context is used or destroyed, never for long
        self._shaping = threading.Lock()  # held from a change of the shapes to the end of the run
        self._context, self._destroy, self._end = context, destroy, end
        self._table = table
        self._run_model, self._profile_model = table.run, table.profile
        self.name = text_of(table.name)
        self.inputs = tuple(tensor_of(table.inputs[i]) for i in range(table.input_count))
        self.outputs = tuple(tensor_of(table.outputs[i]) for i in range(table.output_count))
        self.dimensions = dimensions_of(table)
        states = has_states(table)
        self.states = tuple(tensor_of(table.states[i]) for i in range(table.state_count if states else 0))
        longest = self.inputs, self.outputs
        if self.dimensions and self.states:
            self.inputs, self.outputs = context_tensors(table, context)
        self._grows = longest != (self.inputs, self.outputs)  # from run to run, with states
        self._shapes = [tensor.shape for tensor in self.inputs]  # of the context's present lengths
        self._counted = counted_of(table)
        self.counted = {self.outputs[number].name: axis for number, axis in self._counted.items()}
        self.arena_bytes = int(table.arena_bytes)
        self.state_bytes = int(table.state_bytes) if states else 0
        self._saved_bytes = int(table.state_size(context)) if states else 0
        self.scratch_bytes = int(table.scratch_bytes)
        self.constants_bytes = int(table.constants_bytes)
        self._steps = tuple(step_of(table.steps[i]) for i in range(table.step_count))
        self.threads = int(table.threads(context))
        counts = (max(1, len(tensors)) for tensors in (self.inputs, self.outputs))
        self._pointers = tuple(ffi.new("void *[]", count) for count in counts)  # used while _running is held

    def run(self, *arrays: Any, out: Sequence[Array] | Array | None = None) -> tuple[Array, ...]:
        """Compute the outputs.

        Args:
            arrays: an array for each input, with its shape (with a bounded dimension, of any length) and dtype: a NumPy
                array, or one of another library through DLPack, without a copy. An array that is not contiguous is
                copied first.
            out: an array for each output, which is written and returned; contiguous, and without memory of an input.
                For one output it may be the array alone. None for new arrays. Of an output of whose length the run
                decides the array has the longest, and what is returned is its beginning, as a view.
        Raises: MavcgError for another number of arrays, a wrong shape or dtype, and a closed or cancelled model.
        """
        status, outputs = self._run(arrays, out, None)
        if status:
            check_run(self.path, self._table, status)
        return outputs

    def profile(self, *arrays: Array, runs: int = 1) -> tuple[StepTime, ...]:
        """Return the median time of each step over `runs` runs. Raises: as run.

        With states and a bounded dimension, by which they may grow, each run begins with the states of the first: all
        are of the same lengths.
        """
        if runs < 1:
            raise MavcgError(f"{self.path}: runs={runs}; give 1 or more")
        times = np.zeros((runs, len(self._steps)))
        saved = self.save_state() if runs > 1 and self.states and self.dimensions else None
        for number, row in enumerate(times):
            if number and saved is not None:
                self.restore_state(saved)
            status, _ = self._run(arrays, None, row)
            check_run(self.path, self._table, status)
        return tuple(StepTime(*step, float(ns)) for step, ns in zip(self._steps, np.median(times, axis=0), strict=True))

    def cancel(self) -> None:
        """End the run of another thread, with an error, before its next step."""
        with self._alive:
            if self._context:
                self._table.cancel(self._context)

    def reset(self) -> None:
        """Set the states to their initial values, after a run of another thread has ended.

        Raises: MavcgError for a closed model.
        """
        self._of_states("reset")

    def save_state(self) -> bytes:
        """Return the states, for restore_state of this model in any context or process.

        Raises: MavcgError for a closed model, and after a run that did not end.
        """
        buffer = ffi.new("char[]", self._saved_bytes)
        self._of_states("state_save", buffer, self._saved_bytes)
        return bytes(ffi.buffer(buffer, self._saved_bytes))

    def restore_state(self, saved: bytes) -> None:
        """Set the states to those that save_state returned.

        Raises: MavcgError for a closed model, and for bytes that no context of this model saved.
        """
        self._of_states("state_restore", from_buffer(saved), len(saved))

    def _of_states(self, function: str, *arguments: Any) -> None:
        """Call a function of the library's table on the context. Raises: MavcgError."""
        with self._running:
            if not self._context:
                raise MavcgError(f"{self.path}: the model is closed; load it again")
            if not has_states(self._table):
                raise MavcgError(f"{self.path}: was built by an earlier mavcg, without states; build it again")
            check_status(self.path, self._table, getattr(self._table, function)(self._context, *arguments))

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
        # Of small models the time of a call is in these lines and those of _run_dense: they make no objects of cffi but
        # buffers, and compare shapes once.
        if not self.dimensions:
            return self._run_dense(dense_inputs(self.path, self.inputs, arrays), out, step_ns)
        with self._shaping:
            self._follow_states()
            if not are_inputs(self.inputs, arrays):  # perhaps of other lengths than those of the last run
                self._take_shapes(arrays)
                arrays = dense_inputs(self.path, self.inputs, arrays)
            return self._run_dense(arrays, out, step_ns)

    @contextlib.contextmanager
    def hold_shapes(self, arrays: Sequence[Any]) -> Iterator[None]:
        """Give the context the lengths of these inputs, which no other thread changes meanwhile. Raises: MavcgError if
        they do not fit."""
        with self._shaping:
            if self.dimensions:
                self._follow_states()
                self._take_shapes(arrays)
            yield

    def _follow_states(self) -> None:
        """Take the inputs and outputs of the lengths to which states have grown, or which a reset has set."""
        if self._grows:
            with self._alive:
                if self._context:
                    self._set_tensors(context_tensors(self._table, self._context))

    def _take_shapes(self, arrays: Sequence[Any]) -> None:
        """Take the lengths of the bounded dimensions from the shapes of the inputs. Raises: MavcgError if they do not
        fit."""
        shapes = shapes_of(arrays)
        if len(arrays) != len(self.inputs) or shapes == self._shapes:
            return
        with self._alive:
            if not self._context:
                raise MavcgError(f"{self.path}: the model is closed; load it again")
            self._set_tensors(set_shapes(self.path, self._table, self._context, shapes))

    def _set_tensors(self, tensors: tuple[tuple[Tensor, ...], tuple[Tensor, ...]]) -> None:
        """Take the inputs and outputs of the context's present lengths."""
        self.inputs, self.outputs = tensors
        self._shapes = [tensor.shape for tensor in self.inputs]

    def _run_dense(
        self, given: Sequence[Array], out: Sequence[Array] | Array | None, step_ns: Array | None
    ) -> tuple[int, tuple[Array, ...]]:
        if out is None:
            outputs = new_outputs(self.outputs)
        else:
            outputs = given_outputs(self.path, self.outputs, out)
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
                status = self._run_model(self._context, pointers_in, pointers_out)
                return status, self._present(outputs) if self._counted and not status else outputs
            times = ffi.from_buffer("double[]", step_ns)
            return self._profile_model(self._context, pointers_in, pointers_out, times), outputs

    def _present(self, outputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the outputs of a run that has ended at the lengths that it decided, in the same memory."""
        described = self._table.context_outputs(self._context)
        present = list(outputs)
        for number in self._counted:
            shape = tensor_of(described[number]).shape
            present[number] = outputs[number].reshape(-1)[: math.prod(shape)].reshape(shape)
        return tuple(present)

    def empty_outputs(self) -> tuple[Array, ...]:
        """Return new arrays for the outputs."""
        return new_outputs(self.outputs)

    def check_inputs(self, arrays: Sequence[Any]) -> list[Array]:
        """Return the inputs as dense arrays. Raises: MavcgError for a wrong number, shape or dtype."""
        return dense_inputs(self.path, self.inputs, arrays)


def context_options(threads: int, pin: bool) -> dict[str, int]:
    """Return the values that cffi initialises a mavcg_options with."""
    return {"threads": threads, "flags": _PIN if pin else 0}


def load(path: str | os.PathLike[str], threads: int | str = 1, pin: bool = False, network: str | None = None) -> Model:
    """Create a context of a library that `mavcg build` made of a model, or of one network of an application.

    Args:
        threads: number of threads in a run. "auto" or 0: the number and the core types that the build predicted to be
            fastest; without predictions one for each CPU that this process may use.
        pin: True to bind each of the context's own threads to a CPU.
        network: a network of an application's library, which gets memory of its own (load_application gives contexts in
            the application's memory).
    Raises: MavcgError for a file that is not a model library for this machine, for threads out of range, and for a
    processor without the instructions that the library needs.
    """
    return Model(Path(path), thread_count(threads), pin, network)


def thread_count(threads: int | str) -> int:
    """Return the number of threads for the library, with 0 for "auto".

    Raises: MavcgError for text, or for a number that is not a number of threads.
    """
    text = str(threads).strip()
    count = 0 if text == AUTO else int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else -1
    if not 0 <= count <= 0x7FFFFFFF:
        raise MavcgError(
            f"threads={threads}: give a number of 0 or more, or {AUTO} (0 and {AUTO}: the library chooses)"
        )
    return count
