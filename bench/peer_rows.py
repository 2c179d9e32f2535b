"""Rows of a comparison of runtimes: ratios, goals and tables, from each round's medians."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

WORST = 1 / 0.9  # no network slower than 0.9 of the fastest peer
MANY_3X3 = 1 / 1.2  # those with many 3x3 layers: at least 1.2 times as fast
LEAST_FASTER = ("vgg19-random", "resnet50-random", "inception_v1-random")
MOST_APART = 1e-3  # of f32 outputs, to the largest element
MOST_APART_BF16 = 0.1  # 8 significant bits at each of some fifty layers
MOST_APART_8_BIT = 0.25  # rounding is amplified from layer to layer: this finds wrong networks, not wrong roundings


def row_of(
    network: str,
    threads: int,
    medians: Mapping[str, Sequence[float]],
    versions: Mapping[str, str],
    errors: Mapping[str, float],
    reasons: Mapping[str, str],
    precision: str = "f32",
) -> dict[str, Any]:
    """Return the row of one network with some threads.

    medians: ms of each round, by runtime. errors: distance of its output from the reference's, relative to the largest
    element; a peer that is too far off is shown and not compared with. reasons: why a runtime has no times. precision:
    of networks in floats. Ratios are medians of the ratio within a round; the fastest peer is the one with the largest
    ratio of mavcg's time to its time.
    """
    most = MOST_APART_8_BIT if "int8" in network else MOST_APART_BF16 if precision == "bf16" else MOST_APART
    runtimes: dict[str, Any] = {}
    for name, ms in medians.items():
        runtimes[name] = {
            "ms": round(statistics.median(ms), 4),
            "low": round(min(ms), 4),
            "high": round(max(ms), 4),
            "version": versions[name],
            "apart": float(f"{errors[name]:.3g}"),
            "agrees": errors[name] <= most,
        }
    for name, reason in reasons.items():
        runtimes[name] = {"reason": reason}
    row: dict[str, Any] = {"network": network, "threads": threads, "runtimes": runtimes}
    peers = [name for name, r in runtimes.items() if name != "mavcg" and r.get("agrees")]
    if peers and runtimes.get("mavcg", {}).get("agrees"):
        by_round = {
            name: [ours / theirs for ours, theirs in zip(medians["mavcg"], medians[name], strict=True)]
            for name in peers
        }
        fastest = max(peers, key=lambda name: (statistics.median(by_round[name]), name))
        ratios = by_round[fastest]
        row |= {
            "fastest": fastest,
            "ratio": round(statistics.median(ratios), 4),
            "ratio_low": round(min(ratios), 4),
            "ratio_high": round(max(ratios), 4),
            "goal": round(goal(network), 4),
        }
    return row


def goal(network: str) -> float:
    """Return the greatest ratio mavcg / fastest peer that is allowed."""
    return MANY_3X3 if network in LEAST_FASTER else WORST


def geometric_mean(rows: Sequence[Row]) -> float | None:
    """Return the geometric mean of mavcg / fastest peer over the rows that have it and count; None without any."""
    ratios = [row["ratio"] for row in rows if "ratio" in row and row["counts"]]
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios)) if ratios else None


def cells(rows: Sequence[Row], runtimes: Sequence[str]) -> tuple[list[str], list[list[str]], list[str]]:
    """Return the table of rows of one number of threads: its head, its lines, and the footnotes."""
    notes: list[str] = []

    def mark(note: str) -> str:
        if note not in notes:
            notes.append(note)
        return f"[{notes.index(note) + 1}]"

    def cell(row: Row, name: str) -> str:
        entry = row["runtimes"].get(name)
        if entry is None:
            return ""
        if "reason" in entry:
            return mark(f"{name}: {entry['reason']}")
        wrong = "" if entry["agrees"] else " " + mark(f"{name}: its output is another one; not compared with")
        return f"{entry['ms']:.2f}{wrong}"

    head = ["network", *(f"{name} ms" for name in runtimes), "fastest peer", "mavcg / it", "over the rounds", "goal"]
    lines = []
    for row in rows:
        line = [str(row["network"]).removesuffix("-random"), *(cell(row, name) for name in runtimes)]
        if "ratio" in row:
            line += [
                row["fastest"],
                f"{row['ratio']:.2f}",
                f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}",
                f"{row['goal']:.2f} {'met' if row['ratio'] <= row['goal'] else 'missed'}",
            ]
        lines.append(line + [""] * (len(head) - len(line)))
    mean = geometric_mean(rows)
    if mean is not None:
        last = [""] * len(head)
        last[0], last[-3], last[-1] = "geometric mean", f"{mean:.2f}", f"1.00 {'met' if mean < 1 else 'missed'}"
        lines.insert(1 + max(at for at, row in enumerate(rows) if row["counts"]), last)
    return head, lines, [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
