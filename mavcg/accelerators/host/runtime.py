"""Run programs by the host side in C (runtime/accel), on its simulated device or with a driver, from Python by cffi."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from mavcg.accelerators.host.library import MESSAGE_BYTES, MOST_OPERATIONS, host_ffi, host_library
from mavcg.accelerators.image.program import AccelProgram
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.objects.elf import architecture
from mavcg.toolchain.target import host_target


def missing_part(program: AccelProgram, path: Path) -> str:
    """Return why the CPU parts of a program cannot run on this machine; "" if they can. path: the program's file."""
    for part in program.host.parts:
        library = path.parent / part.library
        if not part.library:
            return "no library was built for it; build it with --board or --cores"
        if not library.is_file():
            return f"{library} is not there; it belongs beside the program"
        if architecture(library) != host_target().arch:
            return f"{library.name} is for other processors than this; build it with --board host to run it here"
    return ""


@dataclass(frozen=True)
class DeviceDriver:
    """A driver's shared library, which exports the functions of mavcg_accel_driver.h.

    argument: text passed to the driver.
    """

    library: Path
    argument: str = ""

    @staticmethod
    def of(text: str) -> "DeviceDriver":
        """Return the driver of LIBRARY or LIBRARY:ARGUMENT. Raises: MavcgError if the file does not exist."""
        library, _, argument = text.partition(":")
        if not Path(library).is_file():
            raise MavcgError(f"--driver {text}: there is no file {library}; give LIBRARY.so or LIBRARY.so:ARGUMENT")
        return DeviceDriver(Path(library).absolute(), argument)

    def open(self, device: Any) -> Callable[[], None]:
        """Fill in a mavcg_accel_device of cffi, and return a function that releases it.

        Raises: MavcgError for a library that is not a driver, and with the driver's own message.
        """
        ffi = host_ffi()
        try:
            library = ffi.dlopen(str(self.library))
            opened, closed = library.mavcg_accel_driver_open, library.mavcg_accel_driver_close
        except (OSError, AttributeError) as error:
            raise MavcgError(
                f"{self.library}: not a driver as in mavcg_accel_driver.h ({error}); build it again"
            ) from error
        message = ffi.new("char[]", MESSAGE_BYTES)
        if opened(self.argument.encode(), device, message):
            text = ffi.string(message).decode(errors="replace") or "no device"
            raise MavcgError(f"{self.library}: {text}")

        def release() -> None:
            closed(device)

        return release


class DeviceProgram:
    """A program's file on a device, with its CPU parts; a context manager.

    driver: driver of the device; None for the simulated device. most_operations: limit of a job on that one. inputs,
    outputs: shapes of the whole network's tensors by name, in order. Raises: MavcgError with the host side's message.
    """

    def __init__(
        self,
        path: Path,
        threads: int = 0,
        driver: DeviceDriver | None = None,
        most_operations: int = MOST_OPERATIONS,
    ) -> None:
        ffi, library = host_ffi(), host_library()
        self._device = ffi.new("mavcg_accel_device *")
        self._program = self._context = ffi.NULL
        message = ffi.new("char[]", MESSAGE_BYTES)
        program, context = ffi.new("mavcg_accel_program **"), ffi.new("mavcg_accel_context **")
        self._release: Callable[[], None] = lambda: library.mavcg_accel_simulator_close(self._device)
        try:
            if driver is not None:
                self._release = lambda: None
                self._release = driver.open(self._device)
            else:
                self._check(library.mavcg_accel_simulator_for(str(path).encode(), self._device, message), message)
                self._check(library.mavcg_accel_simulator_limit(self._device, most_operations), message)
            self._check(library.mavcg_accel_open(str(path).encode(), self._device, program, message), message)
            self._program = program[0]
            self._check(library.mavcg_accel_create(self._program, 0, threads, context), message)
            self._context = context[0]
        except BaseException:
            self.close()
            raise
        self.inputs = self._shapes(library.mavcg_accel_input, library.mavcg_accel_input_count(self._program))
        self.outputs = self._shapes(library.mavcg_accel_output, library.mavcg_accel_output_count(self._program))

    def _check(self, status: int, message: Any) -> None:
        if status:
            ffi = host_ffi()
            text = ffi.string(message).decode(errors="replace")
            text = text or ffi.string(host_library().mavcg_accel_status_text(status)).decode()
            raise MavcgError(f"the accelerator's host side: {text}")

    def _shapes(self, tensor_at: Any, count: int) -> dict[str, tuple[int, ...]]:
        tensors = [tensor_at(self._program, index) for index in range(count)]
        names = [host_ffi().string(tensor.name).decode() for tensor in tensors]
        return {name: tuple(t.dims[i] for i in range(t.rank)) for name, t in zip(names, tensors, strict=True)}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run the network on an image or a batch. inputs: f32 with the shapes of `inputs`. Returns: f32 by name.

        Raises: MavcgError for an input that is missing or has another shape.
        """
        ffi, library = host_ffi(), host_library()
        given = []
        for name, shape in self.inputs.items():
            if name not in inputs:
                raise MavcgError(f"input {name}: not given; the network needs {', '.join(self.inputs)}")
            array = np.ascontiguousarray(inputs[name], np.float32)
            if array.shape != shape:
                raise MavcgError(f"input {name}: is {list(array.shape)}; give {list(shape)}")
            given.append(array)
        made = {name: np.empty(shape, np.float32) for name, shape in self.outputs.items()}
        status = library.mavcg_accel_run(
            self._context,
            ffi.new("float *[]", [ffi.cast("float *", array.ctypes.data) for array in given]),
            ffi.new("float *[]", [ffi.cast("float *", array.ctypes.data) for array in made.values()]),
        )
        self._check(status, library.mavcg_accel_message(self._context))
        return made

    @property
    def cycles(self) -> int:
        """Return the cycles that the device counted in the last run; 0 if it counts none."""
        return int(host_library().mavcg_accel_cycles(self._context))

    def close(self) -> None:
        """Release the context, the program and the device; a second call does nothing."""
        ffi, library = host_ffi(), host_library()
        library.mavcg_accel_destroy(self._context)
        library.mavcg_accel_close(self._program)
        self._release()
        self._release = lambda: None
        self._context = self._program = ffi.NULL

    def __enter__(self) -> "DeviceProgram":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
