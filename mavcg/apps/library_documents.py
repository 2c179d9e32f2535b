"""Documents of an application's library: sizes of each network, its weights in fewer bits, and its conversion."""

from typing import Any

from mavcg.apps.library_plan import LibraryPlan, is_converted
from mavcg.apps.weight_paging import WeightPaging
from mavcg.choose.plan import Plan
from mavcg.model.note import dimensions_json
from mavcg.model.precision import AUTO_PRECISION, F16, layer_precisions


def library_json(planned: LibraryPlan) -> dict[str, Any]:
    """Return sizes of the library as in the document of `mavcg app build --json`, in bytes."""
    application = planned.application
    return {
        "arena_bytes": application.arena_bytes,
        "separate_arena_bytes": sum(network.program.arena_bytes for network in application.networks),
        "scratch_bytes": application.scratch_bytes,
        "weight_bytes": planned.weight_bytes,
        "separate_weight_bytes": sum(planned.own_weights),
        "weights_resident": paging_json(planned.paging),
        "networks": [
            {
                "name": placed.program.name,
                "arena_offset": placed.arena_offset,
                "arena_bytes": placed.program.arena_bytes,
                "scratch_bytes": placed.program.scratch_bytes,
                "weight_bytes": weight_bytes,
                "phases": len(placed.program.phases) or len(placed.program.steps),
                "dimensions": dimensions_json(placed.program),
                "stored_weights": stored_weights_json(network),
                "conversion": conversion_json(network),
                "conflicts_with": [application.networks[n].program.name for n in sorted(placed.conflicts_with)],
            }
            for network, placed, weight_bytes in zip(
                planned.networks, application.networks, planned.own_weights, strict=True
            )
        ],
    }


def paging_json(paging: WeightPaging | None) -> dict[str, Any] | None:
    """Return what a library's document says of weights that are paged; None without a limit of those in memory.

    limit_bytes, resident_bytes: that may be, and are at most, in memory at a time. kept_bytes: that stay there.
    paged_bytes: that a run of each network maps anew. time_ms: that this is predicted to take, beside the run.
    """
    if paging is None:
        return None
    return {
        "limit_bytes": paging.limit_bytes,
        "resident_bytes": paging.resident_bytes,
        "kept_bytes": paging.kept_bytes,
        "paged_bytes": paging.paged_bytes,
        "time_ms": round(paging.time_ms, 6),
    }


def stored_weights_json(network: Plan) -> dict[str, Any] | None:
    """Return what a network's document says of weights in half precision or 8 bits; None without any.

    type, layers, saved_bytes: as in a build's document. measured_error: of the network, of the largest output.
    """
    stored = network.precision.get("weights")
    return None if stored is None else {**stored, "measured_error": network.precision["measured_error"]}


def conversion_json(network: Plan) -> dict[str, Any] | None:
    """Return what a network's document says of its conversion; None for one that is built as its file has it.

    precision: f16 or int8. layers: number of layers in it, and of all with floats. measured_error: for f16, of the
    largest output, with weights in 8 bits, too, on random inputs; for int8, of the outputs on the samples, as root mean
    squares.
    """
    if quantised := network.precision.get("quantised"):
        return dict(quantised)
    if not is_converted(network):
        return None
    dtypes = list(layer_precisions(network).values())
    converted = network.precision["converted"]
    dtype = F16 if converted == AUTO_PRECISION else converted
    return {
        "precision": dtype,
        "layers": dtypes.count(dtype),
        "layers_of_floats": len(dtypes),
        "measured_error": network.precision.get("measured_error"),
    }
