"""The planner beside other planners of the literature: `python -m bench.accelerators.plan_baselines [--json]`.

Modelled, for the e-PlaNNer thesis's five networks and setups A to D: off-chip bytes as its figure 8.2 compares them,
and latencies as its table 8.4 does. Its table is measured on a Jetson TX2; nothing here is.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.accelerators.thesis_figures import MIB, OURS, PAPER_REDUCTION, TABLE_8_4, mean
from bench.record import facts, parser_with_json, write
from mavcg.accelerators.plans import exact, grid
from mavcg.accelerators.plans.baselines import BASELINES, plan
from mavcg.accelerators.plans.bounds import lower_bound_bytes, memory_bytes
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.roofline import compute_gmac_per_s
from mavcg.accelerators.plans.schedule_cache import Search, plan_layers
from mavcg.accelerators.plans.space import Planned
from mavcg.cost.layer import ConvLayer
from mavcg.cost.traffic import no_reload
from mavcg.graph.networks import NAMES, network
from mavcg.hardware.accelerator import Accelerator
from mavcg.profiles.accelerators import find_accelerator

SETUPS = ("A", "B", "C", "D")
ASSUMPTIONS = (
    "A reduction is 1 - ours / theirs; means are plain ones over planners, networks and setups. The paper names none.",
    "Zhang and Ma have the best factors of the paper's own grid, Zhang only those above its pruning; the paper: "
    '"the best tiling factors and dataflow for remaining factors generated from e-PlaNNer".',
    "Smart-Shuttle takes OC before IC where the paper gives both one rank, and cuts by whole lengths of the array.",
    "Tiles fit with their halo; bytes are by equations 6.1 to 6.5, without halo.",
    "Latency is of the roofline alone: what a transfer or a kernel costs to start is not in it. Many small tiles pay "
    "that often, which may be why the ratios that the paper measured are far larger.",
)


def window_reuse(layer: ConvLayer) -> float:
    """Return the mean number of windows that contain an input element, borders ignored: the paper's R, at least 1."""
    return max(1.0, layer.kh * layer.kw / (layer.stride[0] * layer.stride[1]))


def balanced_bytes(layer: ConvLayer, on_chip_bytes: int) -> float:
    """Return the traffic of the paper's dataflow, its bound with a constant, but at least every operand once, in bytes.

    The memory is full of partial sums of u channels at z positions; each input is then read OC / u times and each
    weight OH * OW / z times. If all elements have one size the sum is least at z = R * u, and is 2 * MACs / sqrt(R * u
    * z) elements. Outputs are written once. Groups run one after the other. The order of growth is proven, the constant
    is not: a layer with few input channels whose weights, or whose inputs, fit as a whole may move less.
    `lower_bound_bytes` holds for all layers.
    """
    items = layer.items
    psums = on_chip_bytes / items.psum
    read = 2 * layer.macs * sqrt(items.input * items.weight / (window_reuse(layer) * psums))
    return max(float(no_reload(layer).total_bytes), read + layer.output_elements * items.output)


def _other(name: str) -> Search:
    return lambda layer, accelerator, metric: plan(name, layer, accelerator, metric)


SEARCHES: Mapping[str, Search] = {
    OURS: grid.search_pruned,
    "exact": exact.search,
    **{name: _other(name) for name in BASELINES},
}


def compare(name: str, setup: str, accelerator: Accelerator) -> dict[str, Any]:
    """Return the rows of one network on one machine: bytes and modelled seconds of every planner, and lower bounds.

    setup: the machine's name in the record.
    """
    layers = layers_of(network(name, paper_variant=True))
    size = memory_bytes(accelerator.memory)
    row: dict[str, Any] = {
        "network": name,
        "setup": setup,
        "no_reload_mib": round(sum(no_reload(layer).total_bytes for layer in layers) / MIB, 1),
        "balanced_mib": round(sum(balanced_bytes(layer, size) for layer in layers) / MIB, 1),
        "lower_bound_mib": round(sum(lower_bound_bytes(layer, size) for layer in layers) / MIB, 1),
        "bytes": {},
        "overlapped_ms": {},
        "in_turns_ms": {},
    }
    for planner, search in SEARCHES.items():
        plans = plan_layers(layers, accelerator, search)
        row["bytes"][planner] = sum(plan.reached.traffic.total_bytes for plan in plans)
        row["overlapped_ms"][planner] = 1e3 * sum(_seconds(plan, accelerator, max) for plan in plans)
        row["in_turns_ms"][planner] = 1e3 * sum(_seconds(plan, accelerator, sum) for plan in plans)
    for key, of in (
        ("reduction_percent", "bytes"),
        ("speedup_overlapped", "overlapped_ms"),
        ("speedup_in_turns", "in_turns_ms"),
    ):
        row[key] = {planner: _against(row[of], planner, key) for planner in BASELINES}
    return row


def _seconds(plan: Planned, accelerator: Accelerator, together: Callable[[Sequence[float]], float]) -> float:
    """Return the seconds of computation and transfers, as `together` has them; the roof is of the elements at work."""
    roofs = (compute_gmac_per_s(accelerator, plan.tiling.tile), plan.reached.memory_gmac_per_s)
    return together([plan.layer.macs / (roof * 1e9) for roof in roofs])


def _against(figures: Mapping[str, float], planner: str, key: str) -> float:
    if key == "reduction_percent":
        return round(100 * (1 - figures[OURS] / figures[planner]), 2)
    return round(figures[planner] / figures[OURS], 3)


def main() -> None:
    """Plan, print, and write bench/results/plan_baselines.json."""
    parser = parser_with_json(__doc__, "the record instead of tables")
    args = parser.parse_args()
    rows = []
    for name in NAMES:
        for setup in SETUPS:
            print(f"bench: {name}, setup {setup}", file=sys.stderr, flush=True)
            rows.append(compare(name, setup, find_accelerator(f"setup-{setup.lower()}")))
    means = {
        "mean": mean(rows, "reduction_percent"),
        **{setup: mean(rows, "reduction_percent", setup=setup) for setup in SETUPS},
        **{name: mean(rows, "reduction_percent", network=name) for name in NAMES},
    }
    reductions = {key: {"ours": round(of, 2), "paper": PAPER_REDUCTION.get(key)} for key, of in means.items()}
    record = {
        **facts("modelled", "bench.accelerators.plan_baselines"),
        "assumptions": ASSUMPTIONS,
        "rows": rows,
        "reduction_percent": reductions,
        "table_8_4_measured_by_the_paper": TABLE_8_4,
    }
    write("plan_baselines", record)
    if args.json:
        print(json.dumps(record, indent=2))
        return
    console = Console()
    console.print(_figure_8_2(rows))
    console.print("\nLess access than the three others, in percent (modelled)")
    console.print(_reductions(reductions))
    console.print("\nTable 8.4: speed over the three others. Each: transfers beside computation (modelled) /")
    console.print("in turns with it (modelled) / the paper's (measured)")
    console.print(_table_8_4(rows))
    for line in ASSUMPTIONS:
        console.print(f"- {line}", style="dim")


def _figure_8_2(rows: Sequence[Mapping[str, Any]]) -> Table:
    """floor: balanced_bytes; what can be proven (lower_bound_mib in the record) is the no-reload line."""
    table = Table(title="Figure 8.2: off-chip access in MiB (modelled)", box=None, title_justify="left")
    for title in ("network", "setup", *SEARCHES, "no reload", "floor"):
        table.add_column(title, justify="left" if title in ("network", "setup") else "right")
    for row in rows:
        moved = [f"{row['bytes'][planner] / MIB:.1f}" for planner in SEARCHES]
        floors = [f"{row[key]:.1f}" for key in ("no_reload_mib", "balanced_mib")]
        table.add_row(row["network"], row["setup"], *moved, *floors)
    return table


def _reductions(reductions: Mapping[str, Mapping[str, float | None]]) -> Table:
    table = Table(box=None)
    for title in ("over", "ours", "paper's"):
        table.add_column(title, justify="left" if title == "over" else "right")
    for key, value in reductions.items():
        paper = value["paper"]
        table.add_row(key, f"{value['ours']:.2f}", "-" if paper is None else f"{paper:.2f}")
    return table


def _table_8_4(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None)
    table.add_column("setup")
    for name in NAMES:
        table.add_column(name, justify="right")
    for setup, measured in TABLE_8_4.items():
        cells = [
            f"{mean(rows, 'speedup_overlapped', setup=setup, network=name):.3f} / "
            f"{mean(rows, 'speedup_in_turns', setup=setup, network=name):.3f} / {paper:.3f}"
            for name, paper in zip(NAMES, measured, strict=True)
        ]
        table.add_row(setup, *cells)
    return table


if __name__ == "__main__":
    main()
