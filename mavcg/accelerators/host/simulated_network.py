"""Run a whole program in Python: segments in the functional simulator, the CPU's parts by their libraries.

It does what the host side in C does, for machines that this does not drive, such as VTA.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mavcg.accelerators.fixed_point import integers_of, reals_of
from mavcg.accelerators.host.library import MOST_OPERATIONS
from mavcg.accelerators.image.host import CpuPart, HostTensor
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.simulator.functional import execute_job, read_output, write_inputs
from mavcg.graph import Array
from mavcg.runtime.loading import load


def run_network(
    program: AccelProgram, path: Path, inputs: Mapping[str, Array], most_operations: int = MOST_OPERATIONS
) -> dict[str, Array]:
    """Return the outputs of the network on one image or batch, f32 by the model's names.

    path: the program's file, in whose folder the libraries of CPU parts are. inputs: f32 in the model's order of
    dimensions, by name. most_operations: of each segment, as of `execute`. Raises: MavcgError for a library that cannot
    be loaded, and as `execute`.
    """
    plan, features = program.host, np.zeros(program.feature_bytes, np.int8)
    written = np.zeros(program.feature_bytes, np.uint8)
    values = {
        name: _tensor_of(plan.tensor(name), _in_device_order(plan.tensor(name), inputs[name])) for name in plan.inputs
    }
    for number, part in enumerate(plan.cpu):
        if part.nodes:
            values |= _run_part(program, part, path.parent, values)
        if number < len(program.segments):
            job = program.jobs()[number]
            write_inputs(job, values, features, written)
            execute_job(job, features, written, most_operations)
            values |= {name: read_output(job, name, features) for name in job.outputs}
    made = {}
    for output in plan.outputs:
        tensor, value = plan.tensor(output.tensor), values[output.tensor]
        made[output.name] = output.in_its_order(value if tensor.radix is None else reals_of(tensor, value))
    return made


def _run_part(program: AccelProgram, part: CpuPart, folder: Path, values: Mapping[str, Array]) -> dict[str, Array]:
    with load(folder / part.library) as model:
        made = model.run(*(values[name] for name in part.inputs))
        return {
            name: _tensor_of(program.host.tensor(name), np.array(array))
            for name, array in zip(part.outputs, made, strict=True)
        }


def _in_device_order(tensor: HostTensor, array: Array) -> Array:
    """Return an input in the device's order of dimensions."""
    return array.transpose(0, 2, 3, 1) if tensor.nchw else array


def _tensor_of(tensor: HostTensor, reals: Array) -> Array:
    """Return a tensor as the accelerator and the libraries read it: int8, or f32 without a radix position."""
    return np.ascontiguousarray(reals if tensor.radix is None else integers_of(tensor, reals))
