"""Markdown tables of the records of primitives and their selection."""

from collections import Counter

from bench.tables.markdown import Record, Tables, table

# When the check of primitives got inputs whose activations hide no output (mavcg/lab/trials/check.py), UTC.
STRICT_CHECK_SINCE = "2026-11-21 19:50"


def strategies(record: Record) -> str:
    """Return the table of libraries of a network by strategy."""
    rows = [
        [
            network,
            strategy,
            threads,
            f"{times['ms']:.2f}",
            f"{times['over_engine']:.2f}",
            f"{times['spread']:.2f}",
            f"{times['least_over_engine']:.2f}" if "least_over_engine" in times else "",
            "" if strategy_row["cost_ms"] is None else f"{strategy_row['cost_ms']:.2f}",
            "yes" if strategy_row["same"] else "",
            strategy_row["conversions"],
            f"{strategy_row['weight_bytes'] / 1e6:.2f}",
        ]
        for network, entry in record["networks"].items()
        for strategy, strategy_row in entry["strategies"].items()
        for threads, times in strategy_row["times"].items()
    ]
    text = (
        "Measured: milliseconds of `mavcg build --board host --strategy S` in interleaved rounds; bench/results/"
        "strategies.json says when, and how busy the machine was, for each network. Costs are modelled; "
    )
    text += (
        "those of `:tuned` are what `mavcg tune` measured of the most promising primitives, and modelled of others. "
    )
    text += "Predicted is the geometric mean of one thread and of all cores; `same`: computed just as `engine` does it."
    head = ["network", "strategy", "threads", "ms", "over `engine`", "spread", "least over", "predicted, ms", "same"]
    return f"{text}\n\n" + table([*head, "conversions", "weights, MB"], rows)


def selection_boards(record: Record) -> str:
    """Return the table of networks by strategy on Arm cores, one thread."""
    names = list(record["rows"][0]["tables"][0]["ms"])
    rows = []
    for row in record["rows"]:
        (single,) = (table_row for table_row in row["tables"] if table_row["threads"] == 1)
        figures = (f"{single['ms'][name]:.0f}" if name in single["ms"] else "" for name in names)
        rows.append([f"{row['core']}, {row['network']}", *figures])
    text = "Predicted, not measured: milliseconds of the convolutions, one thread, by the model of the core."
    return f"{text}\n\n" + table(["core, network", *(name.removeprefix("family:") for name in names)], rows)


def selection_kinds(record: Record) -> str:
    """Return the tables of rectangular, grouped and dilated convolutions, of a batch, and of 8-bit networks."""
    rows = []
    for network, boards in record["f32"].items():
        for board, selection in boards.items():
            names = Counter(node["primitive"] for node in selection["nodes"])
            chosen = ", ".join(f"{count} {name}" for name, count in names.most_common())
            others = ", ".join(
                f"{name.removeprefix('family:')} {ms / selection['ms']:.2f}"
                for name, ms in selection["others_ms"].items()
            )
            rows.append(
                [network, board, f"{selection['ms']:.2f}", "yes" if selection["optimal"] else "no", chosen, others]
            )
    eight_bit = []
    for model, boards in record["int8"].items():
        for board, nodes in boards.items():
            ratios = sorted(
                node["cost_ms"]["qconv_im2row_hwc_hwc"] / node["cost_ms"]["qconv_implicit_hwc_hwc"] for node in nodes
            )
            taken = sum(node["primitive"] == "qconv_im2row_hwc_hwc" for node in nodes)
            eight_bit.append([model, board, len(nodes), taken, f"{ratios[0]:.2f} to {ratios[-1]:.2f}"])
    text = "Modelled, not measured: one thread of the board's fastest core; the others' times over that of `pbqp`."
    head = ["network", "board", "pbqp, ms", "optimal", "chosen", "times as long"]
    words = (
        "Predicted: 8-bit convolutions that have a choice, those that im2row computes, and its time over that of the "
        "implicit product (the mean of one core and of all)."
    )
    second = table(["network", "board", "with a choice", "im2row", "im2row over implicit"], eight_bit)
    return f"{text}\n\n{table(head, rows)}\n\n{words}\n\n{second}"


def selection_loops(record: Record) -> str:
    """Return the table of kernels' main loops beside the core's peak."""
    rows = [
        [
            row["core"],
            row["kernel"],
            f"{row['peak_macs_per_cycle']:g}",
            f"{100 * row['compiled']['share_of_peak']:.0f} %",
            f"{100 * row['share_of_peak']:.0f} %",
        ]
        for row in record["rows"]
    ]
    text = "Modelled: multiply-accumulates a cycle of the loop that does most of the work, as compiled and as built."
    return f"{text}\n\n" + table(["core", "kernel", "peak", "as compiled", "as built"], rows)


def primitive_scenarios(record: Record) -> str:
    """Return the table of every primitive against the definition."""
    there = {row["family"]: row for row in record["emulated"]}
    strict = Counter(row["family"] for row in record["by_primitive"] if row.get("date", "") >= STRICT_CHECK_SINCE)
    rows = []
    for row in record["rows"]:
        emulated = there.get(row["family"], {"scenarios": 0, "failed": 0})
        rows.append(
            [
                row["family"],
                row["primitives"],
                strict[row["family"]],
                row["failed"],
                f"{row['largest_error']:.1e}",
                f"{row['largest_share_of_bound']:.2f}",
                emulated["scenarios"],
                emulated["failed"],
            ]
        )
    each = record["rows"][0]["scenarios_each"]
    text = f"Counted: {each} generated scenarios for each primitive on this machine, and "
    text += "some of each family on an emulated Cortex-A55 and A76, with equal bits. Errors are over the largest sum. "
    text += f"By the present check: {sum(strict.values())} of {len(record['by_primitive'])} primitives; the others by "
    text += "the one before it, which compared less of the outputs of layers with an activation."
    head = ["family", "primitives", "by the present check", "failed", "largest error", "of its bound"]
    head += ["emulated", "failed there"]
    return f"{text}\n\n" + table(head, rows)


def pbqp(record: Record) -> str:
    """Return the table of the solver on real networks."""
    rows = [
        [
            row["network"],
            row["nodes"],
            row["edges"],
            row["most_alternatives"],
            "yes" if row["optimal"] else f"gap {row['gap']:.3g}",
            f"{row['seconds_most']:.2f}",
            f"{row['cpu_seconds_most']:.2f}",
        ]
        for row in record["rows"]
    ]
    text = f"Measured: seconds of the longest of {record['runs']} runs, with all {record['primitives']} primitives and "
    text += f"modelled costs; drawn: costs at random, {record['primitives_drawn']} alternatives."
    head = ["network", "nodes", "edges", "most alternatives", "optimal", "seconds", "of CPU"]
    return f"{text}\n\n" + table(head, rows)


def safety_factors(record: Record) -> str:
    """Return the table of predicted costs against measured ones in networks."""
    quantiles = list(next(iter(record["of"].values()))["quantiles"])
    rows = [
        [kind, each["count"], *(f"{each['quantiles'][q]:.2f}" for q in quantiles)]
        for kind, each in record["of"].items()
    ]
    networks = ", ".join(dict.fromkeys(row["network"] for row in record["rows"]))
    text = (
        "Measured: convolutions that libraries compute by other primitives than the engine's own. The ratio of their "
    )
    text += (
        "time to that in the engine's library, measured over predicted; quantiles of those that were predicted to take "
    )
    text += f"at most {record['near']} times as long. {networks}; one thread, least times."
    return f"{text}\n\n" + table(["costs that are", "convolutions", *quantiles], rows)


def sparsity(record: Record) -> str:
    """Return the table of products by sparse weights over the fastest dense primitive, by the share of zeros."""
    percents = list(record["layers"][0]["over_dense"])
    rows = [
        [
            row["layer"],
            row["zeros"],
            f"{row['dense']} {row['dense_us']:.0f} us",
            *(f"{row['over_dense'][percent]:.2f}" for percent in percents),
            f"{row['wins_from_percent']} %" if row["wins_from_percent"] is not None else "-",
        ]
        for row in record["layers"]
    ]
    head = ["layer", "zeros", "fastest dense", *(f"{percent} % zeros" for percent in percents), "wins from"]
    text = (
        "Measured while other programs kept the machine busy: processor time of one thread, the shortest of nine "
        "rounds, of the faster sparse primitive over that of the fastest dense one. Positions are as far from one "
        "another; conversions between layouts are not counted. Wins from: the first of these sparsities at "
        "which it is faster."
    )
    return f"{text}\n\n" + table(head, rows)


TABLES: Tables = {
    "sparsity": ("Sparse weights beside dense ones", sparsity),
    "strategies": ("Whole networks by strategy of selection", strategies),
    "cost_safety_factors": ("What costs of primitives are worth in a network", safety_factors),
    "pbqp": ("How long a selection takes", pbqp),
    "primitive_scenarios": ("Every primitive against the definition", primitive_scenarios),
    "selection_boards": ("Strategies on cores of Arm", selection_boards),
    "selection_kinds": ("Rectangular, grouped, dilated and 8-bit convolutions", selection_kinds),
    "selection_loops": ("Main loops beside the peak of cores of Arm", selection_loops),
}
