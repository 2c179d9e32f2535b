"""Markdown tables of the records of bench/headline/: one number for each claim, then what it is the mean of."""

import statistics
from collections.abc import Sequence
from typing import Any

from bench.tables.markdown import Record, Tables, table

_THREADS = ((1, "1 thread"), (2, "2 threads"))
_FASTEST = "fastest"


def networks(record: Record) -> str:
    """Return times over the fastest other runtime's, of f32 and of 8-bit networks, and over each runtime's."""
    kinds = {
        "f32": [row for row in record["rows"] if "int8" not in row["network"]],
        "8 bits": [row for row in record["rows"] if "int8" in row["network"]],
    }
    lines = [[kind, *(_mean(rows, threads, _FASTEST) for threads, _ in _THREADS)] for kind, rows in kinds.items()]
    lines += [[f"worst, {kind}", *(_worst(rows, threads) for threads, _ in _THREADS)] for kind, rows in kinds.items()]
    peers = [name for name in record["runtimes"] if name != "mavcg"]
    lines += [[peer, *(_mean(record["rows"], threads, peer) for threads, _ in _THREADS)] for peer in peers]
    named = dict.fromkeys(row["network"] for row in record["rows"])
    each = [
        [name, *(_mean([row for row in record["rows"] if row["network"] == name], n, _FASTEST) for n, _ in _THREADS)]
        for name in named
    ]
    versions = {n: e["version"] for row in record["rows"] for n, e in row["runtimes"].items() if "version" in e}
    text = "Measured: mavcg's time over that of the fastest other runtime whose output is the same, and over each "
    text += f"runtime's; geometric means, in {record['rows'][0]['rounds']} interleaved rounds of "
    text += f"{', '.join(f'{name} {version}' for name, version in versions.items())}."
    head = [name for _, name in _THREADS]
    return f"{text}\n\n{table(['over', *head], lines)}\n\n{table(['network', *head], each)}"


def _mean(rows: Sequence[Record], threads: int, peer: str) -> str:
    """Return the geometric mean of mavcg's time over a peer's; "none" where no output of it is the same."""
    ratios = [ratio for row in rows if row["threads"] == threads and (ratio := _ratio(row, peer)) is not None]
    return f"{statistics.geometric_mean(ratios):.2f}" if ratios else "none"


def _worst(rows: Sequence[Record], threads: int) -> str:
    """Return the largest time over the fastest other runtime's, and the network that has it."""
    ratios = [(ratio, row["network"]) for row in rows if row["threads"] == threads and (ratio := _ratio(row, _FASTEST))]
    return "{:.2f} ({})".format(*max(ratios)) if ratios else "none"


def _ratio(row: Record, peer: str) -> float | None:
    if peer == _FASTEST:
        found: float | None = row.get("ratio")
        return found
    ours, theirs = (row["runtimes"].get(name, {}) for name in ("mavcg", peer))
    return ours["ms"] / theirs["ms"] if ours.get("agrees") and theirs.get("agrees") else None


def blas(record: Record) -> str:
    """Return the speed of products over OpenBLAS by its best core type."""
    best = record["best_openblas"]
    over = {n: [row["over"][best] for row in record["rows"] if row["threads"] == n] for n, _ in _THREADS}
    lines = [
        ["geometric mean", *(f"{statistics.geometric_mean(over[n]):.2f}" for n, _ in _THREADS)],
        ["worst", *(f"{min(over[n]):.2f}" for n, _ in _THREADS)],
    ]
    names = ["letter", "transa", "m", "n", "k"]
    by_size: dict[tuple[Any, ...], dict[int, float]] = {}
    for row in record["rows"]:
        by_size.setdefault(tuple(row[name] for name in names), {})[row["threads"]] = row["over"][best]
    lines += [
        [f"{letter}gemm {'T' if transa else 'N'} {m}x{n}x{k}", *(f"{ratios[t]:.2f}" for t, _ in _THREADS)]
        for (letter, transa, m, n, k), ratios in by_size.items()
    ]
    text = f"Measured: speed over {best}, {record['peers'][best]}, in {record['rounds']} interleaved rounds."
    return f"{text}\n\n{table(['product', *(name for _, name in _THREADS)], lines)}"


def accuracy(record: Record) -> str:
    """Return how far networks that others trained are from their runtimes."""
    rows = record["rows"]
    f32 = [row["error"] for row in rows if row["error"] is not None and row["unit"] != "quanta"]
    lines = [["all", "", f"{max(f32):.1e}" if f32 else "none", f"{sum(row['ok'] for row in rows)} of {len(rows)}"]]
    for row in rows:
        quanta = row["unit"] == "quanta"
        error = "none" if row["error"] is None else f"{row['error']:.2g} quanta" if quanta else f"{row['error']:.1e}"
        lines.append([row["model"], row["against"], error, "yes" if row["ok"] else f"no: {row['why']}"])
    text = "Measured, on seeded inputs: the largest difference from the runtime that the file is of, of the largest "
    text += "element, or in quanta of 8-bit outputs."
    return f"{text}\n\n{table(['network', 'against', 'largest difference', 'within bounds'], lines)}"


def arm_models(record: Record) -> str:
    """Return the error of each core's model on published costs of single instructions and of loops of one."""
    by_core: dict[str, list[Record]] = {}
    for row in record["rows"]:
        if row["kind"] in ("instruction", "loop") and "modelled" in row:
            by_core.setdefault(row["core"], []).append(row)
    lines = []
    for core, rows in sorted(by_core.items()):
        held_out = [row for row in rows if row.get("held_out")]
        lines.append([core, _error(rows), len(rows), _error(held_out), len(held_out)])
    errors = {core: _mean_error([row for row in rows if row.get("held_out")]) for core, rows in by_core.items()}
    worst = max(errors, key=lambda core: errors[core])
    lines.append(["worst", "", "", f"{worst} {errors[worst]:.1%}", ""])
    text = "Modelled: mean absolute error on published cycles of instructions, and on those that a random draw held "
    text += "out of all fitting. Those of whole functions need clones: `python -m bench.silicon`."
    return f"{text}\n\n{table(['core', 'error', 'figures', 'held-out error', 'held-out figures'], lines)}"


def _error(rows: Sequence[Record]) -> str:
    return f"{_mean_error(rows):.1%}" if rows else "none"


def _mean_error(rows: Sequence[Record]) -> float:
    return statistics.fmean(abs(row["modelled"] / row["silicon"] - 1) for row in rows) if rows else 0.0


def joint(record: Record) -> str:
    """Return how many times less memory applications need at the least, beside the paper's figures."""
    lines = []
    for row in record["rows"]:
        least, weights = row["limits"][-1], row["weights_bytes"]
        ours = (weights + row["naive_bytes"]) / (weights + least["arena_bytes"])
        paper = row["paper_mb"]["naive"] / least["paper_mb"]
        megabytes = f"{(weights + least['arena_bytes']) / 1e6:.2f}"
        lines.append([row["application"], f"{ours:.2f}", f"{paper:.2f}", megabytes, f"{least['paper_mb']}"])
    text = "Counted: weights and buffers of an application's networks, joint and by parts, at the least memory; times "
    text += "less than without reduction, and the paper's, which starts from other graphs."
    head = ["application", "times less", "paper's", "MB", "paper's MB"]
    return f"{text}\n\n{table(head, lines)}"


def accelerator(record: Record) -> str:
    """Return the GOP/s of whole programs for ZU2 by the exact search, beside the paper's board."""
    lines = []
    for row in record["rows"]:
        searches = row["searches"]
        found = [f"{searches[name]['gops']:.1f}" for name in ("exact", "none")]
        paper = f"{row['paper'][-1]:g}"
        lines.append([row["network"], found[0], paper, found[1], searches["exact"]["cycles"]])
    text = "Simulated cycle by cycle: GOP/s of convolutions of whole programs for ZU2, fused by the exact search and "
    text += "not fused; the paper's are measured on its board."
    head = ["network", "GOP/s", "paper's", "not fused", "cycles"]
    return f"{text}\n\n{table(head, lines)}"


TABLES: Tables = {
    "networks": ("Headline: networks beside other runtimes", networks),
    "blas": ("Headline: the BLAS beside OpenBLAS", blas),
    "accuracy": ("Headline: results of networks that others trained", accuracy),
    "arm_models": ("Headline: models of Arm cores beside published instructions", arm_models),
    "joint": ("Headline: applications in one memory", joint),
    "accelerator": ("Headline: programs for ZU2", accelerator),
}
