"""Macro-tiles by the roofline alone and by the planner's model with all terms: `python -m bench.tiling_models`.

    python -m bench.tiling_models [NETWORK ..] --record             plans and modelled cycles, a second a network
    python -m bench.tiling_models [NETWORK ..] --times --record     besides times, interleaved: for a quiet machine

Both models choose from the same macro-tiles of the same kernels on this machine's core, one thread. The roofline is the
paper's: bytes by equations 6.1 to 6.5, roofs by 6.6 and 6.10, metric 6.13, tiles that fit level 2. What the model with
all terms loses if one is left out is modelled: kernels that are tiled otherwise, and cycles of their tiles by all terms
over those of the chosen ones. Times are those of bench.planned_tiles: each step by one plan or the other, drawn anew in
each round, medians of ratios; half of a step's rounds are of each CPU. Rows add up in the record.
"""

import argparse
import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bench.jit import host_machine
from bench.planned_tiles import Compared, Network, timed
from bench.record import facts, write
from bench.rows import measured_or_none
from bench.tables.catalogue import print_record
from mavcg.choose.tiles.candidates import candidates, plain_tile
from mavcg.choose.tiles.tiles import CALIBRATED, ROOFLINE, plan_tiles
from mavcg.cost.board_model import cores_of
from mavcg.cost.cycles import Term
from mavcg.cost.kernel_cost import cost
from mavcg.cost.kernel_work import work_of
from mavcg.cost.level_traffic import fits_level_2, l2_tiling
from mavcg.hardware.core_model import CoreModel
from mavcg.hosts.host import measured_host_board
from mavcg.kernels.builder.emit import kernel_name
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.tile_plan import TilePlan
from mavcg.toolchain.target import host_target

NAME = "tiling_models"
NETWORKS = (
    "squeezenet-random",
    "mobilenet_v2",
    "alexnet-random",
    "inception_v1-random",
    "resnet50-random",
    "vgg19-random",
)
SECONDS = 45.0  # of a network's timed rounds, about
MODELS = {"planned": CALIBRATED, "roofline": ROOFLINE} | {f"without {term}": CALIBRATED.without(term) for term in Term}


def plans_of(specs: Sequence[KernelSpec], core: Mapping[str, CoreModel]) -> dict[str, TilePlan]:
    """Return the plan of each model."""
    return {label: plan_tiles(specs, core, model=model) for label, model in MODELS.items()}


def modelled(
    specs: Sequence[KernelSpec],
    times: Mapping[str, int],
    core: CoreModel,
    plans: Mapping[str, TilePlan],
) -> dict[str, Any]:
    """Compare plans by the model with all terms. times: number of a network's steps for each kernel name."""
    cycles = dict.fromkeys(plans, 0.0)
    differ = dict.fromkeys(plans, 0)
    kernels = unfitting = 0
    for spec in specs:
        work, name = work_of(spec), kernel_name(spec)
        if work is None or not spec.rows or not times[name]:
            continue
        kernels += 1
        chosen = plans["planned"].of(name, core.label)
        for label, plan in plans.items():
            macro = plan.of(name, core.label)
            assert macro is not None
            differ[label] += macro != chosen
            cycles[label] += times[name] * cost(work.spec, macro, core).total
        rows = plans["roofline"].call_rows(name) or 1
        task = work.task(rows)
        tiles = candidates(work, core, plain_tile(work, rows))
        unfitting += not any(fits_level_2(core, task, l2_tiling(macro, task)) for macro in tiles)
    return {
        "kernels": kernels,
        "no_tile_fits": unfitting,
        "tiled_otherwise": {label: count for label, count in differ.items() if label != "planned"},
        "modelled_over_planned": {
            label: round(value / cycles["planned"], 4) for label, value in cycles.items() if label != "planned"
        },
    }


def measured(name: str, network: Network, plans: Mapping[str, TilePlan], seconds: float) -> dict[str, Any]:
    """Time both plans, interleaved.

    Return the roofline's over the planned time, of the network and of the steps that differ.
    """
    calls = {label: network.calls(plans[label]) for label in ("planned", "roofline")}
    took = timed(name, network, calls, seconds)
    compared = Compared(took)
    steps = [
        {"name": a.name, "planned_ms": round(ms, 5), "ratio": round(ratio, 4)}
        for a, b, ms, ratio in zip(
            calls["planned"], calls["roofline"], compared.planned_ms, compared.ratios["roofline"], strict=True
        )
        if (a.kernel, a.grain) != (b.kernel, b.grain)
    ]
    return {
        "planned_ms": round(sum(compared.planned_ms), 4),
        "roofline_over_planned": round(compared.whole(compared.ratios["roofline"]), 4),
        "rounds": len(took["planned"]),
        "steps_that_differ": steps,
    }


def compare(name: str, seconds: float | None) -> dict[str, Any]:
    """Return a network's row. seconds: of timed rounds; None: the network is not timed."""
    machine = host_machine()
    network = Network(name, machine)
    cores = cores_of([machine.name], host_target(), measured_host_board())
    specs = network.lowered.specs
    plans = plans_of(specs, cores)
    steps = Counter(step.kernel for step in network.program.steps)
    row = {"network": name, "core": machine.name, **modelled(specs, steps, cores[machine.name], plans)}
    return row | ({"times": measured(name, network, plans, seconds)} if seconds else {})


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return geometric means over networks of the time with the roofline's tiles over that with the planned ones."""
    ratios = {"modelled": [row["modelled_over_planned"]["roofline"] for row in rows]}
    ratios["measured"] = [row["times"]["roofline_over_planned"] for row in rows if "times" in row]
    return {
        label: round(math.exp(statistics.fmean(map(math.log, values))), 4) for label, values in ratios.items() if values
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--times", action="store_true", help="time both plans, too")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each network's timed rounds, about")
    parser.add_argument("--record", action="store_true", help=f"into bench/results/{NAME}.json")
    parser.add_argument("--json", action="store_true", help="print the rows instead of a table")
    arguments = parser.parse_args()
    rows = [compare(name, arguments.seconds if arguments.times else None) for name in arguments.networks]
    if arguments.record:
        record_rows(rows, arguments.times)
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    print_record(NAME, {**facts("modelled", f"bench.{NAME}"), "geometric_means": summary(rows), "rows": rows})


def record_rows(rows: Sequence[Mapping[str, Any]], with_times: bool) -> None:
    """Put rows into the record, in place of older ones of the same network.

    An older row's times stay if there are no new ones.
    """
    old = {row["network"]: row for row in measured_or_none(NAME).get("rows", ())}
    new = {row["network"]: row for row in rows}
    order = [name for name in (*NETWORKS, *old, *new) if name in old or name in new]
    kept = [new.get(name) or old[name] for name in dict.fromkeys(order)]
    command = f"bench.{NAME} --times --record" if with_times else f"bench.{NAME} --record"
    kind = "measured" if all("times" in row for row in kept) else "modelled"
    write(NAME, {**facts(kind, command), "geometric_means": summary(kept), "rows": kept})


if __name__ == "__main__":
    main()
