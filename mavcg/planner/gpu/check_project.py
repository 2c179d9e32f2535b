"""`mavcg plan --check-cuda`: the kernels of a folder run in emulation, or on the GPU, against the plan interpreter."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.planner.gpu.check_layer import LayerCase, layer_case
from mavcg.planner.gpu.cuda_project import read_index
from mavcg.planner.gpu.emulation import EmulatedKernels
from mavcg.planner.gpu.kernel_plan import Kernel
from mavcg.planner.gpu.launch import launches_of

SEED = 20261123


@dataclass(frozen=True)
class KernelFault:
    """A kernel that is wrong: its layer, and what is."""

    layer: str
    message: str


@dataclass(frozen=True)
class CheckedProject:
    """kernels: how many ran; mismatches: elements that differ, and 1 for a kernel with another fault; faults: which."""

    kernels: int
    mismatches: int
    faults: tuple[KernelFault, ...]


def check_project(
    folder: Path, progress: Callable[[int, int, str], None] = lambda done, all, name: None
) -> CheckedProject:
    """Run every kernel of a folder by emulation on whole numbers, with threads in both orders, and on others.

    Raises: MavcgError for a folder that is none of --emit-cuda's; ToolError where a source does not compile.
    """
    kernels = read_index(folder)
    faults: list[KernelFault] = []
    mismatches = 0
    for number, (function, file, kernel) in enumerate(kernels):
        progress(number, len(kernels), kernel.layer.conv.name)
        try:
            source = (folder / file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise MavcgError(
                f"{folder / file}: cannot be read ({error}); write the folder anew by --emit-cuda"
            ) from error
        with scratch_folder("mavcg-emulation-") as scratch:
            emulated = EmulatedKernels([source], scratch, folder)
            wrong, message = check_kernel(emulated, kernel, function)
        if wrong:
            mismatches += wrong
            faults.append(KernelFault(kernel.layer.conv.name, message))
    return CheckedProject(len(kernels), mismatches, tuple(faults))


def check_kernel(emulated: EmulatedKernels, kernel: Kernel, function: str) -> tuple[int, str]:
    """Return how many elements of a kernel's outputs are wrong, at least 1 for a fault, and a message; 0 and ""."""
    launches = launches_of(kernel, function)
    for whole in (True, False):
        case = layer_case(kernel, SEED, whole)
        outputs = []
        for descending in (False, True) if whole else (True,):
            this = LayerCase({name: array.copy() for name, array in case.buffers.items()}, case.expected, case.bound)
            try:
                emulated.run(launches, this.buffers, descending)
            except MavcgError as error:
                return 1, str(error)
            if wrong := this.mismatches():
                kind = "whole numbers" if whole else "normal numbers"
                return wrong, f"{wrong} of {case.expected.size} elements differ from the plan interpreter's, {kind}"
            outputs.append(this.buffers["output"].tobytes())
        if len(set(outputs)) > 1:
            return 1, "the answer depends on the order of a block's threads: a race"
    return 0, ""
