"""Calibration inputs from a folder: .npy files of a model's only input, or .npz files of all inputs by name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.files.array_file import read_arrays
from mavcg.graph import DTYPES, TensorType

Sample = Mapping[str, NDArray[Any]]


def read_samples(folder: Path, names: Sequence[str], place: str = "--inputs") -> tuple[Sample, ...]:
    """Return an input of the model for each file of the folder, in the order of the files' names.

    names: of the model's inputs. place: for messages. Raises: MavcgError for a folder without such files, and for a
    file that has not one array for each input.
    """
    if not folder.is_dir():
        raise MavcgError(f"{place} {folder}: is not a folder; name one with .npy or .npz files, one for each sample")
    files = sorted(path for path in folder.iterdir() if path.suffix in (".npy", ".npz"))
    if not files:
        raise MavcgError(f"{place} {folder}: has no .npy or .npz file; save one for each sample")
    return tuple(_read(path, names, place) for path in files)


def _read(path: Path, names: Sequence[str], place: str) -> Sample:
    loaded = read_arrays(path, f"{place}: {path}", "save it by numpy.save")
    arrays = loaded if isinstance(loaded, Mapping) else {names[0]: loaded}
    if set(arrays) != set(names):
        found, wanted = ", ".join(sorted(arrays)), ", ".join(names)
        raise MavcgError(
            f"{place}: {path}: has arrays for {found}; the model's inputs are {wanted}: give an .npz file with an "
            "array for each"
        )
    return arrays


def free_shapes(samples: Sequence[Sample], free: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of inputs with free dimensions, which are those of the first sample."""
    return {name: tuple(samples[0][name].shape) for name in free}


def check_samples(
    samples: Sequence[Sample], types: Mapping[str, TensorType], folder: Path, place: str = "--inputs"
) -> None:
    """Check that all samples have the types of the model's inputs. Raises: MavcgError naming the sample's number."""
    for number, sample in enumerate(samples):
        for name, kind in types.items():
            array = sample[name]
            if tuple(array.shape) != kind.shape or array.dtype != DTYPES[kind.dtype]:
                raise MavcgError(
                    f"{place} {folder}: sample {number}: {name} is {array.dtype}{list(array.shape)}; the model takes "
                    f"{DTYPES[kind.dtype]}{list(kind.shape)}"
                )
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise MavcgError(f"{place} {folder}: sample {number}: {name} has numbers that are not finite")
