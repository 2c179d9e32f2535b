"""Plans of layers that were found once, kept on disk (paper, 4.2): one file for all layers of one request.

A request is a machine, a search, a metric, the search's options and the code that answers: all layers planned under it
lie in one file, so that a network takes one read. A file that cannot be read, is cut or garbled counts as absent and is
written anew; a folder that cannot be written means that nothing is kept. Both cost time, never correctness.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, replace
from functools import cache
from pathlib import Path
from typing import Any

import mavcg.hardware.accelerator
import mavcg.planner
from mavcg.assembly.schedule_store import DiskStore, open_store
from mavcg.hardware.accelerator import Accelerator
from mavcg.planner.accelerators.planned import Planned
from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.roofline import Reached
from mavcg.planner.layer_model.tiling import Dataflow, Tile, Tiling
from mavcg.planner.layer_model.traffic import Traffic

Option = bool | int | float | str
Row = list[Any]


class ScheduleCache:
    """Plans under one request. `save` writes what `put` brought; nothing else touches the disk after opening."""

    def __init__(self, store: DiskStore, request: str, kind: type[Reached] = Reached) -> None:
        """request: what the plans depend on besides their layers; kind: what a plan's `reached` is an object of."""
        self._store = store
        self._question = request
        self._kind = kind
        self._rows: dict[str, Row] = self._read()
        self._new: dict[str, Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, layer: ConvLayer) -> Planned | None:
        """Return the plan kept for a layer like this one, as a plan of this one; None where there is none."""
        row = self._rows.get(_key(layer))
        try:
            return None if row is None else _planned_layer(layer, row, self._kind)
        except (ValueError, TypeError):
            return None

    def put(self, planned: Planned) -> None:
        """Keep a plan. Raises: TypeError where its `reached` is of another kind than this cache gives back."""
        if type(planned.reached) is not self._kind:
            raise TypeError(f"a plan with {type(planned.reached).__name__} in a cache of {self._kind.__name__}")
        key = _key(planned.layer)
        self._rows[key] = self._new[key] = _row(planned)

    def save(self) -> None:
        """Write what is new, beside what others wrote meanwhile.

        The file is replaced as a whole, so that nobody reads half of one. Of two that save in the same instant one may
        win; the other's plans are then searched for again.
        """
        if self._new:
            self._rows = {**self._read(), **self._rows}
            self._store.write(self._question, {"rows": self._rows})
            self._new = {}

    def _read(self) -> dict[str, Row]:
        rows = (self._store.read(self._question) or {}).get("rows")
        return rows if isinstance(rows, dict) else {}


def open_cache(
    accelerator: Accelerator,
    search: str,
    metric: str,
    options: Mapping[str, Option] | None = None,
    *,
    kind: type[Reached] = Reached,
    environment: Mapping[str, str] | None = None,
) -> ScheduleCache | None:
    """This user's cache for one request; None where there is to be none: MAVCG_CACHE=off, or no home to put it in.

    search, metric: names, which must say all that decides; options: of the search. The machine counts by its figures,
    not by its name. kind: the type of `reached` in the plans of this search. The folder is that of schedule_store.
    """
    store = open_store(environment)
    if store is None:
        return None
    # open_store's folder is <root>/schedules/<its fingerprint>: plans lie beside the schedules, under a fingerprint
    # of what makes plans.
    folder = store.folder.parents[1] / "plans" / fingerprint()
    machine = asdict(replace(accelerator, name="", levels=tuple(replace(a, name="") for a in accelerator.levels)))
    request = {"machine": machine, "search": search, "metric": metric, "options": dict(options or {})}
    return ScheduleCache(DiskStore(folder), json.dumps(request, sort_keys=True), kind)


@cache
def fingerprint() -> str:
    """Return a digest of the code of the models and the searches: plans are not believed once the code that found them
    is another."""
    planner = Path(str(mavcg.planner.__file__)).parent
    folders = (planner / "layer_model", planner / "accelerators")
    sources = [path for folder in folders for path in folder.glob("*.py")]
    return _digest_of([*sources, Path(str(mavcg.hardware.accelerator.__file__))])


def _digest_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _key(layer: ConvLayer) -> str:
    return json.dumps(astuple(layer.key))


def _row(planned: Planned) -> Row:
    found = planned.reached
    moved = found.traffic
    return [
        list(astuple(planned.tiling.tile)), planned.tiling.dataflow.value, planned.candidates, found.macs,
        [moved.input_bytes, moved.weight_bytes, moved.output_bytes], found.compute_gmac_per_s, found.memory_gmac_per_s,
    ]  # fmt: skip


def _planned_layer(layer: ConvLayer, row: Row, kind: type[Reached]) -> Planned:
    """Return the planned layer of a stored row. Raises: ValueError or TypeError for what `_row` did not make."""
    tile, dataflow, candidates, macs, moved, compute, memory = row
    reached = kind(macs, Traffic(*moved), compute, memory)
    return Planned(layer, Tiling(Tile(*tile), Dataflow(dataflow)), reached, candidates)
