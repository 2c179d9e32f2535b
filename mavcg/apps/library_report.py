"""Reports of `mavcg app build`, and of `mavcg inspect` for an application's library."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mavcg.apps.library import ApplicationResult
from mavcg.model.report import dimensions_words

if TYPE_CHECKING:
    from rich.console import Console

_OF_ALL = ("arena_bytes", "separate_arena_bytes", "scratch_bytes", "weight_bytes", "separate_weight_bytes")
_OF_NETWORKS = (
    "arena_offset",
    "arena_bytes",
    "scratch_bytes",
    "weight_bytes",
    "phases",
    "dimensions",
    "stored_weights",
    "conversion",
)


def application_json(result: ApplicationResult) -> dict[str, Any]:
    """Return the document of `mavcg app build --json`; sizes are counted, in bytes."""
    note = result.note
    return {
        "output": str(result.output),
        "seconds": round(result.seconds, 3),
        "library_bytes": result.library_bytes,
        "loaded_bytes": result.loaded_bytes,
        **{key: note[key] for key in _OF_ALL},
        "weights_resident": note.get("weights_resident"),  # not in a library of an earlier mavcg
        "networks": [
            {key: network[key] for key in _OF_NETWORKS}
            | {"name": network["model"], "conflicts_with": network["conflicts_with"]}
            | {key: network[key] for key in ("periodic", "pipeline") if key in network}
            for network in note["networks"]
        ],
        "memory": dict(result.memory),
        "files": [str(path) for path in (result.output, *result.companions)],
    }


def show_application(note: Mapping[str, Any], to: "Console") -> None:
    """Print the memory map of an application's library from its note."""
    from rich.table import Table

    to.print(f"application {note['application']}: {len(note['networks'])} networks")
    table = Table(box=None, pad_edge=False)
    table.add_column("network")
    for name in ("arena from", "to", "scratch a thread", "weights", "steps", "phases"):
        table.add_column(name, justify="right")
    table.add_column("takes turns with")
    for network in note["networks"]:
        begin, others = network["arena_offset"], [n for n in network["conflicts_with"] if n != network["model"]]
        table.add_row(
            network["model"],
            f"{begin:,}",
            f"{begin + network['arena_bytes']:,}",
            f"{network['scratch_bytes']:,}",
            f"{network['weight_bytes']:,}",
            str(len(network["steps"])),
            str(network["phases"]),
            ", ".join(others) or "none",
        )
    to.print(table)
    for network in note["networks"]:
        if words := dimensions_words(network.get("dimensions", {})):  # not in a library of an earlier mavcg
            to.print(f"{network['model']}: {words}; its part of the arena is that of the longest")
        if conversion := network.get("conversion"):
            to.print(f"{network['model']}: {_conversion_words(conversion)}")
        if stored := network.get("stored_weights"):
            to.print(f"{network['model']}: {_stored_words(stored)}")
        if "pipeline" in network:
            _show_pipeline(network, to)
    weights, apart = note["weight_bytes"], note.get("separate_weight_bytes")  # not in a library of an earlier mavcg
    shared = f" ({apart:,} in separate libraries)" if apart not in (None, weights) else ""
    to.print(
        f"memory: arena {note['arena_bytes']:,} bytes ({note['separate_arena_bytes']:,} in separate libraries), "
        f"scratch {note['scratch_bytes']:,} bytes a thread, weights {weights:,} bytes{shared}"
    )
    if paging := note.get("weights_resident"):
        to.print(
            f"weights in memory: at most {paging['resident_bytes']:,} bytes at a time; a run of each network maps "
            f"{paging['paged_bytes']:,} bytes anew, predicted {paging['time_ms']:.3f} ms"
        )


def _stored_words(stored: Mapping[str, Any]) -> str:
    """Return a clause on weights that lie in memory in fewer bits. stored: of stored_weights_json."""
    words = f"weights of {len(stored['layers'])} layers in {stored['type']}, {stored['saved_bytes']:,} bytes less"
    error = stored["measured_error"]
    return words if error is None else f"{words}; error {error:.2g} of the largest output"


def _conversion_words(conversion: Mapping[str, Any]) -> str:
    """Return a clause on a network that was converted to f16 or to 8 bits. conversion: of conversion_json."""
    precision, error = conversion["precision"], conversion["measured_error"]
    words = f"{conversion['layers']} of {conversion['layers_of_floats']} layers in {precision}"
    if precision == "int8":
        return f"{words}; error {error:.2g} on {conversion['samples']} samples, as root mean squares"
    return words if error is None else f"{words}; error {error:.2g} of the largest output"


def _show_pipeline(network: Mapping[str, Any], to: "Console") -> None:
    """Print the partitions of a pipeline."""
    from rich.table import Table

    pipeline = network["pipeline"]
    speed = pipeline.get("predicted_per_second")
    rate = "" if speed is None else f"; {speed:.1f} frames per second (modelled)"
    to.print(f"pipeline {network['model']}: {pipeline['ring_bytes']:,} bytes between partitions{rate}")
    table = Table(box=None, pad_edge=False)
    for name in ("partition", "from layer", "steps", "on", "ms (modelled)"):
        table.add_column(name, justify="right" if name in ("steps", "ms (modelled)") else "left")
    for stage in pipeline["stages"]:
        predicted = "cores" in stage
        table.add_row(
            stage["partition"],
            stage["first"],
            str(stage["steps"]),
            f"{stage['threads']} x {', '.join(stage['cores'])}" if predicted else "a share of the CPUs",
            f"{stage['predicted_ms']:.3f}" if predicted else "",
        )
    to.print(table)
