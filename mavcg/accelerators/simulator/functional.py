"""Execute a program on the bytes of the memories, by the simulated core in C: a device's results, without timing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from mavcg.accelerators.host.library import MESSAGE_BYTES, MOST_OPERATIONS, host_ffi, host_library
from mavcg.accelerators.image.host_table import device_sizes
from mavcg.accelerators.image.program import AccelProgram, StoredTensor
from mavcg.accelerators.isa.encoding import encode_program
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.simulator.vta_functional import execute_vta_job
from mavcg.accelerators.target import VTA
from mavcg.errors import MavcgError
from mavcg.graph import Array

# Called with the index of an instruction, the instruction, and the int8 tile [rows, columns, channels] that it
# computed, which is valid during the call.
Observer = Callable[[int, AccelInstruction, Array], None]
_UNWRITTEN = 0x55  # byte of a features segment that nothing wrote


def execute(
    program: AccelProgram,
    inputs: Mapping[str, Array],
    observer: Observer | None = None,
    most_operations: int = MOST_OPERATIONS,
) -> dict[str, Array]:
    """Run a program on a batch of images in program order and return its outputs, int8 [N, H, W, C] by name.

    Each segment's inputs are written before it, and its outputs read after it.

    Args:
        inputs: int8 [N, H, W, C] for each of program.inputs.
        observer: called with each tile that an instruction computes.
        most_operations: limit of each segment (mavcg_accel_simulator_limit).
    Raises: MavcgError naming the instruction, for addresses beyond a memory, reads of bytes that were never written,
    waits for tokens that never come, more operations than the limit; and for inputs of another shape, and outputs that
    were not written.
    """
    features = np.zeros(program.feature_bytes, np.int8)
    written = np.zeros(program.feature_bytes, np.uint8)
    outputs = dict[str, Array]()
    for number, (job, (first, _)) in enumerate(zip(program.jobs(), program.job_ranges(), strict=True), 1):
        location = program.network if len(program.segments) == 1 else f"{program.network}: segment {number}"
        write_inputs(job, inputs, features, written)
        if program.target.isa == VTA:
            _execute_vta(job, first, features, written, observer, most_operations)
            outputs.update({name: read_output(program, name, features) for name in job.outputs})
            continue
        with _simulated_core(job, location, features, written, most_operations) as step:
            for index, instruction in enumerate(job.instructions, first):
                more, tile = step()
                if tile is not None and observer is not None:
                    observer(index, instruction, tile)
                if not more:
                    break
            else:
                step()  # past the last instruction, which was not misc.end: the core refuses it
        for name in job.outputs:
            at = _bytes_of(program.tensor(name))
            if not written[at].all():
                raise MavcgError(f"output {name}: the program ended before all of it was written")
            outputs[name] = features[at]
    return outputs


def _execute_vta(
    job: AccelProgram, first: int, features: Array, written: Array, observer: Observer | None, most_operations: int
) -> None:
    """Run a job of VTA. first: index of its first instruction. features, written: as execute_job."""
    features[written == 0] = _UNWRITTEN  # no result may depend on it
    take = None if observer is None else lambda index, one, tile: observer(first + index, one, tile)
    execute_vta_job(job, features, take, most_operations=most_operations)
    written[:] = 1


def write_inputs(job: AccelProgram, inputs: Mapping[str, Array], features: Array, written: Array) -> None:
    """Write a job's inputs into the features segment, as the host does before it. Raises: MavcgError for another shape.

    inputs: int8 [N, H, W, C] by name. features: int8 [bytes]. written: [bytes], a flag for each; both are changed.
    """
    for name in job.inputs:
        tensor = job.tensor(name)
        features[_bytes_of(tensor)] = _checked_input(tensor, inputs[name])
        written[_bytes_of(tensor)] = 1


def read_output(program: AccelProgram, name: str, features: Array) -> Array:
    """Return a tensor of the features segment, int8 [N, H, W, C]."""
    return np.asarray(features[_bytes_of(program.tensor(name))])


def execute_job(job: AccelProgram, features: Array, written: Array, most_operations: int = MOST_OPERATIONS) -> None:
    """Run one of a program's jobs on a features segment, as `execute` does. Raises: MavcgError naming the instruction.

    features: int8 [bytes]. written: [bytes], a flag for each; both are changed.
    """
    if job.target.isa == VTA:
        _execute_vta(job, 0, features, written, None, most_operations)
        return
    with _simulated_core(job, job.network, features, written, most_operations) as step:
        while step()[0]:
            pass


@contextmanager
def _simulated_core(
    program: AccelProgram, location: str, features: Array, written: Array, most_operations: int
) -> Iterator[Callable[[], tuple[bool, Array | None]]]:
    """Yield a function that executes the next instruction and returns whether more follow, and the tile, if any.

    program: of one segment. location: its name, for messages. features, written: the features segment, and a flag for
    each of its bytes; both are changed.
    """
    ffi, library = host_ffi(), host_library()
    code = encode_program(program.instructions)
    job = {
        "code": ffi.from_buffer("unsigned char[]", code),
        "parameters": ffi.from_buffer("unsigned char[]", program.parameters),
        "features": ffi.cast("unsigned char *", features.ctypes.data),
        "features_written": ffi.cast("unsigned char *", written.ctypes.data),
        "code_bytes": len(code),
        "parameter_bytes": len(program.parameters),
        "feature_bytes": len(features),
        "most_operations": most_operations,
    }
    core, tile = ffi.new("mavcg_accel_core **"), ffi.new("mavcg_accel_tile *")
    message = ffi.new("char[]", MESSAGE_BYTES)
    sizes = ffi.new("mavcg_accel_sizes *", list(device_sizes(program)))
    status = library.mavcg_accel_core_open(sizes, ffi.new("mavcg_accel_job *", job), core)
    if status:
        raise MavcgError(f"{location}: {ffi.string(library.mavcg_accel_status_text(status)).decode()}")

    def step() -> tuple[bool, Array | None]:
        more = library.mavcg_accel_core_step(core[0], tile, message)
        if more < 0:
            raise MavcgError(f"{location}: {ffi.string(message).decode()}")
        if tile.bytes == ffi.NULL:
            return bool(more), None
        shape = (tile.rows, tile.columns, tile.channels)
        return bool(more), np.frombuffer(ffi.buffer(tile.bytes, shape[0] * shape[1] * shape[2]), np.int8).reshape(shape)

    try:
        yield step
    finally:
        library.mavcg_accel_core_close(core[0])


def _bytes_of(tensor: StoredTensor) -> Array:
    """Return the byte offsets [N, H, W, C] of a tensor in the features segment."""
    pixels = tensor.offset + np.arange(tensor.images * tensor.height * tensor.width)[:, None] * tensor.pixel
    return np.asarray((pixels + np.arange(tensor.channels)).reshape(tensor.shape))


def _checked_input(tensor: StoredTensor, values: Array) -> Array:
    if values.shape != tensor.shape or values.dtype != np.int8:
        given = f"{values.dtype} {list(values.shape)}"
        raise MavcgError(f"input {tensor.name}: is {given}; give int8 {list(tensor.shape)}")
    return values
