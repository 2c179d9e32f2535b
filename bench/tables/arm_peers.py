"""The tables of other runtimes' Arm builds beside mavcg's libraries on simulated cores."""

from collections.abc import Mapping
from math import exp, log

from bench.tables.markdown import Record, table

PEERS = ("onnxruntime", "litert", "ncnn", "mnn")
LARGEST_DIFFERENCES = {"f32": 1e-3, "f16": 3e-2}  # of outputs, relative to the largest element
_PLACE = ("core", "network", "type", "runtime")
_PLACE = ("core", "network", "type", "runtime")
_COUNTS = ("instructions", "L1 misses", "lines read", "no facts, %", "no address, %")
_MILLION = 1e6


def counts(row: Record) -> bool:
    """True for a row of a runtime that ran, with the outputs of the reference."""
    return "error" not in row and row["difference"] <= LARGEST_DIFFERENCES[row["dtype"]]


def by_network(record: Record) -> dict[tuple[str, str, str], dict[str, Record]]:
    """Return the rows that count by (core, network, type of elements), then by runtime."""
    found: dict[tuple[str, str, str], dict[str, Record]] = {}
    for row in record["rows"]:
        if counts(row):
            found.setdefault((row["core"], row["net"], row["dtype"]), {})[row["runtime"]] = row
    return found


def fastest_peer(runtimes: Mapping[str, Record]) -> str | None:
    """Return the peer with the fewest cycles; None if no peer ran."""
    peers = [name for name in runtimes if name != "mavcg"]
    return min(peers, key=lambda name: runtimes[name]["cycles"]) if peers else None


def ratio_of(runtimes: Mapping[str, Record]) -> float | None:
    """Return mavcg's cycles over those of the fastest peer; None if either did not run."""
    fastest = fastest_peer(runtimes)
    if fastest is None or "mavcg" not in runtimes:
        return None
    return float(runtimes["mavcg"]["cycles"] / runtimes[fastest]["cycles"])


def arm_peers(record: Record) -> str:
    """Return cycles by network, core and runtime, their ratios, and what each runtime executed."""
    found = by_network(record)
    cycles: list[list[object]] = []
    ratios_by_core: dict[tuple[str, str], list[float]] = {}
    for (core, network, dtype), runtimes in found.items():
        ratio = ratio_of(runtimes)
        if ratio is not None:
            ratios_by_core.setdefault((core, dtype), []).append(ratio)
        cells = [f"{runtimes[name]['cycles'] / _MILLION:.1f}" if name in runtimes else "" for name in ("mavcg", *PEERS)]
        last = ["" if ratio is None else f"{ratio:.2f}", fastest_peer(runtimes) or ""]
        cycles.append([core, network, dtype, *cells, *last])
    means = [
        [core, dtype, len(ratios), f"{exp(sum(map(log, ratios)) / len(ratios)):.2f}", f"{max(ratios):.2f}"]
        for (core, dtype), ratios in ratios_by_core.items()
    ]
    details = [_details(row) for row in record["rows"] if counts(row)]
    failed = [[*_place(r), _reason(r)] for r in record["rows"] if not counts(r)]
    text = (
        "Simulated cycles and counted instructions of one run after two, one thread; the peers are their own builds "
        "for aarch64, in a root where they see the core. Each core has the caches, clock and memory of a board of it. "
        "mavcg over the fastest peer: below 1, mavcg takes less."
    )
    parts = [
        text,
        table(["core", "type", "networks", "mavcg / fastest peer, geometric mean", "largest"], means),
        "Millions of cycles:",
        table(["core", "network", "type", "mavcg", *PEERS, "mavcg / fastest", "fastest peer"], cycles),
        "What was executed, in millions:",
        table([*_PLACE, *_COUNTS], details),
    ]
    if failed:
        parts += ["What does not count:", table([*_PLACE, "reason"], failed)]
    return "\n\n".join(parts)


def _details(row: Record) -> list[object]:
    millions = (
        [row["instructions"], row["misses"]["l1"], row["lines_read"]] if "misses" in row else [row["instructions"]]
    )
    cells = [f"{n / _MILLION:.2f}" for n in millions]
    if "misses" in row:
        cells += [f"{100 * row[key] / row['instructions']:.2f}" for key in ("unmodelled", "unknown_addresses")]
    return [*_place(row), *cells, *[""] * (5 - len(cells))]


def _place(row: Record) -> list[object]:
    return [row["core"], row["net"], row["dtype"], row["runtime"]]


def _reason(row: Record) -> str:
    return str(row["error"]) if "error" in row else f"other outputs: {row['difference']:.1e} of the largest element"


TABLES = {"arm_peers": ("Other runtimes' Arm builds beside mavcg on simulated cores", arm_peers)}
