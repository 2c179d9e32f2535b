"""NVRTC and ptxas from the wheels of the extra `cuda`: CUDA C++ -> PTX -> machine code, and the resources it uses.

NVRTC is the default because the kernels are CUDA C++, which people read and compile with nvcc as well; LLVM's NVPTX
back end would need them as LLVM IR. Version 12: CUDA 13 dropped sm_62 and everything else before sm_75.
"""

import ctypes
import importlib.util
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mavcg.errors import ToolError
from mavcg.files.scratch import scratch_folder

HINT = "install the compilers: pip install 'mavcg[cuda]' (nvidia-cuda-nvrtc-cu12, nvidia-cuda-nvcc-cu12)"
_FLAGS = ("--std=c++17", "--fmad=true")
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")


@dataclass(frozen=True)
class KernelResources:
    """Resources of a kernel as reported by ptxas. registers: per thread. spilled_bytes: spill stores plus loads."""

    registers: int
    stack_bytes: int
    spilled_bytes: int


@dataclass(frozen=True)
class MachineCode:
    """Machine code (cubin) of a source for one architecture, and the resources of each kernel by its name."""

    arch: str
    cubin: bytes
    ptx: bytes
    resources: Mapping[str, KernelResources]


def compilers_present() -> bool:
    """True if NVRTC and ptxas of the extra `cuda` are installed."""
    return bool(_nvidia_file("cuda_nvrtc/lib", "libnvrtc.so.12") and _nvidia_file("cuda_nvcc/bin", "ptxas"))


def compile_cuda(source: str, headers: Mapping[str, str], arch: str) -> MachineCode:
    """Compile CUDA C++ to machine code by NVRTC and ptxas. headers: texts by the names that the source includes.

    Raises: ToolError if the wheels are missing, or with the first lines of a compiler's message if it rejects the
    source.
    """
    ptx = _ptx(source, headers, arch)
    program = _nvidia_file("cuda_nvcc/bin", "ptxas")
    if program is None:
        raise ToolError(f"ptxas is not installed; {HINT}")
    with scratch_folder("mavcg-cuda-") as folder:
        (folder / "kernel.ptx").write_bytes(ptx.rstrip(b"\0"))
        command = [str(program), "-v", f"-arch={arch}", "-O3", "-o", "kernel.cubin", "kernel.ptx"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise ToolError(f"ptxas for {arch}: " + "\n".join((done.stderr + done.stdout).splitlines()[:12]))
        cubin = (folder / "kernel.cubin").read_bytes()
    return MachineCode(arch, cubin, ptx, parse_resources(done.stderr + done.stdout))


def parse_resources(report: str) -> dict[str, KernelResources]:
    """Return the resources of each kernel in a report of `ptxas -v`."""
    resources: dict[str, KernelResources] = {}
    name, stack, spilled = "", 0, 0
    for line in report.splitlines():
        if entry := _ENTRY.search(line):
            name, stack, spilled = entry[1], 0, 0
        elif spill := _SPILL.search(line):
            stack, spilled = int(spill[1]), int(spill[2]) + int(spill[3])
        elif (used := _USED.search(line)) and name:
            resources[name] = KernelResources(int(used[1]), stack, spilled)
    return resources


def _nvidia_file(folder: str, pattern: str) -> Path | None:
    """Return a file from NVIDIA's wheels, which all install into the package `nvidia`; None if it is missing."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted((Path(root) / folder).glob(pattern)):
            return path
    return None


@cache
def _nvrtc() -> Any:
    path = _nvidia_file("cuda_nvrtc/lib", "libnvrtc.so.12")
    if path is None:
        raise ToolError(f"NVRTC, CUDA's compiler as a library, is not installed; {HINT}")
    return ctypes.CDLL(str(path))


def _ptx(source: str, headers: Mapping[str, str], arch: str) -> bytes:
    nvrtc = _nvrtc()
    program = ctypes.c_void_p()
    texts = (ctypes.c_char_p * len(headers))(*(text.encode() for text in headers.values()))
    names = (ctypes.c_char_p * len(headers))(*(name.encode() for name in headers))
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", len(headers), texts, names))
    try:
        options = [*_FLAGS, f"--gpu-architecture=compute_{arch.removeprefix('sm_')}"]
        flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if nvrtc.nvrtcCompileProgram(program, len(options), flags):
            log = _text(nvrtc, program, "nvrtcGetProgramLog").decode(errors="replace")
            raise ToolError(f"NVRTC for {arch}: " + "\n".join(log.splitlines()[:12]))
        return _text(nvrtc, program, "nvrtcGetPTX")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(nvrtc: Any, program: ctypes.c_void_p, function: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(nvrtc, f"{function}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(nvrtc, function)(program, buffer))
    return buffer.raw


def _check(status: int) -> None:
    if status:
        raise ToolError(f"NVRTC returned status {status}; {HINT}")
