"""Run kernels on this machine's GPU, if it has one: nvcc compiles them, NVIDIA's driver API by ctypes runs them."""

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.accelerators.gpu.layer_source import Launch
from mavcg.accelerators.gpu.nvidia_compilers import HINT, MachineCode, parse_resources
from mavcg.errors import MavcgError, ToolError
from mavcg.files.scratch import scratch_folder

_LIBRARY = "libcuda.so.1"
# Numbers of cuda.h.
_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _MULTIPROCESSORS, _CLOCK_KHZ = 75, 76, 16, 13
_MAX_DYNAMIC_SHARED = 8
_REGISTERS, _LOCAL_BYTES = 4, 3
_STATIC_SHARED_LIMIT = 48 << 10


def gpu_present() -> bool:
    """True if this machine has NVIDIA's driver and a working GPU."""
    try:
        Driver()
    except MavcgError:
        return False
    return True


def compile_with_nvcc(source: str, headers: Path, arch: str) -> MachineCode:
    """Compile CUDA C++ by the nvcc on the PATH. headers: folder of the kernels' own headers.

    Raises: ToolError if there is no nvcc, or with the first lines of its message if it rejects the source.
    """
    with scratch_folder("mavcg-cuda-") as folder:
        (folder / "kernel.cu").write_text(source)
        command = ["nvcc", "-cubin", f"-arch={arch}", "-std=c++17", "-Xptxas", "-v", "-I", str(headers), "kernel.cu"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        except OSError as error:
            raise ToolError(f"nvcc cannot be started ({error.strerror}); {HINT}") from error
        if done.returncode:
            raise ToolError(f"nvcc for {arch}: " + "\n".join((done.stderr + done.stdout).splitlines()[:12]))
        return MachineCode(
            arch, (folder / "kernel.cubin").read_bytes(), b"", parse_resources(done.stderr + done.stdout)
        )


class Driver:
    """The first GPU of this machine, in the primary context that other libraries of the process share."""

    def __init__(self) -> None:
        """Open the GPU. Raises: ToolError if there is no driver or no GPU."""
        try:
            self._cuda = ctypes.CDLL(_LIBRARY)
        except OSError as error:
            raise ToolError(
                f"{_LIBRARY}: not found; kernels run only on a machine with an NVIDIA GPU and its driver"
            ) from error
        self._call("cuInit", 0)
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._device = device
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._cuda, function)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(status, ctypes.byref(text))
            raise ToolError(f"{function}: {(text.value or b'error').decode()} ({status})")

    def attribute(self, number: int) -> int:
        """Return an attribute of the GPU by its number in cuda.h."""
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), number, self._device)
        return value.value

    @property
    def arch(self) -> str:
        """Architecture of the GPU, such as sm_90."""
        return f"sm_{self.attribute(_CAPABILITY_MAJOR)}{self.attribute(_CAPABILITY_MINOR)}"

    @property
    def name(self) -> str:
        """Marketing name of the GPU."""
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, 256, self._device)
        return text.value.decode()

    def facts(self) -> dict[str, Any]:
        """Return name, architecture, multiprocessors and clock in MHz."""
        return {
            "name": self.name,
            "arch": self.arch,
            "sms": self.attribute(_MULTIPROCESSORS),
            "clock_mhz": self.attribute(_CLOCK_KHZ) / 1000,
        }

    def load(self, cubin: bytes, names: Sequence[str]) -> dict[str, "ctypes.c_void_p"]:
        """Load machine code and return its functions by name; they stay loaded until the process ends."""
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), cubin)
        functions = {}
        for name in names:
            function = ctypes.c_void_p()
            self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            functions[name] = function
        return functions

    def launch(self, launch: Launch, function: "ctypes.c_void_p", addresses: Sequence[int], stream: int = 0) -> None:
        """Enqueue a kernel on a stream. addresses: of its six buffers, 0 for a buffer that it does not have."""
        if launch.shared_bytes > _STATIC_SHARED_LIMIT:
            self._call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, launch.shared_bytes)
        values = [ctypes.c_uint64(address) for address in addresses]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self._call(
            "cuLaunchKernel",
            function,
            *launch.grid,
            launch.threads,
            1,
            1,
            launch.shared_bytes,
            ctypes.c_void_p(stream),
            pointers,
            None,
        )

    def run(
        self,
        launches: Sequence[Launch],
        functions: Mapping[str, "ctypes.c_void_p"],
        buffers: Mapping[str, NDArray[Any]],
    ) -> None:
        """Run kernels in order on device copies of arrays, and copy "output" and "partial" back into the arrays."""
        addresses: dict[str, ctypes.c_uint64] = {}
        try:
            for name, array in buffers.items():
                address = ctypes.c_uint64()
                self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(16, array.nbytes)))
                addresses[name] = address
                data = np.ascontiguousarray(array)
                self._call(
                    "cuMemcpyHtoD_v2", address, data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(data.nbytes)
                )
            for launch in launches:
                device_addresses = [addresses[name].value if name else 0 for name in launch.arguments]
                self.launch(launch, functions[launch.function], device_addresses)
            self._call("cuCtxSynchronize")
            for name in {"output", "partial"} & set(buffers):
                result = np.empty_like(buffers[name])
                self._call(
                    "cuMemcpyDtoH_v2",
                    result.ctypes.data_as(ctypes.c_void_p),
                    addresses[name],
                    ctypes.c_size_t(result.nbytes),
                )
                buffers[name][...] = result
        finally:
            for address in addresses.values():
                self._call("cuMemFree_v2", address)
