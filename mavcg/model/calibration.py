"""The inputs on which a model's error is measured: those of a folder's files, or random ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mavcg.errors import MavcgError
from mavcg.files.array_file import read_arrays
from mavcg.graph import DTYPES, Array, Graph, TensorType

SEED = "seed"
MOST_SETS = 16  # sets of inputs of a folder, the first by name: each is computed in double precision
SUFFIXES = (".npy", ".npz")


@dataclass(frozen=True)
class Calibration:
    """The source of inputs.

    folder: of .npz and .npy files, one for each set of inputs; None: one set of random numbers, from this seed.
    """

    folder: Path | None = None
    seed: int = 0

    def __str__(self) -> str:
        return f"{SEED}:{self.seed}" if self.folder is None else str(self.folder)


RANDOM = Calibration()


def parse_calibration(text: str) -> Calibration:
    """Return what the value of --calibrate means: a folder, "seed", or "seed:N".

    Raises: MavcgError for another number than a whole one, and for a folder without files of arrays.
    """
    name, colon, number = text.partition(":")
    if name == SEED and (not colon or (number.isascii() and number.isdigit())):
        return Calibration(seed=int(number or 0))
    folder = Path(text)
    if not folder.is_dir():
        raise MavcgError(
            f"--calibrate {text}: is no folder; name one with .npz files of inputs, or give {SEED}:N for random ones"
        )
    if not _files(folder):
        raise MavcgError(
            f"--calibrate {text}: has no .npz or .npy files; write one for each set of inputs, such as by "
            "numpy.savez('1.npz', x=image)"
        )
    return Calibration(folder)


def calibration_sets(graph: Graph, calibration: Calibration) -> list[list[Array]]:
    """Return sets of inputs of a graph, each with an array for every input, in order.

    Raises: MavcgError naming the file and the input, where an array is missing or has another type than the input.
    """
    types = {name: graph.types[name] for name in graph.inputs}
    if calibration.folder is None:
        rng = np.random.default_rng(calibration.seed)
        return [[sample(tensor, rng) for tensor in types.values()]]
    return [_read_set(path, types) for path in _files(calibration.folder)[:MOST_SETS]]


def calibration_words(source: str, sets: int) -> str:
    """Return the end of a sentence on errors. source: str(calibration). sets: of inputs."""
    if source.startswith(f"{SEED}:"):
        return "on random inputs"
    return f"on {sets} {'set' if sets == 1 else 'sets'} of inputs in {source}"


def sample(tensor: TensorType, rng: np.random.Generator) -> Array:
    """Return a random input: normal floats, 0 and 1 of other types, which are indices that exist."""
    if tensor.dtype.startswith("f"):
        return rng.standard_normal(tensor.shape).astype(DTYPES[tensor.dtype])
    return rng.integers(0, 2, tensor.shape).astype(DTYPES[tensor.dtype])


def _files(folder: Path) -> Sequence[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)


def _read_set(path: Path, types: Mapping[str, TensorType]) -> list[Array]:
    """Read a set of inputs: a .npz file has an array for each input by name, a .npy file that of the only input."""
    option = f"--calibrate: {path}"
    loaded = read_arrays(path, option, "give a .npy or .npz file")
    arrays: Mapping[str, Array]
    if isinstance(loaded, Mapping):
        arrays = loaded
    elif len(types) == 1:
        arrays = dict.fromkeys(types, loaded)
    else:
        raise MavcgError(f"{option}: holds one array for the inputs {', '.join(types)}; give a .npz file with all")
    if missing := [name for name in types if name not in arrays]:
        raise MavcgError(f"{option}: has no array {missing[0]}; name its arrays {', '.join(types)}, as the inputs are")
    return [as_input(arrays[name], tensor, f"{option}: {name}") for name, tensor in types.items()]


def as_input(array: Array, tensor: TensorType, place: str) -> Array:
    """Return an array in an input's type. Raises: MavcgError for another shape, and numbers that the type lacks."""
    dtype = DTYPES[tensor.dtype]
    if array.shape != tensor.shape or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise MavcgError(f"{place}: is {array.dtype}{list(array.shape)}; the input is {tensor}")
    return np.ascontiguousarray(array.astype(dtype))
