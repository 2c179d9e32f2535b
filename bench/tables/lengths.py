"""Tables of the records of bench.lengths and bench.lengths.random_graphs."""

import statistics

from bench.tables.markdown import Record, Tables, table


def lengths(record: Record) -> str:
    """Return the tables of libraries of any length beside those of one: bytes, and times by length."""
    by_network: dict[str, list[Record]] = {}
    for row in record["rows"]:
        by_network.setdefault(row["network"], []).append(row)
    sizes = [
        [
            f"{size['network']}, {by_network[size['network']][-1]['length']} at most",
            f"{size['any_bytes'] / 1000:.0f} kB",
            f"{size['fixed_bytes'] / 1000:.0f} kB",
            f"{size['growth']:.2f}",
            f"{statistics.geometric_mean(row['ratio'] for row in by_network[size['network']]):.3f}",
            f"{max(row['ratio'] for row in by_network[size['network']]):.3f}",
        ]
        for size in record["sizes"]
    ]
    times = [
        [
            row["network"],
            row["length"],
            f"{row['any_ms']:.3f}",
            f"{row['fixed_ms']:.3f}",
            f"{row['ratio']:.3f}",
            f"{row['from']:.3f} to {row['to']:.3f}",
        ]
        for row in record["rows"]
    ]
    text = (
        "Bytes counted, times measured: a library for any length over one for a single length, with the same kernels "
        f"and one thread; medians of {record['rounds']} interleaved rounds in several processes, and their quartiles."
    )
    head = ["network", "any length", "one length", "bytes, over", "time, over (mean)", "worst length"]
    by_length = table(["network", "length", "any length, ms", "one length, ms", "over", "quartiles"], times)
    return f"{text}\n\n{table(head, sizes)}\n\n{by_length}"


def random_lengths(record: Record) -> str:
    """Return the tables of random graphs by verdict, and of refusals by reason."""
    counts = record["counts"]
    head = ["same", "explained", "different", "crash", "refused", "skipped"]
    text = (
        f"Counted: {record['graphs']} random graphs with a symbolic dimension, of libraries for its bounds, at "
        f"{record['runs']} lengths: values beside onnxruntime's, bits beside those of a library of one length. "
        "Explained: by rounding, as in chains of operators."
    )
    counted = table(head, [[counts.get(name, 0) for name in head]])
    reasons = table(["refused", "graphs"], [[reason, number] for reason, number in record["refused"].items()])
    return f"{text}\n\n{counted}\n\n{reasons}"


TABLES: Tables = {
    "lengths": ("Libraries of any length", lengths),
    "random_lengths": ("Random graphs of any length", random_lengths),
}
