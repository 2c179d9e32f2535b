"""The kind of a file, found without reading a model."""

from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError

MODELS = (".onnx", ".tflite", ".prototxt")


def is_model_file(path: Path) -> bool:
    """True if the name is a model's, by the rule of `mavcg build`."""
    return path.suffix.lower() in MODELS


def library_note(path: Path) -> dict[str, Any] | None:
    """Return the note of a library that mavcg built from a model; None for every other file.

    Raises: MavcgError for a library of subgraphs.
    """
    from mavcg.objects.inspection import model_of

    try:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                return None
        note = model_of(path)
    except (OSError, MavcgError):
        return None
    if note is not None and "sizes" in note:
        raise MavcgError(f"{path}: holds several sizes of a model; name the model's file, with one --shape")
    if note is not None and "subgraphs" in note:
        raise MavcgError(f"{path}: holds subgraphs of a model (--partial), which are not predicted; name the model")
    return note
