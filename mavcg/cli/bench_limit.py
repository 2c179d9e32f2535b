"""The limits of `mavcg bench --limit`: each layer's time beside the least that this machine could take for it."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from rich.console import Console

    from mavcg.cost.limit import LayerWork
    from mavcg.hosts.rates import HostRates


def check_limits(library: Path, network: str | None) -> None:
    """Refuse a library without the work of its steps. Raises: MavcgError."""
    _note_and_works(library, network)


def _note_and_works(library: Path, network: str | None) -> "tuple[Mapping[str, Any], tuple[LayerWork, ...]]":
    """Return a network's note, and the work of its steps. Raises: as check_limits."""
    from mavcg.cost.limit import works_of_note
    from mavcg.objects.inspection import network_of_library

    note = network_of_library(library, network)
    if note is None or "steps" not in note:
        raise MavcgError(
            f"--limit: {library} has no note of its steps; name a library that `mavcg build` made of a model"
        )
    return note, works_of_note(note, str(library))


def limits_of(library: Path, network: str | None, threads: int, steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Measure this machine and return the limits of the layers, as JSON has them.

    steps: name, operator and time of each, as `--per-layer --json` has them. Neighbours of one name are a layer.
    Raises: MavcgError for a library without the work of its steps, which an earlier mavcg built.
    """
    from mavcg.hosts.rates import measure_rates

    note, works = _note_and_works(library, network)
    rates = measure_rates(threads, sorted({work.arithmetic for work in works if work.arithmetic}))
    run_bytes = note["weight_bytes"] + note["arena_bytes"]
    pairs = zip(steps, works, strict=True)
    layers = [
        _layer([step for step, _ in layer], [work for _, work in layer], rates, run_bytes)
        for layer in (list(group) for _, group in groupby(pairs, lambda pair: (pair[0]["name"], pair[0]["op"])))
    ]
    total, limit = (sum(layer[key] for layer in layers) for key in ("ms", "limit_ms"))
    whole = {"ms": round(total, 6), "limit_ms": round(limit, 6), "over": _over(total, limit)}
    return {"machine": rates.as_json(), "layers": layers, "total": whole}


def _layer(
    steps: Sequence[Mapping[str, Any]], works: "Sequence[LayerWork]", rates: "HostRates", run_bytes: int
) -> dict[str, Any]:
    from mavcg.cost.limit import limit_of

    limit = limit_of(works, rates, run_bytes)
    ms = sum(step["ms"] for step in steps)
    primitive = {"primitive": steps[0]["primitive"]} if "primitive" in steps[0] else {}
    return (
        {"name": steps[0]["name"], "op": steps[0]["op"], "ms": round(ms, 6)}
        | primitive
        | {
            "limit_ms": round(1e3 * limit.limit_s, 9),
            "over": _over(ms, 1e3 * limit.limit_s),
            "bound_by": limit.bound_by,
            "multiply_adds": sum(work.trips * work.multiply_adds for work in works),
            "bytes": sum(work.bytes for work in works),
        }
    )


def _over(ms: float, limit_ms: float) -> float | None:
    """Return the time over its limit; None for a limit of 0, of a layer that does nothing."""
    return round(ms / limit_ms, 3) if limit_ms else None


def show_limits(limits: Mapping[str, Any], threads: str, to: "Console") -> None:
    """Print what was measured, a row for each layer, and the sum of what is above the limits."""
    from rich.table import Table

    from mavcg.cost.limit import NEAR

    machine = limits["machine"]
    peaks = [
        f"{2 * rate / 1e9:.1f} GOP/s in {name} ({machine['instructions'][name]})"
        for name, rate in machine["products_per_s"].items()
    ]
    reads = [f"{memory['gb_per_s']:.1f} GB/s from {memory['name']}" for memory in machine["memories"]]
    to.print(
        f"this machine, measured with {threads} thread{'s' if threads != '1' else ''}: {', '.join((*peaks, *reads))}"
    )
    table = Table(box=None, title=f"{threads} threads, by layer; *: above {NEAR} of its limit", title_justify="left")
    for name in ("layer", "operator", "primitive"):
        table.add_column(name)
    for name in ("ms", "limit ms", "over", "", "bound by", "Mop", "kB"):
        table.add_column(name, justify="left" if name in ("", "bound by") else "right")
    above = [layer for layer in limits["layers"] if layer["over"] is not None and layer["over"] > NEAR]
    for layer in limits["layers"]:
        table.add_row(
            layer["name"],
            layer["op"],
            layer.get("primitive", ""),
            f"{layer['ms']:.4f}",
            f"{layer['limit_ms']:.4f}",
            "" if layer["over"] is None else f"{layer['over']:.2f}",
            "*" if layer in above else "",
            layer["bound_by"],
            f"{2 * layer['multiply_adds'] / 1e6:.2f}",
            f"{layer['bytes'] / 1e3:.1f}",
        )
    total = limits["total"]
    over = "" if total["over"] is None else f"{total['over']:.2f}"
    table.add_row("all", "", "", f"{total['ms']:.4f}", f"{total['limit_ms']:.4f}", over)
    to.print(table)
    lost = {
        bound: sum(layer["ms"] - layer["limit_ms"] for layer in above if layer["bound_by"] == bound)
        for bound in ("arithmetic", "memory")
    }
    to.print(
        f"{len(above)} of {len(limits['layers'])} layers are above {NEAR} of their limits: those bound by arithmetic "
        f"by {lost['arithmetic']:.4f} ms, those bound by memory by {lost['memory']:.4f} ms"
    )
