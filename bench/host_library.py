"""Models built for this machine with modelled costs.

This user's measured costs are ignored, so that figures can be repeated.
"""

from collections.abc import Sequence
from pathlib import Path


def no_costs(folder: Path, name: str = "none") -> Path:
    """Return the path of an empty cost database in the folder. name: its own where several builds share a folder."""
    from mavcg.choose.algorithms.costs.database_file import open_db

    path = folder / f"{name}.sqlite"
    with open_db(path):
        return path


def build_for_host(
    model: Path, library: Path, shapes: Sequence[str] = (), jobs: int | None = None, precision: str | None = None
) -> Path:
    """Build as `mavcg build MODEL --board host -o LIBRARY` does.

    shapes: as for --shape. precision: as for --precision. Raises: MavcgError as the build does.
    """
    from mavcg.model.model import build_model
    from mavcg.model.request import ModelOptions, SelectionOptions, make_model_request

    costs = no_costs(library.parent, library.stem)
    try:
        selection = SelectionOptions(db=costs)
        options = ModelOptions(board="host", shapes=shapes, jobs=jobs, precision=precision)
        request, _ = make_model_request(model, str(library), options, selection)
        return build_model(request).output
    finally:
        costs.unlink()
