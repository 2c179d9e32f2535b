"""Markdown tables of the records of threads and memory."""

import statistics

from bench.tables.markdown import Record, Tables, table

KNOWN = ("speeds known", "no speeds known")
CUT = ("in parts", "no parts")  # of bench/unequal_layers.py


def threads(record: Record) -> str:
    """Return the table of the gain of a second thread."""
    rows = [
        [
            row["network"],
            f"{row['one_ms']:.2f}",
            f"{row['two_ms']:.2f}",
            f"{row['speedup']:.2f}",
            f"{row['speedup_low']:.2f} to {row['speedup_high']:.2f}",
        ]
        for row in record["rows"]
    ]
    text = f"Measured: milliseconds a picture with one thread and with two, in {record['rows'][0]['rounds']} "
    text += "interleaved rounds on a machine of two CPUs, which others use too."
    return f"{text}\n\n" + table(["network", "one thread", "two", "times as fast", "over the rounds"], rows)


def streaming(record: Record) -> str:
    """Return the table of memory bandwidth with one thread and two."""
    by_threads = {(row["source"], row["threads"]): row for row in record["rows"]}
    rows = []
    for source in dict.fromkeys(row["source"] for row in record["rows"]):
        one_thread, two_threads = by_threads[source, 1], by_threads[source, 2]
        rows.append(
            [
                source,
                f"{one_thread['gb_per_s']:.1f} ({one_thread['median_gb_per_s']:.1f})",
                f"{two_threads['gb_per_s']:.1f} ({two_threads['median_gb_per_s']:.1f})",
                f"{two_threads['gb_per_s'] / one_thread['gb_per_s']:.2f}",
            ]
        )
    text = f"Measured: GB/s of the upper decile of bursts of {record['burst_bytes'] / 1e6:.1f} MB, in brackets of the "
    text += f"median one, in {record['rounds']} interleaved rounds; {record['bytes'] / 1e6:.0f} MB are gone through."
    return f"{text}\n\n" + table(["what reads", "one thread", "two", "times as much"], rows)


def handover(record: Record) -> str:
    """Return the table of the cost of sharing a step."""
    rows = [
        [f"{row['row_ns']:.0f} ns", *(f"{row[name]:.0f} ns" for name in ("one_ns", "two_ns", "beside_ns"))]
        for row in record["rows"]
    ]
    text = "Measured: a step of two rows that do nothing but wait, by the time of a row; lower quartiles of "
    text += "interleaved rounds."
    return f"{text}\n\n" + table(["a row", "one thread", "two", "of that beside the rows"], rows)


def unequal_cores(record: Record) -> str:
    """Return the table of two threads on cores of unequal speed, beside the ideal division."""
    rows = []
    for ratio in dict.fromkeys(step["ratio"] for step in record["steps"]):
        cells: list[object] = [f"1 : {ratio}"]
        for known in KNOWN:
            over = [
                step["over_ideal"]
                for step in record["steps"]
                if step["ratio"] == ratio and step["step"].endswith(f", {known}")
            ]
            cells.append(f"{statistics.geometric_mean(over):.2f} (worst {max(over):.2f})")
        rows.append(cells)
    text = f"Measured: time of a step over that of the ideal split; steps of 14 to 224 rows, {record['rounds']} "
    text += "rounds, one thread's rows slowed down by the ratio. Geometric means."
    rows_text = table(["speeds of the two", *KNOWN], rows)
    return f"{text}\n\n{rows_text}\n\nReal layers, over all ratios:\n\n" + _small_layers(record)


def _small_layers(record: Record) -> str:
    """Return the table of 1x1 convolutions of small images, with their rows in parts and whole: median and worst."""
    over: dict[str, dict[str, list[float]]] = {}
    took: dict[str, list[float]] = {}
    for step in record["steps"]:
        layer, _, how = step["step"].rpartition(", ")
        if how in CUT:
            over.setdefault(layer, {}).setdefault(how, []).append(step["over_ideal"])
            took.setdefault(layer, []).append(step["both_ms"])
    rows = [
        [
            layer,
            f"{min(took[layer]):.3f} to {max(took[layer]):.3f}",
            *(f"{statistics.median(by_cut[how]):.2f} (worst {max(by_cut[how]):.2f})" for how in CUT),
        ]
        for layer, by_cut in over.items()
    ]
    return table(["1x1 convolution", "ms", *CUT], rows)


def decoder(record: Record) -> str:
    """Return the tables of tokens a second: measured by runtime and threads, and predicted by core."""
    text = (
        f"Measured: tokens a second, one at a time, of a decoder with {record['weights'] / 1e6:.0f} million weights of "
        f"4 bits, over texts of {record['tokens']}; medians of interleaved rounds, and their range."
    )
    rows = [
        [row["runtime"], row["threads"], row["tokens_per_s"], f"{row['from']} to {row['to']}"] for row in record["rows"]
    ]
    predicted = [
        [row["board"], row["core"], row["one_core_per_s"], row["cluster_per_s"]] for row in record["predicted"]
    ]
    prompts = [
        [
            row["runtime"],
            row["threads"],
            row["tokens_per_s"],
            f"{row['from']} to {row['to']}",
            f"{row['share']:.0%}" if "share" in row else "",
        ]
        for row in record["prompts"]
    ]
    parts = [text, table(["runtime", "threads", "tokens/s", "rounds"], rows), *record["absent"]]
    parts += [
        f"Measured: a prompt of {record['tokens']} tokens in one run; its products of weights beside those of 8 bits "
        f"that its cores could make at most, by {_peak_text(record['peak'])}.",
        table(["runtime", "threads", "tokens/s of a prompt", "rounds", "of the peak"], prompts),
        "Predicted:",
    ]
    return "\n\n".join([*parts, table(["board", "core", "one core", "all of them"], predicted)])


def _peak_text(peak: Record) -> str:
    """Return the instruction of the peak, and how far tiles are above it."""
    if "tiles" not in peak:
        return f"`{peak['instruction']}`"
    return (
        f"`{peak['instruction']}`; AMX's tiles, which kernels may use, make {peak['tiles_over_peak']:.1f} times as "
        f"many by `{peak['tiles']}`, so that a share may be above 100 %"
    )


TABLES: Tables = {
    "threads": ("What a second thread brings", threads),
    "streaming": ("What memory gives one thread and two", streaming),
    "decoder": ("Tokens of a decoder", decoder),
    "handover": ("What sharing a step takes", handover),
    "unequal_cores": ("Two threads on unequal cores", unequal_cores),
}
