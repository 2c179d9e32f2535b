"""Run libraries of one model in several sizes from Python: `mavcg.load_sizes("libm.so").run(x)` uses the size of x."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.runtime.library_tables import input_shapes_of_sizes
from mavcg.runtime.loading import Model, thread_count

Array = NDArray[Any]


class SizedModel:
    """The sizes of a model; `load_sizes` creates it.

    shapes: shapes of the inputs in each size. The context of a size is created at its first use. Threads and
    simultaneous calls are as for Model.
    """

    def __init__(self, path: Path, threads: int, pin: bool) -> None:
        self.path, self._threads, self._pin = path, threads, pin
        self.shapes = tuple(input_shapes_of_sizes(path))
        self._models: dict[int, Model] = {}
        self._opening = threading.Lock()
        self._closed = False
        self.model_of(*self.shapes[0])  # errors in the library or the options are reported at once

    def run(self, *arrays: Any, out: Sequence[Array] | None = None) -> tuple[Array, ...]:
        """Compute the outputs in the size of the arrays. out: as in Model.run.

        Raises: MavcgError for a shape that the library was not built for, and as Model.run.
        """
        shapes = (tuple(array.shape) if hasattr(array, "shape") else np.shape(array) for array in arrays)
        return self.model_of(*shapes).run(*arrays, out=out)

    def model_of(self, *shapes: tuple[int, ...]) -> Model:
        """Return the model of one size, which this object closes. shapes: shapes of its inputs.

        Raises: MavcgError for a shape that the library was not built for.
        """
        if shapes not in self.shapes:
            built = ", ".join(_shapes_text(shapes) for shapes in self.shapes[:8])
            more = ", .." if len(self.shapes) > 8 else ""
            raise MavcgError(
                f"{self.path}: no size has inputs {_shapes_text(shapes)}; the library was built for {built}{more}; "
                "build one for this shape (--shape)"
            )
        number = self.shapes.index(shapes)
        with self._opening:
            if self._closed:
                raise MavcgError(f"{self.path}: the model is closed; load it again")
            if number not in self._models:
                self._models[number] = Model(self.path, self._threads, self._pin, size=number)
            return self._models[number]

    def close(self) -> None:
        """Destroy all contexts, after runs of other threads have ended. A second call does nothing."""
        with self._opening:
            self._closed = True
            for model in self._models.values():
                model.close()

    def __enter__(self) -> "SizedModel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load_sizes(path: str | os.PathLike[str], threads: int | str = 1, pin: bool = False) -> SizedModel:
    """Load a library that `mavcg build` made of a model in several sizes (--shape x=1,4,8x3x224x224), or in one.

    threads, pin, Raises: as load.
    """
    return SizedModel(Path(path), thread_count(threads), pin)


def _shapes_text(shapes: tuple[tuple[int, ...], ...]) -> str:
    return " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)
