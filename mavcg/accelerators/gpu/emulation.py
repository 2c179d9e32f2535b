"""CUDA kernels as C++ on this machine, compiled with csrc/gpu_emulation.h; threads run in either order."""

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.accelerators.gpu.layer_source import Launch
from mavcg.errors import MavcgError
from mavcg.toolchain.zig import run_tool, zig_command

HEADERS = Path(__file__).parent / "csrc"
FAULTS = {1: "not every thread of a block reached a barrier", 2: "a thread wrote outside of its block's shared memory"}
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fno-sanitize=all", "-ffp-contract=off", "-fno-exceptions", "-Wno-everything")
GUARD_BYTES = 256

_ENTRY = """
extern "C" int emulate(void *kernel, const unsigned *grid, unsigned threads, unsigned shared_bytes, int descending,
                       void **args) {
    return mavcg_emulation::run((mavcg_emulation::Kernel *)kernel, grid, threads, shared_bytes, descending, args);
}
"""


class EmulatedKernels:
    """Kernels of CUDA sources, compiled and loaded as functions of this process."""

    def __init__(self, sources: Sequence[str], folder: Path, headers: Path = HEADERS) -> None:
        """Compile sources into folder/emulated.so. Raises: ToolError with the compiler's message."""
        self._library = compile_shared("\n".join(sources) + _ENTRY, folder, headers)

    def run(self, launches: Sequence[Launch], buffers: Mapping[str, NDArray[Any]], descending: bool = False) -> None:
        """Run kernels in order. buffers: arrays by the names that launches use; they are written in place.

        descending: run the threads of a block from the last to the first. Raises: MavcgError for a fault that the
        emulation detects.
        """
        guarded = {name: _Guarded(array) for name, array in buffers.items()}
        for launch in launches:
            function = ctypes.cast(getattr(self._library, launch.function), ctypes.c_void_p)
            arguments = (ctypes.c_void_p * 6)(*(guarded[name].address if name else None for name in launch.arguments))
            grid = (ctypes.c_uint * 3)(*launch.grid)
            fault = self._library.emulate(
                function, grid, launch.threads, launch.shared_bytes, int(descending), arguments
            )
            if fault:
                raise MavcgError(
                    f"kernel {launch.function}: " + "; ".join(FAULTS[bit] for bit in FAULTS if fault & bit)
                )
        for name, array_copy in guarded.items():
            if not array_copy.copy_back():
                raise MavcgError(f"kernels {launches[0].function}: wrote outside of their {name}")


def compile_shared(source: str, folder: Path, headers: Path) -> ctypes.CDLL:
    """Compile a source for emulation and load it. Raises: ToolError with the compiler's message."""
    text, made, library = folder / "emulated.cpp", folder / "emulated.o", folder / "emulated.so"
    text.write_text("#define MAVCG_EMULATION\n" + source)
    command = [*zig_command("c++"), *_FLAGS, "-I", str(headers), "-c", "-o", str(made), str(text)]
    run_tool(command, "compiling CUDA kernels for emulation")
    # No libraries are linked: this process already has the C library that the kernels use.
    run_tool([*zig_command("ld.lld"), "-shared", "-o", str(library), str(made)], "linking CUDA kernels for emulation")
    return ctypes.CDLL(str(library))


def run_emulated_plan(
    source: str, function: str, arrays: Sequence[NDArray[Any]], folder: Path, headers: Path = HEADERS
) -> int:
    """Run a plan's program on (input, weight, output), and return the bytes that it moved; output is written in place.

    Raises: MavcgError if it writes outside of its tensors.
    """
    library = compile_shared(source, folder, headers)
    guarded = [_Guarded(array) for array in arrays]
    getattr(library, function)(*(ctypes.c_void_p(array_copy.address) for array_copy in guarded))
    if not all([array_copy.copy_back() for array_copy in guarded]):
        raise MavcgError(f"{function}: wrote outside of its tensors")
    library.plan_bytes.restype = ctypes.c_longlong
    return int(library.plan_bytes())


class _Guarded:
    """A copy of an array between guard bytes, all 0xFF, which are NaNs if read as floats."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        size = array.nbytes
        self.room = np.full(size + 3 * GUARD_BYTES, 0xFF, np.uint8)
        start = -self.room.ctypes.data % 64 + GUARD_BYTES - GUARD_BYTES % 64
        self.inside = self.room[start : start + size]
        self.inside[:] = np.frombuffer(array.tobytes(), np.uint8)
        self.before, self.after = self.room[:start], self.room[start + size :]

    @property
    def address(self) -> int:
        return int(self.inside.ctypes.data)

    def copy_back(self) -> bool:
        """Copy the contents back. Return False if the bytes around them changed."""
        self.array[...] = np.frombuffer(self.inside.tobytes(), self.array.dtype).reshape(self.array.shape)
        return bool((self.before == 0xFF).all() and (self.after == 0xFF).all())
