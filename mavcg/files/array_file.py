"""Reads arrays from .npy and .npz files, whole and at once, so that a damaged file is refused where it is read."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError

Array = NDArray[Any]


def read_arrays(path: Path, where: str, remedy: str) -> Array | Mapping[str, Array]:
    """Return the array of a .npy file, or the arrays of a .npz file by their names. Nothing is unpickled.

    where: begins the error; remedy: ends it. Raises: MavcgError for a file that cannot be read, or is damaged.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers that old versions of NumPy wrote
            loaded = np.load(path, allow_pickle=False)
            if not hasattr(loaded, "files"):
                return np.asarray(loaded)
            with loaded:
                return {name: np.asarray(loaded[name]) for name in loaded.files}
    except Exception as error:  # NumPy, zipfile and zlib trust their file: any class
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MavcgError(f"{where}: no array could be read ({reason}); {remedy}") from error
