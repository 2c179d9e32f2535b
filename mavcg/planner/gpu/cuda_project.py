"""The folder of `mavcg plan --emit-cuda`: a CUDA source for each layer, the headers, kernels.json and a CMake file."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole
from mavcg.hardware.gpu import Gpu
from mavcg.planner.gpu.gpu_layer import GpuLayer
from mavcg.planner.gpu.kernel_plan import ConvKernel, Kernel, ProductKernel, WindowKernel
from mavcg.planner.gpu.kernel_search import FoundKernel, best_kernel
from mavcg.planner.gpu.layer_source import layer_source
from mavcg.planner.gpu.nvidia_compilers import MachineCode, compile_cuda, compilers_present
from mavcg.planner.layer_model.layer import ConvLayer, ItemBytes
from mavcg.planner.layer_model.tiling import Dataflow
from mavcg.text.safe_text import c_identifier

HEADERS = Path(__file__).parent / "csrc"
INDEX = "kernels.json"
FORMAT = 1
_KINDS: dict[str, type[Kernel]] = {kind.__name__: kind for kind in (ConvKernel, ProductKernel, WindowKernel)}
_OPTION = "--emit-cuda"


@dataclass(frozen=True)
class EmittedKernel:
    """A layer's kernel in the folder. code: its machine code, where NVIDIA's compilers are installed."""

    function: str
    file: str
    found: FoundKernel
    code: MachineCode | None

    def as_json(self) -> dict[str, Any]:
        """Return the row of `mavcg plan --emit-cuda --json`; registers are ptxas's, or else the plan's."""
        kernel = self.found.kernel
        registers = self.found.time.registers
        spilled = None
        if self.code is not None:
            registers = self.code.resources[self.function].registers
            spilled = sum(one.spilled_bytes for one in self.code.resources.values())
        x, y, z = kernel.grid
        return {
            "layer": kernel.layer.conv.name, "file": self.file, "shared_bytes": kernel.shared_bytes,
            "registers": registers, "registers_from": "plan" if self.code is None else "ptxas",
            "spilled_bytes": spilled, "threads": kernel.threads, "blocks": x * y * z, "type": kernel.layer.type,
            "tile": kernel.tiling.tile.factors, "dataflow": str(kernel.tiling.dataflow), "splits": kernel.splits,
            "bound": self.found.time.bound, "predicted_ms": self.found.time.seconds * 1e3,
        }  # fmt: skip


def emit_cuda(layers: Sequence[GpuLayer], gpu: Gpu, folder: Path) -> tuple[EmittedKernel, ...]:
    """Write the CUDA sources of layers for a GPU into a folder, which is made.

    Raises: MavcgError for a folder that cannot be written or has other files in it, and for a layer that has no kernel;
    ToolError where a compiler refuses a source.
    """
    prepare_folder(folder)
    headers = {path.name: path.read_text() for path in sorted(HEADERS.glob("*.cuh"))}
    compiled = compilers_present()
    done: list[EmittedKernel] = []
    names: set[str] = set()
    for number, layer in enumerate(layers):
        found = best_kernel(layer, gpu)
        function = c_identifier(f"layer_{layer.conv.name or number}")
        if function in names:
            function = f"{function}_{number}"
        names.add(function)
        source = layer_source(found.kernel, function)
        write_whole(folder / f"{function}.cu", source, _OPTION)
        code = compile_cuda(source, headers, gpu.arch) if compiled else None
        done.append(EmittedKernel(function, f"{function}.cu", found, code))
    for name, text in (*headers.items(), ("gpu_emulation.h", (HEADERS / "gpu_emulation.h").read_text())):
        write_whole(folder / name, text, _OPTION)
    write_whole(folder / "CMakeLists.txt", cmake_text([one.file for one in done], gpu.arch), _OPTION)
    index = {"format": FORMAT, "gpu": gpu.name, "arch": gpu.arch, "kernels": [_as_index(one) for one in done]}
    write_whole(folder / INDEX, json.dumps(index, indent=1) + "\n", _OPTION)
    return tuple(done)


def prepare_folder(folder: Path) -> None:
    """Make a folder, or accept one that is empty or was written by --emit-cuda. Raises: MavcgError for any other."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = [path.name for path in folder.iterdir()]
    except OSError as error:
        raise MavcgError(f"{_OPTION} {folder}: cannot be made ({error.strerror}); name another folder") from error
    if others and INDEX not in others:
        raise MavcgError(f"{_OPTION} {folder}: has other files in it ({others[0]}, ..); name a new folder")


def cmake_text(files: Sequence[str], arch: str) -> str:
    """Return a CMakeLists.txt that compiles the kernels into a static library `layers`."""
    sources = "\n".join(f"    {name}" for name in files)
    return (
        "cmake_minimum_required(VERSION 3.24)\nproject(layers LANGUAGES CXX CUDA)\n"
        "if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)\n"
        f"  set(CMAKE_CUDA_ARCHITECTURES {arch.removeprefix('sm_')})\nendif()\n"
        "set(CMAKE_CUDA_STANDARD 17)\nadd_library(layers STATIC\n"
        f"{sources})\ntarget_include_directories(layers PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})\n"
    )


def _as_index(one: EmittedKernel) -> dict[str, Any]:
    kernel = one.found.kernel
    plan = {name: value for name, value in asdict(kernel).items() if name != "layer"}
    return {
        "function": one.function, "file": one.file, "kind": type(kernel).__name__, "plan": plan,
        "layer": asdict(kernel.layer),
    }  # fmt: skip


def read_index(folder: Path) -> tuple[tuple[str, str, Kernel], ...]:
    """Return (function, file, kernel) of a folder that --emit-cuda wrote.

    Raises: MavcgError for a folder that has no kernels.json, or one that cannot be read, naming the place.
    """
    path = folder / INDEX
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise MavcgError(f"{path}: cannot be read ({error}); name a folder that --emit-cuda wrote") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("kernels"), list):
        raise MavcgError(f"{path}: is no index of kernels of format {FORMAT}; write the folder anew by --emit-cuda")
    found = []
    for number, row in enumerate(data["kernels"]):
        try:
            found.append(_kernel_of(row))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MavcgError(
                f"{path}: kernels[{number}]: {type(error).__name__} {error}; write the folder anew by --emit-cuda"
            ) from error
    return tuple(found)


def _kernel_of(row: dict[str, Any]) -> tuple[str, str, Kernel]:
    layer = dict(row["layer"])
    conv = dict(layer["conv"])
    for name in ("stride", "pads", "dilation"):
        conv[name] = tuple(int(value) for value in conv[name])
    conv["items"] = ItemBytes(**conv["items"])
    layer |= {"conv": ConvLayer(**conv), "act_args": tuple(float(value) for value in layer["act_args"])}
    plan = dict(row["plan"])
    if "stationary" in plan:
        plan["stationary"] = Dataflow(plan["stationary"])
    function, file = str(row["function"]), str(row["file"])
    if function != c_identifier(function) or Path(file).name != file:
        raise ValueError(f"{function}, {file}: no names of a kernel and its file")
    return function, file, _KINDS[row["kind"]](GpuLayer(**layer), **plan)
