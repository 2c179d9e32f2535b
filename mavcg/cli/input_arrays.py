"""Arrays of the option --input, from .npy and .npz files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError

Array = NDArray[Any]


def load_array_file(file: str, option: str) -> Any:
    """Return what NumPy reads from a .npy or .npz file. Raises: MavcgError, which begins with the option's words."""
    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise MavcgError(f"{option}: no array could be read ({error}); give a .npy or .npz file") from error


def read_input_arrays(names: Sequence[str], given: Sequence[str], otherwise: str = "") -> list[Array]:
    """Return an array for each input of a model, in the order of their names.

    given: the values of --input, [NAME=]FILE. otherwise: another way out, for the error where an input has none.
    Raises: MavcgError naming the option, for a file without arrays, a name that is none, and inputs without an array.
    """
    by_name: dict[str, Array] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not equals or (name not in names and Path(text).exists()):
            name, file = "", text
        loaded = load_array_file(file, f"--input {text}")
        arrays = {key: loaded[key] for key in loaded.files} if hasattr(loaded, "files") else {name: loaded}
        for key, array in arrays.items():
            input_name = key if key in names else next((n for n in names if n not in by_name), "")
            if (key and key not in names and not hasattr(loaded, "files")) or not input_name or input_name in by_name:
                raise MavcgError(f"--input {text}: the model has no such free input; its inputs are {', '.join(names)}")
            by_name[input_name] = array
    missing = [n for n in names if n not in by_name]
    if missing:
        raise MavcgError(f"--input: nothing for {', '.join(missing)}; give --input {missing[0]}=X.npy{otherwise}")
    return [by_name[n] for n in names]


def read_buffers(given: Sequence[str]) -> list[bytes]:
    """Return the bytes of an array for each value of --input. Raises: MavcgError for files of none or several."""
    contents = []
    for text in given:
        loaded = load_array_file(text, f"--input {text}")
        if hasattr(loaded, "files"):
            raise MavcgError(f"--input {text}: a buffer has one array; give a .npy file for each, in their order")
        contents.append(loaded.tobytes())
    return contents
