"""Markdown tables of the records of planner and prediction."""

from collections.abc import Mapping
from typing import Any

from bench.tables.markdown import Record, Tables, table

MIB = 2**20


def plan_search(record: Record) -> str:
    """Return the table of off-chip bytes by three searches, and of their time."""
    rows = []
    for row in record["rows"]:
        moved = row["off_chip_bytes"]
        rows.append(
            [
                f"{row['network']}, {row['setup']}",
                f"{moved['pruned'] / MIB:.1f}",
                f"{moved['exact'] / MIB:.1f}",
                "yes" if row["exact_is_exhaustive"] else "no",
                f"{row['layers_that_pruning_misses']} of {row['layers']}",
                f"{row['times_below_at_worst']:.2f}",
            ]
        )
    seconds, candidates = record["seconds"], record["candidates"]
    text = "Modelled: MiB off chip of all layers. All five networks in all four setups take the pruned search "
    text += ", the exact one ".join(
        f"{seconds[name]:.1f} s and {candidates[name]:,} tilings" for name in ("pruned", "exact")
    )
    text += f", the exhaustive one {seconds['exhaustive']:.1f} s and {candidates['exhaustive']:,} (measured)."
    head = ["network, setup", "pruned", "exact", "as exhaustive", "layers that pruning misses", "metric, times below"]
    return f"{text}\n\n" + table(head, rows)


def plan_seconds(record: Record) -> str:
    """Return the table of the CPU time of planning, with and without the cache of layers."""
    titles = {
        "every_layer_ms": "every layer searched",
        "each_kind_once_ms": "each kind once",
        "from_file_ms": "from an earlier run's file",
    }
    rows = []
    for name in dict.fromkeys(row["network"] for row in record["rows"]):
        of = [row for row in record["rows"] if row["network"] == name]
        times = [f"{min(r[key] for r in of):.1f} to {max(r[key] for r in of):.1f}" for key in titles]
        rows.append([name, of[0]["layers"], of[0]["schedules"], *times])
    paper = record["paper"]
    text = (
        "Measured while other programs kept the machine busy: milliseconds of processor time of the pruned search, the "
        f"least of some runs, over setups A to D. The paper has less than {paper['most_ms'] / 1e3:.1f} s for every "
        f"network and {paper['alexnet_ms']} ms for AlexNet, with its cache and on its machine."
    )
    return f"{text}\n\n" + table(["network", "layers", "schedules", *titles.values()], rows)


def explore(record: Record) -> str:
    """Return the table of an exploration's seconds by number of workers: measured and simulated ones."""
    alone, first = record["one_process"], record["simulated"][0]["seconds"]
    measured = {row["workers"]: row for row in record["dask"]}
    rows = []
    for row in record["simulated"]:
        of = measured.get(row["workers"])
        rows.append(
            [
                row["workers"],
                f"{row['seconds']:.1f} s",
                f"{first / row['seconds']:.1f}",
                f"{of['seconds']:.0f} s at a load of {of['load_average']:.0f}" if of else "",
                f"{of['cpu_seconds']:.0f} s" if of else "",
            ]
        )
    text = f"{record['points']:,} accelerators ({record['structures']:,} that differ in more than bandwidth and clock) "
    text += f"for {len(record['networks'])} networks: {record['searches']:,} searches in place of "
    text += (
        f"{record['searches_unshared']:,}, {record['pruned']:,} points left out by bounds, {record['front']} on the "
    )
    text += (
        f"front. One process takes {alone['cpu_seconds']} CPU seconds (measured), {alone['of_searches']} of them for "
    )
    text += "searches. Simulated: seconds by the measured cost of each search, on as many CPUs as workers, with an "
    text += f"assumed {1000 * record['dispatch_seconds_assumed']:g} ms of the scheduler for each task; rounds, "
    text += (
        f"{record['rounds']} of them, and what one process does between them limit the speed-up. Measured: processes "
    )
    text += (
        f"of Dask on {record['machine']['cpus']} CPUs that others used, too; CPU seconds have the starts of Python in "
    )
    other_counts = [row["workers"] for row in record["dask"] if not row["same_database"]]
    text += (
        f"them. {f'Other databases with {other_counts} workers.' if other_counts else 'All databases are the same.'}"
    )
    head = ["workers", "simulated", "speed-up", "measured, wall clock", "measured, CPU"]
    return f"{text}\n\n" + table(head, rows)


def board_words(row: Mapping[str, Any]) -> str:
    """Return a board of the record in words: its cores with their clocks, level 3, bandwidth."""
    board = row["board"]
    cores = [f"{n} {core} at {board['max_khz'][core] / 1e6:.2f} GHz" for core, n in board["mix"].items()]
    return f"{', '.join(cores)}; {board['l3_bytes'] >> 20} MiB; {board['memory_gb_per_s']:g} GB/s"


def explore_boards(record: Record) -> str:
    """Return the table of the boards that no other board beats in latency and power."""
    rows = [
        [board_words(row), row["threads"], f"{row['latency_ms']:.1f} ms", f"{row['power_w']:.2f} W"]
        for row in sorted(record["planned"], key=lambda row: row["power_w"])
        if row["front"]
    ]
    text = f"{record['points']} boards for {record['network']} under {record['budget_w']:g} W, of which "
    text += f"{len(record['planned'])} have cores within it; {len(rows)} are on the front of latency and power. "
    text += "Latency is modelled, with the fastest number of threads within the budget; watts are published CoreMark "
    text += "figures of one core at its clock, summed over the cores at work."
    return f"{text}\n\n" + table(["board", "threads", "latency", "cores at work"], rows)


def plan_networks(record: Record) -> str:
    """Return the e-PlaNNer thesis's tables 4.1 and 8.1 beside what its networks have."""
    repeated = record["mean_repeated_percent"]
    shared = [
        [row["network"], row["uncached"], row["cached"], " / ".join(map(str, row["paper"] or ())), row["note"]]
        for row in record["table_4_1"]
    ]
    sizes = [
        [
            f"{row['network']}, {row['variant']}",
            row["layers"],
            *(f"{row[key]:.3f}" for key in ("weights_mib", "gibi_mac")),
            ", ".join(f"{value:g}" for value in row["paper"] or ()),
            row["note"],
        ]
        for row in record["table_8_1"]
    ]
    text = f"Counted: layers, and schedules that they need; {repeated['ours']:.2f} % of layers repeat another (paper: "
    text += f"{repeated['paper']} %). Then MiB of weights and 2^30 multiply-accumulates of each network."
    first = table(["network", "layers", "schedules", "paper's", "note"], shared)
    head = ["network, variant", "layers", "weights, MiB", "2^30 MAC", "paper's MB, Gflops, layers", "note"]
    return f"{text}\n\n{first}\n\n{table(head, sizes)}"


def plan_tables(record: Record) -> str:
    """Return the thesis's table 8.5, how many of its figures come out as printed, and what its pruning loses."""
    printed = [same for row in record["spaces"] for same in row["as_printed"]]
    spaces = [
        [
            row["network"],
            row["unpruned_of_a_layer_millions"],
            *(f"{size:,}" for size in row["pruned_of_all"]),
            f"{sum(row['as_printed'])} of {len(row['as_printed'])}",
        ]
        for row in record["spaces"]
    ]
    spaces.append(["all", *[""] * 5, f"{sum(printed)} of {len(printed)}"])
    losses = [
        [
            f"{row['network']}, {row['setup']}",
            *(f"{row[key] / MIB:.1f}" for key in ("no_reload_bytes", "pruned_bytes", "exhaustive_bytes")),
            f"{row['layers_missed']} of {row['layers']}",
            f"{row['worst_metric_ratio']:.2f}",
        ]
        for row in record["searches"]
    ]
    text = "Counted: tilings of a layer without pruning, in millions, and of all layers with it, in setups A to D. "
    text += (
        "Then, modelled: MiB off chip if every tensor is moved once, by the pruned search and by the exhaustive one."
    )
    head = ["network", "not pruned, millions", "A", "B", "C", "D", "as the paper printed"]
    names = ["network, setup", "no reload", "pruned", "exhaustive", "layers that pruning misses", "metric, times below"]
    return f"{text}\n\n{table(head, spaces)}\n\n{table(names, losses)}"


def plan_baselines(record: Record) -> str:
    """Return how much less the planner moves than three others, beside the thesis's figures, and modelled speed-ups."""
    reductions = [
        [key, f"{value['ours']:.2f}", "" if value["paper"] is None else f"{value['paper']:.2f}"]
        for key, value in record["reduction_percent"].items()
    ]
    rows = [
        [
            f"{row['network']}, {row['setup']}",
            *(f"{moved / MIB:.1f}" for moved in row["bytes"].values()),
            *(f"{row[key]:.1f}" for key in ("no_reload_mib", "balanced_mib")),
        ]
        for row in record["rows"]
    ]
    planners = list(record["rows"][0]["bytes"])
    text = "Modelled: percent less off-chip access than the three other planners; then MiB of each, and two bounds."
    first = table(["mean over", "ours", "paper's"], reductions)
    second = table(["network, setup", *planners, "no reload", "floor"], rows)
    return "\n\n".join([text, first, second, *record["assumptions"]])


TABLES: Tables = {
    "plan_seconds": ("How long scheduling a network takes", plan_seconds),
    "plan_networks": ("Networks of the e-PlaNNer thesis", plan_networks),
    "plan_tables": ("Search spaces of the e-PlaNNer thesis", plan_tables),
    "plan_baselines": ("Tilings beside other planners", plan_baselines),
    "plan_search": ("Three searches for tilings", plan_search),
    "explore": ("A design space over workers", explore),
    "explore_boards": ("Boards within a power budget", explore_boards),
}
