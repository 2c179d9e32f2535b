"""The layers of a network planned, each kind of them once (paper, 4.2)."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mavcg.hardware.accelerator import Accelerator
from mavcg.planner.accelerators.planned import Planned
from mavcg.planner.accelerators.schedule_cache import ScheduleCache
from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.roofline import Metric, performance_per_access

Search = Callable[[ConvLayer, Accelerator, Metric], Planned]


def plan_layers(
    layers: Sequence[ConvLayer],
    accelerator: Accelerator,
    search: Search,
    metric: Metric = performance_per_access,
    cache: ScheduleCache | None = None,
) -> tuple[Planned, ...]:
    """Return a plan for each layer, in order; layers that agree in all tensor parameters share one.

    cache: plans kept on disk, opened for this machine, search and metric (schedule_cache.open_cache); what it lacks is
    searched for and saved, also where a later layer fails. Raises: NoTiling, for the first layer that nothing fits.
    """
    found: dict[ConvLayer, Planned] = {}
    try:
        for layer in layers:
            if layer.key in found:
                continue
            kept = cache.get(layer) if cache is not None else None
            if kept is None:
                kept = search(layer, accelerator, metric)
                if cache is not None:
                    cache.put(kept)
            found[layer.key] = kept
    finally:
        if cache is not None:
            cache.save()
    return tuple(replace(found[layer.key], layer=layer) for layer in layers)


def schedules(layers: Sequence[ConvLayer]) -> tuple[int, int]:
    """Return the number of layers and of the schedules that they need: table 4.1's "uncached" and "cached"."""
    return len(layers), len({layer.key for layer in layers})
