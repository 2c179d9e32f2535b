"""Markdown tables of what the model is unsure of on simulated Arm cores: layers, selections, bands of rows."""

from bench.tables.markdown import Record, table


def unsure_layers(record: Record) -> str:
    """Return how many sure and unsure layers are within 10 % of the simulated time, modelled and simulated alone."""

    def part(count: int, of: int) -> str:
        return f"{count} of {of}"

    rows = [
        [
            g["core"],
            g["network"],
            part(g["sure_within"], g["sure"]),
            part(g["unsure_within"], g["unsure"]),
            part(g["simulated_within"], g["simulated_alone"]),
            part(g["all_modelled_within"], g["sure"] + g["unsure"]),
            part(g["all_estimated_within"], g["sure"] + g["unsure"]),
            f"{g['modelled_ratio']:.2f}",
            f"{g['estimated_ratio']:.2f}",
        ]
        for g in record["groups"]
    ]
    text = (
        f"Modelled and simulated, not measured: large layers of networks on one core of {record['board']} that are "
        f"within {record['within']:.0%} of their time in a simulated run of the whole network (`python -m "
        "bench.simulated_layers`): those that the model is sure of, those that it is unsure of as modelled and as "
        "simulated alone (`mavcg estimate --simulate-unsure`), and all of them before and after; then total times over "
        "simulated ones, before and after."
    )
    head = [
        "core",
        "network",
        "sure",
        "unsure, modelled",
        "unsure, simulated",
        "all, modelled",
        "all, unsure simulated",
        "modelled / simulated",
        "after",
    ]
    return "\n\n".join([text, table(head, rows)])


def simulated_selections(record: Record) -> str:
    """Return networks selected by three kinds of costs, at simulated costs."""
    rows = [
        [
            row["core"],
            row["network"],
            each["costs"],
            f"{each['ms']:.3f}",
            f"{each['over_best']:.3f}",
            f"{each['different']} of {row['convolutions']}",
            f"{each['cpu_seconds']:.0f}",
        ]
        for row in record["rows"]
        for each in row["selections"]
    ]
    counts = "; ".join(
        f"{row['network']} on {row['core']}: {row['simulated']} of {row['unsure']} unsure primitives were simulated, "
        f"of all {row['all']} primitives and conversions"
        for row in record["rows"]
    )
    text = (
        "Modelled and simulated, not measured: primitives and layouts selected by the model alone, with simulated "
        "costs where the model is unsure (`--simulate-unsure`), and with all costs simulated; the time of each network "
        "by the simulated costs, over that of the last selection; convolutions that are computed otherwise than there; "
        f"CPU seconds for the costs. {counts}."
    )
    head = ["core", "network", "costs", "simulated ms", "over all simulated", "otherwise", "CPU s"]
    return "\n\n".join([text, table(head, rows)])


def simulated_bands(record: Record) -> str:
    """Return what bands of rows save, as predicted and as simulated."""
    rows = [
        [
            row["core"],
            row["ranges"],
            f"{row['predicted_saved_ms']:.2f}",
            f"{row['saved_ms']:.2f}",
            "" if row["predicted_over_simulated"] is None else f"{row['predicted_over_simulated']:.2f}",
            f"{row['layers_ms']:.1f}",
            f"{row['time']:.4f}",
        ]
        for row in record["rows"]
    ]
    text = (
        f"Modelled and simulated, not measured: {record['network']} on one core of {record['board']}, by bands of rows "
        "wherever they are predicted to be faster (`--depth-first on`), and layer by layer."
    )
    head = ["core", "ranges", "predicted to save, ms", "saved, ms", "ratio", "layer by layer, ms", "time of it"]
    return "\n\n".join([text, table(head, rows)])


def simulated_strategies(record: Record) -> str:
    """Return the simulated times of networks with the engine's own algorithms and with selected primitives."""
    rows = [
        [
            row["network"],
            row["board"],
            row["core"],
            row["primitives"],
            f"{row['engine_ms']:.2f}",
            f"{row['pbqp_ms']:.2f}",
            f"{row['ratio']:.3f}",
        ]
        for row in record["rows"]
    ]
    text = (
        "Simulated, not measured: whole networks on one core, built with the engine's own algorithms and with "
        "primitives and layouts selected by modelled costs, which is the default. Primitives: nodes that are not the "
        "engine's own."
    )
    head = ["network", "board", "core", "primitives", "engine, ms", "selected, ms", "ratio"]
    return "\n\n".join([text, table(head, rows)])


TABLES = {
    "unsure_layers": ("Layers that the model is unsure of on simulated Arm cores", unsure_layers),
    "simulated_selections": ("Selections for Arm cores with modelled and simulated costs", simulated_selections),
    "simulated_strategies": ("Strategies of selection on simulated Arm cores", simulated_strategies),
    "simulated_bands": ("Bands of rows on simulated Arm cores", simulated_bands),
}
