"""Plans of a network's layers, equal ones once (paper, 4.2), cached on disk: a file for all layers of one request.

A request is a machine, a search, a metric, the search's options and a digest of the code; a network takes one read.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, replace
from functools import cache
from pathlib import Path
from typing import Any

import mavcg.accelerators.plans
import mavcg.choose.cheapest
import mavcg.cost.layer
import mavcg.cost.traffic
import mavcg.hardware.accelerator
from mavcg.accelerators.plans.roofline import Metric, Reached, performance_per_access
from mavcg.accelerators.plans.space import Planned
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import Traffic
from mavcg.files.store import EntryStore, open_store
from mavcg.hardware.accelerator import Accelerator

Option = bool | int | float | str
Row = list[Any]
Search = Callable[[ConvLayer, Accelerator, Metric], Planned]


class ScheduleCache:
    """Plans of one request. `save` writes what `put` added; the disk is not touched otherwise after opening."""

    def __init__(self, store: EntryStore, request: str, kind: type[Reached] = Reached) -> None:
        """Read the plans of a request.

        request: all that plans depend on besides the layer. kind: class of their `reached`.
        """
        self._store = store
        self._request = request
        self._kind = kind
        self._rows: dict[str, Row] = store.read(request, dict[str, Row]) or {}
        self._new: dict[str, Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, layer: ConvLayer) -> Planned | None:
        """Return the cached plan of an equal layer, with this layer in it; None if there is none."""
        row = self._rows.get(_key(layer))
        try:
            return None if row is None else _planned_layer(layer, row, self._kind)
        except (ValueError, TypeError):
            return None

    def put(self, planned: Planned) -> None:
        """Add a plan. Raises: TypeError if its `reached` has another class than this cache's."""
        if type(planned.reached) is not self._kind:
            raise TypeError(f"a plan with {type(planned.reached).__name__} in a cache of {self._kind.__name__}")
        key = _key(planned.layer)
        self._rows[key] = self._new[key] = _row(planned)

    def save(self) -> None:
        """Write the new plans beside what other processes wrote meanwhile."""
        if self._new:
            self._rows |= self._store.merge(self._request, self._new)
            self._new = {}


def open_cache(
    accelerator: Accelerator,
    search: str,
    metric: str,
    options: Mapping[str, Option] | None = None,
    *,
    kind: type[Reached] = Reached,
    environment: Mapping[str, str] | None = None,
) -> ScheduleCache | None:
    """Return this user's cache for one request; None if MAVCG_CACHE=off or there is no home folder.

    search, metric: names that must identify the search and metric completely. options: of the search. The machine is
    identified by its figures, not its name. kind: class of `reached` in the plans of this search. The folder is
    plans/<fingerprint> in the user's cache.
    """
    store = open_store("plans", fingerprint(), environment)
    if store.folder is None:
        return None
    machine = asdict(replace(accelerator, name="", levels=tuple(replace(a, name="") for a in accelerator.levels)))
    request = {"machine": machine, "search": search, "metric": metric, "options": dict(options or {})}
    return ScheduleCache(store, json.dumps(request, sort_keys=True), kind)


@cache
def fingerprint() -> str:
    """Return a digest of the source code of the models and searches: plans of other code are not reused."""
    shared = (mavcg.choose.cheapest, mavcg.cost.layer, mavcg.cost.traffic, mavcg.hardware.accelerator)
    plans = Path(str(mavcg.accelerators.plans.__file__)).parent.glob("*.py")
    return _digest_of([*plans, *(Path(str(module.__file__)) for module in shared)])


def _digest_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _key(layer: ConvLayer) -> str:
    return json.dumps(astuple(layer.key))


def _row(planned: Planned) -> Row:
    reached = planned.reached
    moved = reached.traffic
    return [
        list(astuple(planned.tiling.tile)),
        planned.tiling.dataflow.value,
        planned.candidates,
        reached.macs,
        [moved.input_bytes, moved.weight_bytes, moved.output_bytes],
        reached.compute_gmac_per_s,
        reached.memory_gmac_per_s,
    ]


def _planned_layer(layer: ConvLayer, row: Row, kind: type[Reached]) -> Planned:
    """Return the plan of a stored row. Raises: ValueError or TypeError for a row that `_row` did not make."""
    tile, dataflow, candidates, macs, moved, compute, memory = row
    reached = kind(macs, Traffic(*moved), compute, memory)
    return Planned(layer, Tiling(Tile(*tile), Dataflow(dataflow)), reached, candidates)


def plan_layers(
    layers: Sequence[ConvLayer],
    accelerator: Accelerator,
    search: Search,
    metric: Metric = performance_per_access,
    cache: ScheduleCache | None = None,
) -> tuple[Planned, ...]:
    """Return a plan for each layer, in order; layers with the same tensor parameters share one search.

    cache: plans on disk, opened for this machine, search and metric (open_cache); missing ones are
    searched for and saved, even if a later layer fails. Raises: NoTiling for the first layer that no tile fits.
    """
    plans: dict[ConvLayer, Planned] = {}
    try:
        for layer in layers:
            if layer.key in plans:
                continue
            planned = cache.get(layer) if cache is not None else None
            if planned is None:
                planned = search(layer, accelerator, metric)
                if cache is not None:
                    cache.put(planned)
            plans[layer.key] = planned
    finally:
        if cache is not None:
            cache.save()
    return tuple(replace(plans[layer.key], layer=layer) for layer in layers)


def schedules(layers: Sequence[ConvLayer]) -> tuple[int, int]:
    """Return the number of layers and of distinct schedules that they need: table 4.1's "uncached" and "cached"."""
    return len(layers), len({layer.key for layer in layers})
