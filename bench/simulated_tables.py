"""The tables of the records of simulated cores as markdown."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[object]]], str]
_HEAD = ("rows", "median", "within 10 %", "within 35 %", "upper quartile")


def simulated_fits(record: Record, table: Table) -> str:
    """Return simulated over modelled cycles before and after the fit, and after it by family."""
    rows: list[list[object]] = []
    families: list[list[object]] = []
    for kind in record["kinds"]:
        for label, key in (("before", "before"), ("fitted", "after_held_out")):
            rows.append([kind["core"], f"{label}, held out", *_cells(kind[key])])
        rows.append([kind["core"], "fitted, of the fit", *_cells(kind["after_fitted"])])
        families += [[kind["core"], name, *_cells(found)] for name, found in kind["after_by_family"].items()]
    fills = [
        [kind["core"], *(f"{kind['fills'][key]:.2f}" for key in ("from_l2", "from_memory", "from_memory_prefetched"))]
        for kind in record["kinds"]
    ]
    text = (
        "Simulated, not measured: cycles of primitives on a simulated core, over those of the model of primitives "
        "(docs/tuning-models.md); before: with constants that had been fitted on an x86 for all cores. A third of the "
        "rows was held out of the fit by lot."
    )
    shown = "What shows of the time of a line beside 24 multiply-adds:"
    return "\n\n".join([
        text, table(["core", "constants", *_HEAD], rows), table(["core", "family", *_HEAD], families), shown,
        table(["core", "from level 2", "from memory", "from memory, prefetched"], fills),
    ])  # fmt: skip


def _cells(found: Record) -> list[object]:
    return [
        found["rows"], f"{found['median']:.2f}", f"{found['within_10_percent']:.0%}",
        f"{found['within_35_percent']:.0%}", f"{found['upper_quartile']:.2f}",
    ]  # fmt: skip


def simulated_layers(record: Record, table: Table) -> str:
    """Return predicted over simulated times by network, and by kind of kernel."""
    head = ("layers of weight", "within 10 %", "of the time", "predicted / simulated", "median of layers")

    def cells(entry: Record) -> list[object]:
        known = [entry[key] for key in ("within", "share_within", "ratio", "median_ratio")]
        shares = ["" if value is None else f"{value:.0%}" for value in known[:2]]
        return [entry["large"], *shares, *("" if value is None else f"{value:.2f}" for value in known[2:])]

    totals = [[e["core"], "all", f"{e['ms']:.1f}", *cells(e)] for e in record["cores"]]
    networks = [[e["core"], e["network"], f"{e['ms']:.1f}", *cells(e)] for e in record["networks"]]
    kinds = sorted(record["kinds"], key=lambda e: (e["core"], -e["ms"]))
    by_kind = [[e["core"], e["kind"], f"{e['ms']:.1f}", *cells(e)] for e in kinds]
    text = (
        f"Modelled and simulated, not measured: one core of {record['board']}, one thread; long layers by "
        f"{record['samples']} samples. Of weight is a layer of at least {record['least_share']:.1%} of its network's "
        "time; the share of the time counts all."
    )
    return "\n\n".join([
        text, table(["core", "network", "simulated ms", *head], [*totals, *networks]), "By kind of kernel:",
        table(["core", "kernels", "simulated ms", *head], by_kind),
    ])  # fmt: skip


TABLES = {
    "simulated_layers": ("Networks on simulated Arm cores: predicted against simulated layers", simulated_layers),
    "simulated_fits": ("Primitives on simulated Arm cores against their model", simulated_fits),
}
