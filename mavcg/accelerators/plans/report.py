"""Report of a network's plan: JSON for scripts, tables for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mavcg.accelerators.plans.request import Compared, NetworkPlan, PlanRequest, SpaceSize
from mavcg.accelerators.plans.roofline import METRICS, array_utilisation
from mavcg.accelerators.plans.space import Planned
from mavcg.cost.traffic import Traffic
from mavcg.hardware.accelerator import Accelerator

if TYPE_CHECKING:
    from rich.console import Console

MIB = 2**20
FIGURES_ARE = "modelled (roofline), not measured"


def traffic_json(moved: Traffic) -> dict[str, int]:
    """Return the bytes of each operand."""
    return {"input": moved.input_bytes, "weight": moved.weight_bytes, "output": moved.output_bytes}


def layer_json(planned: Planned, plan: NetworkPlan, request: PlanRequest) -> dict[str, Any]:
    """Return the JSON row of one layer."""
    layer, tile, reached = planned.layer, planned.tiling.tile, planned.reached
    return {
        "name": layer.name,
        "loops": {name.lower(): length for name, length in layer.loops.items()},
        "groups": layer.groups,
        "tile": {name.lower(): factor for name, factor in tile.factors.items()},
        "dataflow": str(planned.tiling.dataflow),
        "traffic_bytes": traffic_json(reached.traffic),
        "macs": reached.macs,
        "mac_per_byte": reached.mac_per_byte,
        "gmac_per_s": reached.gmac_per_s,
        "pe_utilisation": array_utilisation(layer, tile, plan.accelerator),
        "seconds": reached.seconds,
        "metric": METRICS[request.metric](reached),
        "bound": reached.bound,
        "candidates": planned.candidates,
    }


def plan_json(
    model: str,
    request: PlanRequest,
    plans: Sequence[NetworkPlan],
    accelerators: Sequence[Accelerator],
    space: SpaceSize,
    compared: Sequence[Compared] = (),
    floors: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Return the document of `mavcg plan --json`; its layers, space and seconds are those of the first machine.

    accelerators: of the plans, with all levels of their memory. floors: as request.floors returns them.
    """
    first = plans[0]
    document: dict[str, Any] = {
        "model": model,
        "figures_are": FIGURES_ARE,
        "search": request.search,
        "metric": request.metric,
        "machine": first.machine,
        "layers": [layer_json(p, first, request) for p in first.planned],
        **_levels_json(first, accelerators[0]),
        "space": {
            "unpruned": space.unpruned,
            "pruned": space.pruned,
            "unpruned_of_all_layers": space.unpruned_of_all,
            "convolutions": space.convolutions,
            "unpruned_is": "3 x the mean over convolutions, as table 8.5 has it; pruned is the sum over them",
        },
        "traffic_bytes": traffic_json(first.traffic),
        "predicted_ms": first.latency_seconds * 1e3,
        "seconds": first.seconds,
        "assumed": list(first.assumed),
    }
    if len(plans) > 1:
        document["clusters"] = {
            plan.machine: {
                "layers": [layer_json(p, plan, request) for p in plan.planned],
                **_levels_json(plan, accelerator),
                "predicted_ms": plan.latency_seconds * 1e3,
                "seconds": plan.seconds,
                "assumed": list(plan.assumed),
            }
            for plan, accelerator in zip(plans, accelerators, strict=True)
        }
    if compared:
        document["baselines"] = {
            planner.name: {"traffic_bytes": traffic_json(planner.traffic), "predicted_ms": planner.seconds * 1e3}
            for planner in compared
        }
    if floors:
        document["floors_bytes"] = {"no_reload": floors[0], "communication_lower_bound": floors[1]}
    return document


def _levels_json(plan: NetworkPlan, accelerator: Accelerator) -> dict[str, Any]:
    """Return the nested tiles, nearest level first; empty if they were not requested."""
    if not plan.levels:
        return {}
    return {
        "levels": [
            {
                "name": nested.layer.name,
                "gmac_per_s": nested.gmac_per_s,
                "bound": "compute" if nested.bound is None else accelerator.levels[nested.bound].name,
                "proved": nested.proved,
                "tiles": [
                    {
                        "level": level.name,
                        "tile": {name.lower(): factor for name, factor in tiling.tile.factors.items()},
                        "dataflow": str(tiling.dataflow),
                        "traffic_bytes": traffic_json(moved),
                    }
                    for level, tiling, moved in zip(accelerator.levels, nested.tilings, nested.traffic, strict=True)
                ],
            }
            for nested in plan.levels
        ]
    }


def show_levels(plan: NetworkPlan, accelerator: Accelerator, out: "Console") -> None:
    """Print a table of nested tiles: a row for each layer, a column for each level."""
    from rich.table import Table

    table = Table("layer", title=f"{plan.machine}: tiles OC x IC x OH x OW of each level", title_justify="left")
    for level in accelerator.levels:
        table.add_column(f"{level.name}, {level.bandwidth_gb_per_s:.3g} GB/s behind")
    table.add_column("GMAC/s", justify="right")
    table.add_column("bound")
    for nested in plan.levels:
        cells = [f"{t.tile.oc} x {t.tile.ic} x {t.tile.oh} x {t.tile.ow}" for t in nested.tilings]
        bound = "compute" if nested.bound is None else accelerator.levels[nested.bound].name
        table.add_row(nested.layer.name, *cells, f"{nested.gmac_per_s:.1f}", bound)
    out.print(table)


def show_plan(plan: NetworkPlan, request: PlanRequest, out: "Console") -> None:
    """Print a table with a row for each layer."""
    from rich.table import Table

    memory = plan.accelerator.memory
    sizes = (
        f"{memory.shared_bytes // 1024} KiB"
        if memory.shared_bytes
        else "/".join(str(n // 1024) for n in (memory.input_bytes, memory.weight_bytes, memory.output_bytes)) + " KiB"
    )
    title = (
        f"{plan.machine}: {memory.name} {sizes}, {memory.bandwidth_gb_per_s:g} GB/s behind it, "
        f"{plan.accelerator.peak_gmac_per_s:g} GMAC/s; {request.search} search by "
        f"{request.metric} (modelled, not measured)"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("layer", overflow="fold")  # whole names: --layer takes them
    table.add_column("tile OC x IC x OH x OW")
    table.add_column("dataflow")
    for heading in ("in KiB", "weight KiB", "out KiB", "MAC/B", "GMAC/s", "ms"):
        table.add_column(heading, justify="right")
    table.add_column("bound")
    for p in plan.planned:
        tile, reached = p.tiling.tile, p.reached
        moved = (reached.traffic.input_bytes, reached.traffic.weight_bytes, reached.traffic.output_bytes)
        table.add_row(
            p.layer.name,
            f"{tile.oc} x {tile.ic} x {tile.oh} x {tile.ow}",
            str(p.tiling.dataflow).removesuffix("-stationary"),
            *(f"{n / 1024:.0f}" for n in moved),
            f"{reached.mac_per_byte:.1f}",
            f"{reached.gmac_per_s:.1f}",
            f"{reached.seconds * 1e3:.3f}",
            reached.bound,
        )
    out.print(table)
    out.print(
        f"{len(plan.planned)} layers, {len({p.layer.key for p in plan.planned})} of them different: "
        f"{plan.traffic.total_bytes / MIB:.2f} MiB off chip, {plan.latency_seconds * 1e3:.2f} ms by the model; "
        f"planned in {plan.seconds * 1e3:.0f} ms"
    )
    if plan.planned:
        shares = [array_utilisation(p.layer, p.tiling.tile, plan.accelerator) for p in plan.planned]
        least = min(range(len(shares)), key=shares.__getitem__)
        out.print(
            f"processing elements: {plan.accelerator.pes}; {plan.planned[least].layer.name} keeps fewest of them busy, "
            f"{100 * shares[least]:.3g} %{'' if plan.tile_roof else '; all count as busy, as in the thesis'}"
        )
    for sentence in plan.assumed:
        out.print(f"assumed: {sentence}")


def show_space(space: SpaceSize, out: "Console") -> None:
    """Print the sizes of the search space (table 8.5) in a line."""
    out.print(
        f"search space: {space.unpruned / 1e6:.3f} M tilings per convolution in the mean; the paper's pruning leaves "
        f"{space.pruned} tilings of all {space.convolutions} convolutions "
        f"({100 * space.pruned / space.unpruned_of_all:.6f} % of {space.unpruned_of_all:.4g})"
    )


def show_compared(
    plan: NetworkPlan, compared: Sequence[Compared], floors: tuple[int, int], request: PlanRequest, out: "Console"
) -> None:
    """Print figure 8.2 as a table: traffic of the planners, and the lower bounds of it."""
    from rich.table import Table

    table = Table("planner", title=f"{plan.machine}: planners compared (modelled, not measured)", title_justify="left")
    for heading in ("off-chip MiB", "input", "weights", "output", "ms", "bytes / mavcg's"):
        table.add_column(heading, justify="right")
    ours = plan.traffic.total_bytes
    rows = [(f"mavcg, {request.search}", plan.traffic, plan.latency_seconds)]
    rows += [(planner.name, planner.traffic, planner.seconds) for planner in compared]
    for name, moved, seconds in rows:
        parts = (moved.total_bytes, moved.input_bytes, moved.weight_bytes, moved.output_bytes)
        table.add_row(name, *(f"{n / MIB:.1f}" for n in parts), f"{seconds * 1e3:.2f}", f"{parts[0] / ours:.2f}x")
    for name, total in zip(("each byte moved once", "communication lower bound"), floors, strict=True):
        table.add_row(name, f"{total / MIB:.1f}", "", "", "", "", f"{total / ours:.2f}x")
    out.print(table)
