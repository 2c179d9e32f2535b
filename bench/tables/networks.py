"""Markdown tables of the records of the model pipeline."""

from bench.peer_rows import cells, geometric_mean
from bench.tables.markdown import Record, Tables, table


def peers(record: Record) -> str:
    """Return the table of whole networks beside the other runtimes, with one thread and two."""
    rows = record["rows"]
    parts = [peers_in_brief(record), "All runtimes; medians of each round's median."]
    for threads in sorted({row["threads"] for row in rows}):
        head, lines, notes = cells([row for row in rows if row["threads"] == threads], record["runtimes"])
        parts += [f"{threads} thread{'s' * (threads > 1)}:", table(head, lines), *notes]
    return "\n\n".join(parts)


def peers_in_brief(record: Record) -> str:
    """Return the table of whole networks beside the fastest other runtime, one line for each network."""
    rows = record["rows"]
    counts = sorted({row["threads"] for row in rows})
    head, lines = ["network"], []
    for threads in counts:
        head += [f"{threads} thread{'s' * (threads > 1)}, ms", "fastest other, ms", "mavcg / it", "over the rounds"]
    for network in dict.fromkeys(row["network"] for row in rows):
        line = [network.removesuffix("-random")]
        for threads in counts:
            row = next(row for row in rows if (row["network"], row["threads"]) == (network, threads))
            line += _beside(row)
        lines.append(line)
    means = [geometric_mean([row for row in rows if row["threads"] == threads]) for threads in counts]
    last = ["geometric mean"]
    for mean in means:
        last += ["", "", f"{mean:.2f}" if mean is not None else "", ""]
    lines.insert(sum(row["counts"] for row in rows) // len(counts), last)
    text = (
        f"Measured: milliseconds a picture, in {rows[0]['rounds']} interleaved rounds, in which {_named(record)} took "
    )
    text += "part; below 1 mavcg is faster than the fastest of the others whose output is the same."
    return f"{text}\n\n" + table(head, lines)


def _beside(row: Record) -> list[str]:
    """Return the cells of one comparison: mavcg's time, the fastest other's, their ratio and its range.

    Blank if none is comparable.
    """
    ours, fastest = row["runtimes"]["mavcg"].get("ms"), row.get("fastest")
    if ours is None or fastest is None:
        return [f"{ours:.2f}" if ours is not None else "", "", "", ""]
    return [
        f"{ours:.2f}",
        f"{row['runtimes'][fastest]['ms']:.2f} ({fastest})",
        f"{row['ratio']:.2f}",
        f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}",
    ]


def _named(record: Record) -> str:
    """Return the runtimes with their versions."""
    version_of = {
        n: entry["version"] for row in record["rows"] for n, entry in row["runtimes"].items() if "version" in entry
    }
    return ", ".join(f"{name} {version}" for name, version in version_of.items())


def before(record: Record) -> str:
    """Return the table of networks by today's mavcg over an earlier one."""
    rows = [
        [
            row["network"],
            str(row["threads"]),
            f"{row['now_ms']:.2f}",
            f"{row['then_ms']:.2f}",
            f"{row['ratio']:.3f}",
            f"{row['quartiles'][0]:.3f} to {row['quartiles'][1]:.3f}",
        ]
        for row in record["rows"]
    ]
    text = (
        f"Measured: milliseconds by this state of mavcg and by commit {record['then']}, interleaved; the ratio is now "
    )
    text += f"over then, the median of the rounds' ratios. Geometric mean: {record['mean']:.3f}."
    return f"{text}\n\n" + table(["network", "threads", "now", "then", "now / then", "quartiles"], rows)


TABLES: Tables = {
    "peers": ("Networks against other runtimes", peers),
    "peers_amx": ("Networks against other runtimes on a processor with AMX", peers),
    "peers_bf16": ("Networks in bf16 beside OpenVINO in bf16", peers),
    "before": ("Networks beside an earlier state of mavcg", before),
}
