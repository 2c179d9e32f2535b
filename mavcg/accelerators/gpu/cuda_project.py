"""The folder of `mavcg plan --emit-cuda`: a CUDA source for each layer, the headers, kernels.json and a CMake file."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from mavcg.accelerators.gpu.conv_kernel import ConvKernel
from mavcg.accelerators.gpu.gpu_layer import GpuLayer
from mavcg.accelerators.gpu.kernel_plan import ElementwiseKernel, Kernel, ProductKernel, WindowKernel
from mavcg.accelerators.gpu.kernel_search import FoundKernel, best_kernel
from mavcg.accelerators.gpu.layer_source import layer_source
from mavcg.accelerators.gpu.network_program import NetworkKernel, network_program
from mavcg.accelerators.gpu.network_steps import network_steps
from mavcg.accelerators.gpu.nvidia_compilers import MachineCode, compile_cuda, compilers_present
from mavcg.accelerators.gpu.plan_program import plan_cuda
from mavcg.accelerators.plans.text.interpret import count_plan
from mavcg.accelerators.plans.text.parser import parse_plan
from mavcg.accelerators.plans.text.plan import Conv, TextPlan
from mavcg.accelerators.plans.text.printer import print_plan
from mavcg.errors import MavcgError
from mavcg.files.decode import Document, decode, read_json
from mavcg.files.whole_file import write_whole
from mavcg.graph import Graph
from mavcg.hardware.gpu import Gpu
from mavcg.text.safe_text import c_identifier

HEADERS = Path(__file__).parent / "csrc"
INDEX = "kernels.json"
NETWORK = "network"
FORMAT = 1
_ANEW = "write the folder anew by --emit-cuda"
_KINDS: dict[str, type[Kernel]] = {
    kind.__name__: kind for kind in (ConvKernel, ProductKernel, WindowKernel, ElementwiseKernel)
}
_OPTION = "--emit-cuda"
PLAN_THREADS = 128  # of csrc/plan_cuda.cuh
_CMAKE_HEAD = """\
cmake_minimum_required(VERSION 3.24)
# Another GPU than the one of the plan: cmake -DGPU=86
if(NOT DEFINED GPU)
  set(GPU {arch})
endif()
set(CMAKE_CUDA_ARCHITECTURES ${{GPU}})
project(layers LANGUAGES CXX CUDA)
set(CMAKE_CUDA_STANDARD 17)
"""


@dataclass(frozen=True)
class EmittedKernel:
    """A layer's kernel in the folder. code: its machine code, or None if NVIDIA's compilers are not installed."""

    function: str
    file: str
    chosen: FoundKernel
    code: MachineCode | None

    def as_json(self) -> dict[str, Any]:
        """Return the layer's row of `mavcg plan --emit-cuda --json`; registers are ptxas's, or else an estimate."""
        kernel = self.chosen.kernel
        registers = self.chosen.time.registers
        spilled = None
        if self.code is not None:
            registers = self.code.resources[self.function].registers
            spilled = sum(kernel_resources.spilled_bytes for kernel_resources in self.code.resources.values())
        x, y, z = kernel.grid
        return {
            "layer": kernel.layer.conv.name,
            "file": self.file,
            "shared_bytes": kernel.shared_bytes,
            "registers": registers,
            "registers_from": "plan" if self.code is None else "ptxas",
            "spilled_bytes": spilled,
            "threads": kernel.threads,
            "blocks": x * y * z,
            "type": kernel.layer.type,
            "tile": kernel.tiling.tile.factors,
            "dataflow": str(kernel.tiling.dataflow),
            "splits": kernel.splits,
            "bound": self.chosen.time.bound,
            "predicted_ms": self.chosen.time.seconds * 1e3,
        }


def emit_network(graph: Graph, type_name: str, gpu: Gpu, folder: Path) -> tuple[EmittedKernel, ...]:
    """Write the kernels of a fused graph like emit_cuda, and network.cu, which runs them, with weights.bin.

    Raises: as emit_cuda; MavcgError, before anything is written, for a graph that the host program cannot run.
    """
    steps = network_steps(graph, type_name)
    typed = [step for step in steps if step.layer is not None]
    emitted = emit_cuda([step.layer for step in typed if step.layer is not None], gpu, folder, NETWORK)
    kernels = {
        step.output: NetworkKernel(step, kernel.chosen.kernel, kernel.function)
        for step, kernel in zip(typed, emitted, strict=True)
    }
    program = network_program(graph, steps, kernels, type_name)
    write_whole(folder / f"{NETWORK}.cu", program.text, _OPTION)
    write_whole(folder / "weights.bin", program.weights, _OPTION)
    for name in ("gpu_network.h", "gpu_half.h"):
        write_whole(folder / name, (HEADERS / name).read_text(), _OPTION)
    return emitted


def emit_cuda(layers: Sequence[GpuLayer], gpu: Gpu, folder: Path, program: str = "") -> tuple[EmittedKernel, ...]:
    """Write the CUDA sources of layers for a GPU into a folder, which is created.

    program: name of a host program in the same folder, "" for none. Raises: MavcgError for a folder that cannot be
    written or contains other files, and for a layer that has no kernel; ToolError if a compiler rejects a source.
    """
    prepare_folder(folder)
    headers = {path.name: path.read_text() for path in sorted(HEADERS.glob("*.cuh"))}
    compiled = compilers_present()
    emitted: list[EmittedKernel] = []
    for layer, function in zip(layers, unique_names([layer.conv.name for layer in layers]), strict=True):
        chosen = best_kernel(layer, gpu)
        source = layer_source(chosen.kernel, function)
        write_whole(folder / f"{function}.cu", source, _OPTION)
        code = compile_cuda(source, headers, gpu.arch) if compiled else None
        emitted.append(EmittedKernel(function, f"{function}.cu", chosen, code))
    for name, text in (*headers.items(), ("gpu_emulation.h", (HEADERS / "gpu_emulation.h").read_text())):
        write_whole(folder / name, text, _OPTION)
    write_whole(folder / "CMakeLists.txt", cmake_text([kernel.file for kernel in emitted], gpu.arch, program), _OPTION)
    index = {"format": FORMAT, "gpu": gpu.name, "arch": gpu.arch, "kernels": [_as_index(kernel) for kernel in emitted]}
    write_whole(folder / INDEX, json.dumps(index, indent=1) + "\n", _OPTION)
    return tuple(emitted)


def emit_plans(plans: Sequence[TextPlan], arch: str, folder: Path) -> tuple[dict[str, Any], ...]:
    """Write plans as CUDA programs, one file for each layer, and return the rows of --json.

    registers: of CONV's kernel by ptxas; None without the compilers. Raises: as emit_cuda.
    """
    prepare_folder(folder)
    names = unique_names([plan.name for plan in plans])
    sources = [plan_cuda(plan, name) for plan, name in zip(plans, names, strict=True)]
    headers = {path.name: path.read_text() for path in sorted(HEADERS.glob("plan_*"))}
    registers: dict[object, int] = {}
    rows = []
    for plan, name, source in zip(plans, names, sources, strict=True):
        write_whole(folder / f"{name}.cu", source, _OPTION)
        types = plan.info.types
        if compilers_present() and types not in registers:
            registers[types] = compile_cuda(source, headers, arch).resources["plan_conv_kernel"].registers
        convs = [command.output for command in plan.commands if isinstance(command, Conv)]
        sums = {tile.name: tile.elements for tile in plan.tiles}
        moved = count_plan(plan)
        rows.append(
            {
                "layer": plan.name,
                "file": f"{name}.cu",
                "shared_bytes": 0,
                "registers": registers.get(types),
                "threads": PLAN_THREADS,
                "blocks": max(-(-sums[output] // PLAN_THREADS) for output in convs),
                "launches": len(convs),
                "moved_bytes": moved.traffic.total_bytes,
            }
        )
    for path in (*sorted(HEADERS.glob("plan_*")), HEADERS / "gpu_emulation.h"):
        write_whole(folder / path.name, path.read_text(), _OPTION)
    cmake = _CMAKE_HEAD.format(arch=arch.removeprefix("sm_"))
    cmake += "".join(f"add_executable({name} {name}.cu)\n" for name in names)
    write_whole(folder / "CMakeLists.txt", cmake, _OPTION)
    index = [
        {"function": name, "file": f"{name}.cu", "kind": "plan", "plan": print_plan(plan)}
        for plan, name in zip(plans, names, strict=True)
    ]
    write_whole(
        folder / INDEX, json.dumps({"format": FORMAT, "arch": arch, "kernels": index}, indent=1) + "\n", _OPTION
    )
    return tuple(rows)


def unique_names(layers: Sequence[str]) -> list[str]:
    """Return a function name for each layer: C identifiers without duplicates."""
    names: list[str] = []
    for number, layer in enumerate(layers):
        name = c_identifier(f"layer_{layer or number}")
        names.append(f"{name}_{number}" if name in names else name)
    return names


def prepare_folder(folder: Path) -> None:
    """Create a folder, or accept an empty one or one that --emit-cuda wrote. Raises: MavcgError for any other."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = [path.name for path in folder.iterdir()]
    except OSError as error:
        raise MavcgError(f"{_OPTION} {folder}: cannot be made ({error.strerror}); name another folder") from error
    if others and INDEX not in others:
        raise MavcgError(f"{_OPTION} {folder}: contains other files ({others[0]}, ..); name a new folder")


def cmake_text(files: Sequence[str], arch: str, program: str = "") -> str:
    """Return a CMakeLists.txt that compiles the kernels into a static library `layers`, and `program` if given."""
    sources = "\n".join(f"    {name}" for name in files)
    return (
        _CMAKE_HEAD.format(arch=arch.removeprefix("sm_")) + "add_library(layers STATIC\n"
        f"{sources})\ntarget_include_directories(layers PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})\n"
        + (f"add_executable({program} {program}.cu)\n" if program else "")
    )


def _as_index(emitted: EmittedKernel) -> dict[str, Any]:
    kernel = emitted.chosen.kernel
    plan = {name: value for name, value in asdict(kernel).items() if name != "layer"}
    return {
        "function": emitted.function,
        "file": emitted.file,
        "kind": type(kernel).__name__,
        "plan": plan,
        "layer": asdict(kernel.layer),
    }


def read_index(folder: Path) -> tuple[tuple[str, str, Kernel | TextPlan], ...]:
    """Return (function, file, kernel or plan) of each kernel in a folder that --emit-cuda wrote.

    Raises: MavcgError, naming the file and entry, for a kernels.json that is missing or cannot be read.
    """
    document = read_json(folder / INDEX, "name a folder that --emit-cuda wrote")
    index = document._replace(remedy=_ANEW).decode(_Index, of_others=True)
    return tuple(_kernel_of(document, row, f"kernels[{number}]") for number, row in enumerate(index.kernels))


@dataclass(frozen=True)
class _KernelRow:
    """A kernel in the index: a plan of a kind and its layer, or the text of an accelerator's plan."""

    function: str
    file: str
    kind: Literal["plan", "ConvKernel", "WindowKernel", "ProductKernel", "ElementwiseKernel"]
    plan: str | dict[str, Any]
    layer: dict[str, Any] | None = None


@dataclass(frozen=True)
class _Index:
    """The entries of an index that are read; others are for people."""

    format: Literal[1]
    kernels: tuple[_KernelRow, ...]


def _kernel_of(document: Document, row: _KernelRow, key: str) -> tuple[str, str, Kernel | TextPlan]:
    if row.function != c_identifier(row.function) or Path(row.file).name != row.file:
        raise document.fault(key, f"{row.function}, {row.file} are not names of a kernel and its file", _ANEW)
    if row.kind == "plan" and isinstance(row.plan, str):
        return row.function, row.file, parse_plan(row.plan)
    if row.kind == "plan" or isinstance(row.plan, str):
        raise document.fault(f"{key}.plan", f"is not that of a {row.kind}", _ANEW)
    plan = {**row.plan, "layer": row.layer}
    return row.function, row.file, decode(plan, _KINDS[row.kind], f"{document.where}: {key}.plan", _ANEW)
