"""Open libraries that mavcg built with the dynamic loader, and read the tables that they export.

runtime/csrc/engine_api.h declares the tables. A library is opened once for all its users, and closed after the last
one.
"""

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES
from mavcg.runtime.declared import ffi

TYPE_CODES: dict[str, int] = {
    name.removeprefix("MAVCG_").lower(): code for code, name in sorted(ffi.typeof("enum mavcg_type").elements.items())
}


API: int = ffi.integer_const("MAVCG_MODEL_API")
# The first versions of MAVCG_MODEL_API with states, bounded dimensions, lengths that a run decides, steps of lengths.
STATES_API, DIMENSIONS_API, COUNTED_API, STEPS_API = 2, 3, 4, 5
SIZES_API: int = ffi.integer_const("MAVCG_SIZES_API")
APP_API: int = ffi.integer_const("MAVCG_APP_API")
# The first versions of MAVCG_APP_API that can be used, with services, and with networks on accelerators.
FIRST_APP_API, SERVICE_API, ACCELERATED_API = 2, 3, 4
DTYPE_OF_CODE = {code: DTYPES[name] for name, code in TYPE_CODES.items()}
_CANCELLED: int = ffi.integer_const("MAVCG_CANCELLED")


@dataclass(frozen=True)
class Tensor:
    """An input or output of a model. dtype: NumPy's type, such as float32."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"


def check_status(path: Path, table: Any, status: int) -> None:
    """Raise MavcgError for a status that is not MAVCG_OK."""
    if status:
        message = "cancelled" if status == _CANCELLED else text_of(table.error_text(status))
        raise MavcgError(f"{path}: {message}")


# Libraries in use, by path: (identity of the file, number of contexts). The dynamic loader identifies libraries by
# name: while a library is loaded, it takes a new file of that name for the old one.
_libraries: dict[str, tuple[tuple[int, int, int], int]] = {}
_loading = threading.Lock()


def open_library(path: Path) -> tuple[Any, str]:
    """Load a library, or count one more use of it, and return it with its path. Raises: MavcgError.

    The path is for close_library.
    """
    with _loading:
        try:
            where = str(path.resolve(strict=True))
            status = os.stat(where)
        except OSError as error:
            raise MavcgError(f"{path}: cannot be loaded ({error.strerror}); name a library that mavcg built") from error
        identity = (status.st_dev, status.st_ino, status.st_mtime_ns)
        loaded, count = _libraries.get(where, (identity, 0))
        if loaded != identity:
            raise MavcgError(f"{path}: has changed since it was loaded; close the models that use the old one first")
        try:
            library = ffi.dlopen(where, ffi.RTLD_NOW | ffi.RTLD_LOCAL)
        except OSError as error:
            why = str(error).rpartition(f"'{where}': ")[2]
            raise MavcgError(
                f"{path}: cannot be loaded ({why}); name a model library that mavcg built for this machine"
            ) from error
        _libraries[where] = (identity, count + 1)
        return library, where


def close_library(library: Any, where: str) -> None:
    """Count one use less of a library, and close it after the last one."""
    with _loading:
        identity, count = _libraries[where]
        if count > 1:
            _libraries[where] = (identity, count - 1)
        else:
            del _libraries[where]
        ffi.dlclose(library)


def model_table(path: Path, library: Any, network: str | None) -> Any:
    """Return the mavcg_model_table of a model library, or of a network of an application. Raises: MavcgError."""
    application = application_table(path, library)
    if application is None:
        if network is not None:
            raise MavcgError(
                f"{path}: holds one model, not networks of an application; leave the network {network!r} out"
            )
        try:
            table = library.mavcg_model_api()
        except ffi.error as error:
            raise MavcgError(
                f"{path}: is not a library of a whole model; name one that `mavcg build MODEL` made without --partial"
            ) from error
        if not _is_known(table):
            raise MavcgError(f"{path}: was built by another mavcg (API {table.api}, here {API}); build it again")
        return table
    names = [text_of(application.networks[i].model.name) for i in range(application.network_count)]
    if network not in names:
        given = "holds several networks" if network is None else f"has no network {network!r}"
        raise MavcgError(f"{path}: {given}; name one by --network, or network=: {', '.join(names)}")
    return application.networks[names.index(network)].model


def size_tables(path: Path, library: Any) -> list[Any]:
    """Return the mavcg_model_table of each size of a library, or of its only size. Raises: MavcgError."""
    try:
        table = library.mavcg_sizes_api()
    except ffi.error:
        return [model_table(path, library, None)]
    if table.api != SIZES_API or not _is_known(table.models[0]):
        raise MavcgError(f"{path}: was built by another mavcg (API {table.api}, here {SIZES_API}); build it again")
    return [table.models[i] for i in range(table.count)]


def input_shapes_of_sizes(path: Path) -> list[tuple[tuple[int, ...], ...]]:
    """Return the shapes of the inputs in each size of a library. Raises: MavcgError as load."""
    library, where = open_library(path)
    try:
        tables = size_tables(path, library)
        return [tuple(tensor_of(table.inputs[i]).shape for i in range(table.input_count)) for table in tables]
    finally:
        close_library(library, where)


def application_table(path: Path, library: Any) -> Any:
    """Return the mavcg_app_table of an application's library; None for another library.

    Raises: MavcgError for a table of another version.
    """
    try:
        table = library.mavcg_app_api()
    except ffi.error:
        return None
    if not FIRST_APP_API <= table.api <= APP_API or not _is_known(table.networks[0].model):
        raise MavcgError(f"{path}: was built by another mavcg (API {table.api}, here {APP_API}); build it again")
    return table


def _is_known(table: Any) -> bool:
    """Return True for a mavcg_model_table of this version, or of an earlier one, which ends before the states."""
    return bool(1 <= table.api <= API)


def has_states(table: Any) -> bool:
    """Return True for a mavcg_model_table that has the functions on states, which libraries have since version 2."""
    return bool(table.api >= STATES_API)


def tensor_of(tensor: Any) -> Tensor:
    """Return a mavcg_tensor as a Tensor."""
    return Tensor(text_of(tensor.name), tuple(tensor.dims[0 : tensor.rank]), DTYPE_OF_CODE[tensor.type])


def dimensions_of(table: Any) -> dict[str, tuple[int, ...]]:
    """Return the bounds of a model's bounded dimensions by their names, {"tokens": (1, 512)}, with their steps,
    {"height": (32, 512, 32)}; {} for a model of fixed shapes."""
    found = dict[str, tuple[int, ...]]()
    for i in range(table.dimension_count if table.api >= DIMENSIONS_API else 0):
        each, step = table.dimensions[i], int(table.dimension_steps[i]) if table.api >= STEPS_API else 1
        found[text_of(each.name)] = (int(each.least), int(each.most), *([step] if step > 1 else []))
    return found


def counted_of(table: Any) -> dict[int, int]:
    """Return the axis of whose length each run decides, by the number of the output; {} for fixed outputs."""
    listed = (table.counted[i] for i in range(table.counted_count if table.api >= COUNTED_API else 0))
    return {int(each.output): int(each.axis) for each in listed}


def step_of(step: Any) -> tuple[str, str, str, int, int, int]:
    return text_of(step.name), text_of(step.op), text_of(step.kernel), step.rows, step.grain, step.work


def text_of(pointer: Any) -> str:
    """Return a char * as text."""
    text: bytes = ffi.string(pointer)
    return text.decode("utf-8", "replace")
