"""Arrays of commands: those of the option --input, from .npy and .npz files, and outputs, written and summarised."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.files.array_file import read_arrays

Array = NDArray[Any]


def load_array_file(file: str, option: str) -> Array | Mapping[str, Array]:
    """Return the array of a .npy file, or those of a .npz file by name. option: with its value, begins errors.

    Raises: MavcgError.
    """
    return read_arrays(Path(file), option, "give a .npy or .npz file")


def named_input_arrays(names: Sequence[str], options: Sequence[str], owner: str = "the model") -> dict[str, Array]:
    """Return the arrays of --input by the names of inputs, of which some may be missing.

    names: of the inputs. options: values of --input, each [NAME=]FILE. owner: of the inputs, for errors.
    Raises: MavcgError naming the option, for a file without arrays and an unknown name.
    """
    by_name: dict[str, Array] = {}
    for text in options:
        name, equals, file = text.partition("=")
        if not equals or (name not in names and Path(text).exists()):
            name, file = "", text
        loaded = load_array_file(file, f"--input {text}")
        arrays = loaded if isinstance(loaded, Mapping) else {name: loaded}
        for key, array in arrays.items():
            input_name = key if key in names else next((n for n in names if n not in by_name), "")
            if (
                (key and key not in names and not isinstance(loaded, Mapping))
                or not input_name
                or input_name in by_name
            ):
                raise MavcgError(
                    f"--input {text}: {owner} has no such input, or it has an array already; its inputs are "
                    f"{', '.join(names)}"
                )
            by_name[input_name] = array
    return by_name


def read_input_arrays(names: Sequence[str], options: Sequence[str], alternative: str = "") -> list[Array]:
    """Return an array for each input of a model, in the order of the inputs.

    Args:
        names: names of the model's inputs.
        options: values of --input, each [NAME=]FILE.
        alternative: another remedy, for the error if an input has no array.
    Raises: MavcgError naming the option, for a file without arrays, an unknown name, and inputs without an array.
    """
    by_name = named_input_arrays(names, options)
    missing = [n for n in names if n not in by_name]
    if missing:
        raise MavcgError(
            f"--input: there is no array for {', '.join(missing)}; give --input {missing[0]}=X.npy{alternative}"
        )
    return [by_name[n] for n in names]


def read_buffers(files: Sequence[str]) -> list[bytes]:
    """Return the bytes of each .npy file. Raises: MavcgError for a file that has no array, or several."""
    contents = []
    for text in files:
        loaded = load_array_file(text, f"--input {text}")
        if isinstance(loaded, Mapping):
            raise MavcgError(
                f"--input {text}: has several arrays, and a buffer takes one; give a .npy file for each buffer"
            )
        contents.append(loaded.tobytes())
    return contents


def write_arrays(output: Path, arrays: dict[str, Any]) -> None:
    """Write arrays as a .npz file, whole or not at all. arrays: by name. Raises: MavcgError naming -o."""
    from mavcg.files.disk_space import with_room
    from mavcg.files.whole_file import whole

    if not output.parent.is_dir():
        raise MavcgError(f"-o {output}: the folder {output.parent} does not exist; make it, or name another output")
    try:
        with whole(output) as made, made.open("wb") as file:
            np.savez(file, **arrays)
    except OSError as error:
        reason = with_room(error, output, sum(array.nbytes for array in arrays.values()))
        raise MavcgError(f"-o {output}: cannot be written ({reason}); name another file") from error


def summary_of(name: str, array: Any) -> dict[str, Any]:
    """Return the shape, the range and the five largest elements of an output, as the document of --json has them."""
    flat = array.reshape(-1)
    order = np.argsort(-flat.astype(np.float64), kind="stable")[:5]
    return {
        "name": name,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "min": float(flat.min()) if flat.size else 0.0,
        "max": float(flat.max()) if flat.size else 0.0,
        "top_index": [int(i) for i in order],
        "top": [float(flat[i]) for i in order],
    }
