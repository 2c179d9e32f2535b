"""Tables of predicted layers and of macro-tiles."""

from bench.tables.markdown import Record, Tables, table


def predicted(record: Record) -> str:
    """Return the table of predictions beside measurements."""

    def cells(name: str, errors: Record) -> list[object]:
        return [name, errors["layers"], f"{errors['pearson']:.3f}", f"{errors['pearson_of_logs']:.3f}"]

    rows = []
    for row in record["rows"]:
        totals = (f"{row['predicted_total_ms']:.1f}", f"{row['measured_total_ms']:.1f}")
        rows.append([*cells(row["network"], row["correlation"]), *totals])
    rows.append([*cells("all", record["pooled"]), "", ""])
    text = "Layers of four networks on this machine, one thread: predicted by `mavcg estimate` (modelled) and measured."
    head = ["network", "layers", "Pearson", "of logarithms", "predicted, ms", "measured, ms"]
    return f"{text}\n\n" + table(head, rows)


def planned_tiles(record: Record) -> str:
    """Return the table of planned tiles against fixed ones."""
    rows = [
        [
            row["network"],
            f"{row['planned_ms']:.2f}",
            f"{row['one_for_all_ms']:.2f} ({row['one_for_all']})",
            f"{row['planned_by_one_for_all']:.3f}",
            f"{row['each_layers_best_ms']:.2f}",
            f"{row['planned_by_each_layers_best']:.3f}",
        ]
        for row in record["rows"]
    ]
    means = record["geometric_means"]
    by_one, by_each = (f"{means[what]:.3f}" for what in ("planned_by_one_for_all", "planned_by_each_layers_best"))
    rows.append(["geometric mean", "", "", by_one, "", by_each])
    text = "Measured: milliseconds, one thread, in one interleaved run; every layer as implicit product. Fixed "
    text += "tilings: six of them, the best for the network, and for each layer its own best one."
    head = ["network", "planned", "best one for all layers", "planned / it", "each layer's best", "planned / these"]
    return f"{text}\n\n" + table(head, rows)


def tiling_models(record: Record) -> str:
    """Return the table of macro-tiles by the roofline alone beside those of the model with all terms."""
    rows = []
    for row in record["rows"]:
        lost = row["modelled_over_planned"]
        terms = [(ratio, label) for label, ratio in lost.items() if label != "roofline" and ratio > 1.002]
        times = row.get("times")
        rows.append(
            [
                row["network"],
                row["kernels"],
                row["tiled_otherwise"]["roofline"],
                f"{lost['roofline']:.3f}",
                f"{times['roofline_over_planned']:.3f} of {times['planned_ms']:.2f} ms" if times else "",
                ", ".join(
                    f"{label.removeprefix('without ')} {ratio:.3f}" for ratio, label in sorted(terms, reverse=True)
                ),
            ]
        )
    means = record["geometric_means"]
    rows.append(["geometric mean", "", "", f"{means['modelled']:.3f}", f"{means.get('measured', '')}", ""])
    text = "The paper's roofline (equations 6.1 to 6.13) and the planner's model with all terms choose from the same "
    text += "tiles "
    text += (
        "of the same kernels, one thread. Modelled: cycles by all terms of what the roofline chooses, over those of "
    )
    text += (
        "what all terms choose; the same where one term is left out, if it is more than 1.002. Measured, where it was: "
    )
    text += "one interleaved run, medians of ratios."
    head = [
        "network",
        "kernels",
        "tiled otherwise",
        "roofline, modelled",
        "roofline, measured",
        "without a term, modelled",
    ]
    return f"{text}\n\n" + table(head, rows)


TABLES: Tables = {
    "predicted": ("Predictions beside measurements", predicted),
    "planned_tiles": ("Planned tilings against fixed ones", planned_tiles),
    "tiling_models": ("The roofline alone and all terms", tiling_models),
}
