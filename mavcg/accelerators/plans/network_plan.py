"""Plans of a network's layers; equal layers are planned once (paper, 4.2)."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mavcg.accelerators.plans.planned import Planned
from mavcg.accelerators.plans.schedule_cache import ScheduleCache
from mavcg.choose.layer_model.layer import ConvLayer
from mavcg.choose.layer_model.roofline import Metric, performance_per_access
from mavcg.hardware.accelerator import Accelerator

Search = Callable[[ConvLayer, Accelerator, Metric], Planned]


def plan_layers(
    layers: Sequence[ConvLayer],
    accelerator: Accelerator,
    search: Search,
    metric: Metric = performance_per_access,
    cache: ScheduleCache | None = None,
) -> tuple[Planned, ...]:
    """Return a plan for each layer, in order; layers with the same tensor parameters share one search.

    cache: plans on disk, opened for this machine, search and metric (schedule_cache.open_cache); missing ones are
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
