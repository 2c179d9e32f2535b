"""Write section .host of a program's file: the facts that the host side in C (runtime/accel/image.c) needs."""

import struct
from collections.abc import Mapping, Sequence

from mavcg.accelerators.fixed_point import ROUNDINGS
from mavcg.accelerators.image.host import HostTensor
from mavcg.accelerators.image.program import AccelProgram, StoredTensor
from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.isa.forms import WORD_BYTES
from mavcg.accelerators.target import OWN

TABLE_MAGIC = 0x3354484D  # "MHT3"
FOREIGN_MAGIC = 0x4654484D  # "MHTF": of another instruction set, which the host side in C refuses
_NO_RADIX = 0x80000000  # INT32_MIN


def host_table(program: AccelProgram) -> bytes:
    """Return section .host: the plan and the device's sizes as little-endian 32-bit words, for the host side in C.

    In this order: magic; cores, word, output channels, rows, words of feature and weight memory, banks, rounding;
    for each tensor name, radix position, scale (f32, 0 without one), zero point, nchw, offset and pixel distance in
    the features segment (0, 0: not stored), dimensions; for each output of the network its tensor's index, name,
    nchw, dimensions; list of the network's inputs; for each segment offset and bytes of its code, lists of the
    tensors that the host writes before it and reads after it; for each CPU part, one more than segments, library,
    inputs, outputs. Tensors are listed by index. Tables, lists and texts begin with their length; a text is padded
    with zeros to a whole word.
    """
    plan = program.host
    numbers = {tensor.name: number for number, tensor in enumerate(plan.tensors)}
    stored = {tensor.name: tensor for tensor in program.tensors}
    magic = TABLE_MAGIC if program.target.isa == OWN else FOREIGN_MAGIC
    content = bytearray(struct.pack("<9I", magic, *device_sizes(program)))
    content += struct.pack("<I", len(plan.tensors))
    for tensor in plan.tensors:
        content += _tensor_words(tensor, stored.get(tensor.name))
    content += struct.pack("<I", len(plan.outputs))
    for output in plan.outputs:
        content += struct.pack("<I", numbers[output.tensor]) + _text_words(output.name)
        content += struct.pack(f"<{2 + len(output.dims)}I", output.nchw, len(output.dims), *output.dims)
    content += _list_words(plan.inputs, numbers) + struct.pack("<I", len(program.segments))
    offset = 0
    for segment, (first, end) in zip(program.segments, program.job_ranges(), strict=True):
        size = WORD_BYTES * sum(one.form.words for one in program.instructions[first:end])
        content += struct.pack("<2I", offset, size)
        content += _list_words(segment.inputs, numbers) + _list_words(segment.outputs, numbers)
        offset += size
    for part in plan.cpu:
        content += _text_words(part.library) + _list_words(part.inputs, numbers) + _list_words(part.outputs, numbers)
    return bytes(content)


def device_sizes(program: AccelProgram) -> tuple[int, ...]:
    """Return the sizes of a program's device, in the order of mavcg_accel_sizes."""
    path = datapath(program.target)
    sizes = (program.target.batch, path.word, path.oc_lanes, path.row_lanes, path.feature_words, path.weight_words)
    return (*sizes, path.banks, ROUNDINGS.index(path.rounding))


def _tensor_words(tensor: HostTensor, stored: StoredTensor | None) -> bytes:
    radix = _NO_RADIX if tensor.radix is None else tensor.radix & 0xFFFFFFFF
    offset_and_stride = (stored.offset, stored.pixel) if stored is not None else (0, 0)
    numbers = (int(tensor.nchw), *offset_and_stride, len(tensor.dims), *tensor.dims)
    format_words = struct.pack("<Ifi", radix, tensor.scale or 0.0, tensor.zero)
    return _text_words(tensor.name) + format_words + struct.pack(f"<{len(numbers)}I", *numbers)


def _text_words(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<I", len(content)) + content + bytes(4 - len(content) % 4)


def _list_words(names: Sequence[str], numbers: Mapping[str, int]) -> bytes:
    return struct.pack(f"<{len(names) + 1}I", len(names), *(numbers[name] for name in names))
