"""The markdown table of the record of bench/blas_peers.py."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[object]]], str]


def blas_peers(record: Record, table: Table) -> str:
    """Return the table of mavcg's BLAS over the fastest other one: a row for each product, and means."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for row in record["rows"]:
        groups.setdefault((row["kind"], row["letter"], row["m"], row["n"], row["k"]), []).append(row)
    rows = []
    for (kind, letter, m, n, k), some in groups.items():
        by_form = {(row["threads"], row["transa"]): f"{row['over_fastest']:.2f} ({row['fastest']})" for row in some}
        cells = [by_form.get((threads, transa), "") for threads in (1, 2) for transa in (False, True)]
        rows.append([f"{kind}: {letter}gemm {m}, {n}, {k}", *cells])
    peers = ", ".join(f"{name} {version}".strip() for name, version in record["peers"].items())
    text = f"Measured: speed of our BLAS over the fastest of {peers}; medians of the ratios of {record['rounds']} "
    text += "interleaved rounds. "
    if record["best_openblas"]:
        text += f"OpenBLAS by its best core type for all products, {record['best_openblas']}. "
    text += " ".join(
        f"{each['threads']} {'thread' if each['threads'] == 1 else 'threads'}: {each['mean_over_fastest']:.3f} in "
        f"geometric mean, least {each['least_over_fastest']:.2f}, {each['below_0.95']} of {each['products']} products "
        "below 0.95."
        for each in record["summary"]
        if each["kind"] == "all"
    )
    for name in record["peers"]:
        ratios = [row["over"][name] for row in record["rows"]]
        text += f" Over {name} alone: {statistics.geometric_mean(ratios):.3f}."
    head = ["M, N, K", "1 thread", "A transposed", "2 threads", "A transposed"]
    return f"{text}\n\n" + table(head, rows)


TABLES: Mapping[str, tuple[str, Callable[[Record, Table], str]]] = {
    "blas_peers": ("The BLAS beside other libraries", blas_peers),
    "half_blas_peers": ("The BLAS's products in half precision beside MKL's", blas_peers),
}
