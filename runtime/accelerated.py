"""Programs of `mavcg accel build` as networks of a service, on a simulated device of the host side's library."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.runtime.declare import declarations
from mavcg.runtime.declared import ffi
from mavcg.runtime.run_arrays import Array

_HEADERS = ("mavcg_accel.h", "mavcg_accel_service.h")
_MESSAGE_BYTES = 256


@cache
def _host_ffi() -> Any:
    """Return the cffi interface of the host side, with mavcg_accelerated as an opaque type."""
    import cffi

    made = cffi.FFI()
    made.cdef("typedef struct mavcg_accelerated mavcg_accelerated;")
    for name in _HEADERS:
        made.cdef(declarations((Path(__file__).parent / "accel" / name).read_text(encoding="utf-8")))
    return made


class AcceleratedProgram:
    """A program's file as a network of a service; a context manager.

    host: library that `mavcg accel host --library` made. slots: jobs that may be under way at a time. threads: of its
    CPU parts. inputs, outputs: shapes of the network's f32 tensors, in order. segment_ns: time for which each segment
    occupies the accelerator: its simulated cycles at the target's frequency. Raises: MavcgError for a library or a
    program that cannot be loaded, with the host side's message.
    """

    def __init__(self, host: Path, program: Path, slots: int, threads: int) -> None:
        own = _host_ffi()
        self._service, self.path = own.NULL, program
        try:
            self._library = own.dlopen(str(host.absolute()))
            opened = self._library.mavcg_accel_service_open
        except (OSError, AttributeError) as error:
            raise MavcgError(
                f"{host}: not a library of the host side ({error}); make it by mavcg accel host --library"
            ) from error
        message, made = own.new("char[]", _MESSAGE_BYTES), own.new("mavcg_accel_service **")
        if status := opened(str(program).encode(), slots, threads, made, message):
            text = own.string(message) or own.string(self._library.mavcg_accel_status_text(status))
            raise MavcgError(f"{program}: {text.decode(errors='replace')}")
        self._service = made[0]
        loaded = self._library.mavcg_accel_service_program(self._service)
        self.inputs = self._shapes(self._library.mavcg_accel_input, self._library.mavcg_accel_input_count, loaded)
        self.outputs = self._shapes(self._library.mavcg_accel_output, self._library.mavcg_accel_output_count, loaded)
        count = self._library.mavcg_accel_segment_count(loaded)
        self.segment_ns = tuple(int(self._library.mavcg_accel_segment_ns(loaded, n)) for n in range(count))

    def _shapes(self, tensor_at: Any, count: Any, program: Any) -> tuple[tuple[int, ...], ...]:
        tensors = [tensor_at(program, index) for index in range(count(program))]
        return tuple(tuple(tensor.dims[axis] for axis in range(tensor.rank)) for tensor in tensors)

    def fill(self, row: Any, accelerator: int) -> None:
        """Fill in a mavcg_accelerated of the runtime's cffi. accelerator: number, which networks may share."""
        own = _host_ffi()
        address = int(ffi.cast("uintptr_t", ffi.addressof(row)))
        self._library.mavcg_accel_service_network(self._service, accelerator, own.cast("mavcg_accelerated *", address))

    def check_inputs(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the inputs of a job as f32 arrays. Raises: MavcgError for another number or shape."""
        if [array.shape for array in inputs] != list(self.inputs):
            given = ", ".join(str(list(array.shape)) for array in inputs)
            wanted = ", ".join(str(list(shape)) for shape in self.inputs)
            raise MavcgError(f"{self.path}: inputs have the shapes {given}; give {wanted}")
        return [np.ascontiguousarray(array, np.float32) for array in inputs]

    def check_outputs(self, outputs: Sequence[Array]) -> list[Array]:
        """Return the outputs of all jobs, new ones for (). Raises: MavcgError for other shapes, types or orders."""
        if not outputs:
            return [np.empty(shape, np.float32) for shape in self.outputs]
        good = [array.shape for array in outputs] == list(self.outputs)
        if not good or not all(array.dtype == np.float32 and array.flags.c_contiguous for array in outputs):
            wanted = ", ".join(str(list(shape)) for shape in self.outputs)
            raise MavcgError(f"{self.path}: outputs are not dense f32 arrays of the shapes {wanted}; give such")
        return list(outputs)

    def take_part_ns(self) -> tuple[int, ...]:
        """Return the longest time of each part on the CPU since the last call, in ns, and forget it."""
        parts = range(len(self.segment_ns) + 1)
        return tuple(int(self._library.mavcg_accel_service_take_part_ns(self._service, part)) for part in parts)

    @property
    def message(self) -> str:
        """Return the text about the last job that ended with MAVCG_ERROR_ACCELERATOR since `fill`, or ''."""
        return str(
            _host_ffi().string(self._library.mavcg_accel_service_message(self._service)).decode(errors="replace")
        )

    def close(self) -> None:
        """Release the contexts, the program and the device; a second call does nothing."""
        if self._service:
            self._library.mavcg_accel_service_close(self._service)
            self._service = _host_ffi().NULL

    def __enter__(self) -> "AcceleratedProgram":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
