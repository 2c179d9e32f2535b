"""Arrays from .npy and .npz files: inputs of models, calibration images, samples."""

import random

from fuzz.mutation import mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = (
    "mavcg.files.array_file",
    "mavcg.console.arrays",
    "mavcg.model.quantise.samples",
    "mavcg.accelerators.images",
)
_HEADS = ("'<f4'", "'|u1'", "'<f8'", "'O'", "'<M8[s]'", "'|V3'", "'<U9'", "(1, 4)", "(1099511627776,)", "()", "True")


def _change(source: random.Random, data: bytes) -> bytes:
    from bench.fuzz_mutations import flipped, words

    if source.random() < 0.5:  # the header is a Python literal of a fixed length
        made, word = bytearray(data), source.choice(_HEADS).encode()
        at = source.choice([n for n in range(len(data)) if data[n : n + 1] in b"'(TF"] or [0])
        made[at : at + len(word)] = word
        return bytes(made)
    return source.choice((words, flipped))(source, data)


mutate = mutator(_change)


def run(data: bytes) -> None:
    """Read the file by each door; nothing is unpickled."""
    from mavcg.console.arrays import read_buffers, read_input_arrays
    from mavcg.model.quantise.samples import read_samples

    suffix = ".npz" if data.startswith(b"PK") else ".npy"
    path = file_with(data, f"samples/x{suffix}")
    path.with_suffix(".npy" if suffix == ".npz" else ".npz").unlink(missing_ok=True)
    call_target(lambda: read_samples(path.parent, ["x"]))
    call_target(lambda: read_input_arrays(["x"], [f"x={path}"]))
    call_target(lambda: read_input_arrays(["x"], [str(path)]))
    call_target(lambda: read_buffers([str(path)]))
