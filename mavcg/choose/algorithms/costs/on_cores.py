"""Costs of a selection on some cores: those of the database first, then modelled ones."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from mavcg.choose.algorithms.costs.database import KnownCosts
from mavcg.choose.algorithms.costs.database_file import default_path, open_db
from mavcg.choose.algorithms.costs.modelled import modelled_costs
from mavcg.choose.algorithms.costs.provider import CostProvider, first_of, scale_costs, shift_costs
from mavcg.choose.algorithms.costs.threads import threaded_costs
from mavcg.choose.algorithms.select_workers import label_of
from mavcg.errors import MavcgError
from mavcg.hardware.core_model import CoreModel


def costs_on(
    workers: Sequence[CoreModel], db: Path | None, stack: contextlib.ExitStack, between_bytes: float = 0.0
) -> tuple[CostProvider, KnownCosts | None]:
    """Return the costs of one thread on each of these cores, and the database's costs.

    Both are open while the stack is. Costs of the database come first, then modelled ones. db: None for this user's
    database, if there is one. Costs known only for a single thread are scaled by the modelled ratio of several threads
    to one. between_bytes: bytes that a network touches until a primitive's weights are read again (CoreModel); costs
    measured in repeated runs of one primitive are corrected by the modelled difference.
    """
    path, model = _database(db), model_on(workers, between_bytes)
    if path is None:
        return model, None
    database, block = stack.enter_context(open_db(path)), modelled_costs(workers[0]).block
    known = database.provider(label_of(workers), len(workers), block)
    measured: list[CostProvider] = [known] if known.any else []
    if len(workers) > 1:
        alone = database.provider(workers[0].cluster.core, 1, block)
        measured += [scale_costs(alone, model_on(workers[:1]), model_on(workers))] if alone.any else []
    if not measured:
        return model, known
    together = first_of(*measured)
    return first_of(shift_costs(together, model_on(workers), model) if between_bytes else together, model), known


def model_on(workers: Sequence[CoreModel], between_bytes: float = 0.0) -> CostProvider:
    """Return the modelled costs of one thread on each of these cores."""
    if len(workers) == 1:
        return modelled_costs(workers[0], 1, between_bytes)
    return threaded_costs(workers, between_bytes)


def _database(db: Path | None) -> Path | None:
    """Return the path of the cost database, None if there is none.

    Raises: MavcgError if a named file does not exist.
    """
    if db is not None:
        if not db.exists():
            raise MavcgError(f"--db {db}: does not exist; `mavcg tune MODEL --db {db}` creates it")
        return db
    try:
        path = default_path()
    except MavcgError:
        return None  # this user's cache is off
    return path if path.exists() else None
