"""`mavcg plan --check-cuda`: run the kernels of a folder in emulation, and compare them with the plan interpreter."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.accelerators.gpu.check_layer import LARGEST_WHOLE, LayerCase, layer_case
from mavcg.accelerators.gpu.cuda_project import read_index
from mavcg.accelerators.gpu.emulation import EmulatedKernels, run_emulated_plan
from mavcg.accelerators.gpu.kernel_plan import Kernel
from mavcg.accelerators.gpu.layer_source import launches_of
from mavcg.accelerators.plans.text.interpret import run_plan
from mavcg.accelerators.plans.text.plan import TextPlan
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder

SEED = 20261123
_PLAN_TYPES: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}


@dataclass(frozen=True)
class KernelFault:
    """A wrong kernel: the name of its layer, and a message."""

    layer: str
    message: str


@dataclass(frozen=True)
class CheckedProject:
    """Result of a check.

    kernels: number of kernels run. mismatches: elements that differ, plus 1 for each kernel with another fault. faults:
    one for each wrong kernel.
    """

    kernels: int
    mismatches: int
    faults: tuple[KernelFault, ...]


def check_project(
    folder: Path, progress: Callable[[int, int, str], None] = lambda done, all, name: None
) -> CheckedProject:
    """Run every kernel of a folder by emulation: on integers with threads in both orders, and on normal numbers.

    Raises: MavcgError for a folder that --emit-cuda did not write; ToolError if a source does not compile.
    """
    kernels = read_index(folder)
    faults: list[KernelFault] = []
    mismatches = 0
    for number, (function, file, kernel) in enumerate(kernels):
        name = kernel.name if isinstance(kernel, TextPlan) else kernel.layer.conv.name
        progress(number, len(kernels), name)
        try:
            source = (folder / file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise MavcgError(
                f"{folder / file}: cannot be read ({error}); write the folder anew by --emit-cuda"
            ) from error
        with scratch_folder("mavcg-emulation-") as scratch:
            if isinstance(kernel, TextPlan):
                wrong, message = check_plan(source, kernel, function, scratch, folder)
            else:
                wrong, message = check_kernel(EmulatedKernels([source], scratch, folder), kernel, function)
        if wrong:
            mismatches += wrong
            faults.append(KernelFault(name, message))
    return CheckedProject(len(kernels), mismatches, tuple(faults))


def check_plan(source: str, plan: TextPlan, function: str, scratch: Path, headers: Path) -> tuple[int, str]:
    """Return (wrong elements, message) of a plan's program on integers; (0, "") if it is right.

    A program that moves another number of bytes than the plan counts as 1.
    """
    rng = np.random.default_rng(SEED)
    types = plan.info.types
    assert plan.info.weight is not None
    x = rng.integers(-LARGEST_WHOLE, LARGEST_WHOLE + 1, plan.info.input)
    w = rng.integers(-LARGEST_WHOLE, LARGEST_WHOLE + 1, plan.info.weight)
    expected = run_plan(plan, x, w)
    output = np.full(plan.info.output, 77, _PLAN_TYPES[types.output])
    arrays = [x.astype(_PLAN_TYPES[types.input]), w.astype(_PLAN_TYPES[types.weight]), output]
    moved = run_emulated_plan(source, function, arrays, scratch, headers)
    if moved != expected.moved.traffic.total_bytes:
        return 1, f"moves {moved} bytes, and the plan {expected.moved.traffic.total_bytes}"
    wrong = int((output != expected.output.astype(output.dtype)).sum())
    return wrong, f"{wrong} of {output.size} elements differ from the plan interpreter's" if wrong else ""


def check_kernel(emulated: EmulatedKernels, kernel: Kernel, function: str) -> tuple[int, str]:
    """Return (wrong elements, message) of a kernel's output; (0, "") if it is right. Another fault counts as 1."""
    launches = launches_of(kernel, function)
    for whole in (True, False):
        case = layer_case(kernel, SEED, whole)
        outputs = []
        for descending in (False, True) if whole else (True,):
            case_copy = LayerCase(
                {name: array.copy() for name, array in case.buffers.items()}, case.expected, case.bound
            )
            try:
                emulated.run(launches, case_copy.buffers, descending)
            except MavcgError as error:
                return 1, str(error)
            if wrong := case_copy.mismatches():
                kind = "whole numbers" if whole else "normal numbers"
                return wrong, f"{wrong} of {case.expected.size} elements differ from the plan interpreter's, {kind}"
            outputs.append(case_copy.buffers["output"].tobytes())
        if len(set(outputs)) > 1:
            return 1, "the answer depends on the order of a block's threads: a race"
    return 0, ""
