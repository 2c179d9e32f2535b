"""Tables of convolution layers and matrix products, beside the core's peak and other libraries."""

import statistics
from typing import Any

from bench.tables.markdown import Record, Tables, table


def conv_layers(record: Record) -> str:
    """Return the table of layers and products beside the core's peak."""
    rows = [
        [row["name"], f"{row['gflops']:.1f}", f"{row['peak_gflops']:.1f}", f"{100 * row['share']:.0f} %"]
        for row in record["rows"]
    ]
    text = "Measured: GFLOP/s of one thread, interleaved with a loop of independent multiply-adds, the peak; upper "
    text += "quartiles of the rounds."
    return f"{text}\n\n" + table(["layer or product", "GFLOP/s", "peak", "share"], rows)


def winograd(record: Record) -> str:
    """Return the table of Winograd's algorithms beside the implicit product."""
    algorithms = list(record["rows"][0]["gflops"])
    rows = [
        [
            row["name"],
            *(f"{row['gflops'][algorithm]:.0f}" for algorithm in algorithms),
            row["best"],
            f"{row['gain']:.2f}",
        ]
        for row in record["rows"]
    ]
    text = "Measured: GFLOP/s of one thread, a multiply-add being two, counted as in the definition: algorithms "
    text += "with fewer multiplications may exceed the peak. Gain: best algorithm over the implicit product."
    return f"{text}\n\n" + table(["layer", *algorithms, "best", "gain"], rows)


def gemm_peers(record: Record) -> str:
    """Return the table of products beside other libraries."""
    names = list(dict.fromkeys(name for row in record["rows"] for name in row["gflops"]))
    rows = [
        [
            f"{row['m']}, {row['n']}, {row['k']}",
            *(f"{row['gflops'][name]:.1f}" if name in row["gflops"] else "" for name in names),
            f"{row['peak_gflops']:.1f}",
            f"{row['over_best']:.2f} ({row['best_peer']})",
        ]
        for row in record["rows"]
    ]
    peers = ", ".join(f"{name} {number}" for name, number in record["peers"].items())
    text = f"Measured: GFLOP/s of one thread, the right side constant; {peers}. By the first deciles of the times of "
    text += f"{record['rows'][0]['rounds']} interleaved rounds. Reading: as if a product took as long as a loop that "
    text += "only reads its right side."
    return f"{text}\n\n" + table(["M, N, K", *names, "peak", "mavcg over the best peer"], rows)


def blas_peers(record: Record) -> str:
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


def limits(record: Record) -> str:
    """Return the tables of networks beside their limits: whole ones, and the layers that lose most."""
    whole = [
        [
            row["network"],
            row["threads"],
            f"{row['median_ms']:.2f}",
            _spread(row),
            f"{row['limit_ms']:.2f}",
            f"{row['over']:.2f}",
            f"{row['above']} of {row['layers']}",
        ]
        for row in record["rows"]
    ]
    most = [
        [
            row["network"],
            row["threads"],
            layer["name"],
            layer["primitive"] or layer["op"],
            f"{layer['ms']:.3f}",
            f"{layer['limit_ms']:.3f}",
            layer["bound_by"],
        ]
        for row in record["rows"]
        for layer in row["most"]
    ]
    text = (
        "Measured: a run's median beside the sum of its layers' limits, the larger of arithmetic at the measured peak "
    )
    text += f"and of bytes at the measured bandwidth; layers that are above {record['near']} of theirs. Spread: the "
    text += "largest median of ten processes, each at its own addresses, over the smallest."
    head = ["network", "threads", "ms", "spread", "limit ms", "over", "layers above"]
    tables = (table(head, whole), table([*head[:2], "layer", "by", head[2], head[4], "bound by"], most))
    return "\n\n".join((text, tables[0], "The layers that lose most:", tables[1]))


def _spread(row: Record) -> str:
    """Return the spread of a network's processes; "none" in records of before it was measured."""
    return f"{row['spread']:.3f}" if "spread" in row else "none"


TABLES: Tables = {
    "limits": ("Networks beside the limits of the machine", limits),
    "conv_layers": ("Layers and products beside the peak", conv_layers),
    "winograd": ("Winograd's convolutions beside the implicit product", winograd),
    "gemm_peers": ("Products beside other libraries", gemm_peers),
    "blas_peers": ("The BLAS beside other libraries", blas_peers),
    "half_blas_peers": ("The BLAS's products in half precision beside MKL's", blas_peers),
}
