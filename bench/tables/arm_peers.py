"""The tables of other runtimes' Arm builds beside mavcg's libraries on simulated cores."""

from collections.abc import Mapping
from math import exp, log

from bench.tables.markdown import Record, table

PEERS = ("onnxruntime", "litert", "ncnn", "mnn")
LARGEST_DIFFERENCES = {"f32": 1e-3, "f16": 3e-2}  # of outputs, relative to the largest element
_PLACE = ("core", "network", "type", "runtime")
_COUNTS = tuple(f"{name}, {of}" for name in ("instructions", "L1 misses", "lines read") for of in ("mavcg", "peer"))
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
    """Return cycles by network, core and runtime, their ratios, and what mavcg and the fastest peer executed."""
    cycles: list[list[object]] = []
    executed: list[list[object]] = []
    ratios_by_core: dict[tuple[str, str], list[float]] = {}
    for (core, network, dtype), runtimes in by_network(record).items():
        ratio, fastest = ratio_of(runtimes), fastest_peer(runtimes)
        if ratio is not None:
            ratios_by_core.setdefault((core, dtype), []).append(ratio)
        cells = [f"{runtimes[name]['cycles'] / _MILLION:.1f}" if name in runtimes else "" for name in ("mavcg", *PEERS)]
        last = ["" if ratio is None else f"{ratio:.2f}", fastest or "", runtimes.get("mavcg", {}).get("commit", "")]
        cycles.append([core, network, dtype, *cells, *last])
        if ratio is not None and fastest is not None:
            executed.append([core, network, dtype, *_executed(runtimes["mavcg"], runtimes[fastest])])
    means = [
        [core, dtype, len(ratios), f"{exp(sum(map(log, ratios)) / len(ratios)):.2f}", f"{max(ratios):.2f}"]
        for (core, dtype), ratios in ratios_by_core.items()
    ]
    failed = [[*_place(r), _reason(r)] for r in record["rows"] if not counts(r)]
    text = (
        "Simulated cycles and counted instructions of one run after two, one thread; the peers are their own builds "
        "for aarch64, in a root where they see the core. Each core has the caches, clock and memory of a board of it. "
        f"mavcg over the fastest peer: below 1, mavcg takes less. {_peers_origin(record)}{_unknown(record)}"
    )
    parts = [
        text,
        table(["core", "type", "networks", "mavcg / fastest peer, geometric mean", "largest"], means),
        "Millions of cycles; the commit is that of mavcg's row:",
        table(["core", "network", "type", "mavcg", *PEERS, "mavcg / fastest", "fastest peer", "commit"], cycles),
        "What mavcg and the fastest peer executed, in millions:",
        table(["core", "network", "type", *_COUNTS], executed),
    ]
    if failed:
        parts += ["What does not count:", table([*_PLACE, "reason"], failed)]
    return "\n\n".join(parts)


def _executed(*rows: Record) -> list[str]:
    columns = [[row["instructions"], row["misses"]["l1"], row["lines_read"]] for row in rows]
    return [f"{count / _MILLION:.2f}" for counts_of in zip(*columns, strict=True) for count in counts_of]


def _peers_origin(record: Record) -> str:
    """Return a sentence that says when peers were simulated: their rows are kept from run to run."""
    dates = sorted({row["date"] for row in record["rows"] if row["runtime"] != "mavcg"})
    return f"Peers: {' to '.join(dict.fromkeys((dates[0], dates[-1])))}. " if dates else ""


def _unknown(record: Record) -> str:
    """Return a sentence on what the simulator did not know, as the largest shares of a row's instructions."""
    rows = [row for row in record["rows"] if counts(row)]
    most = [
        max((100 * r[key] / r["instructions"] for r in rows), default=0) for key in ("unmodelled", "unknown_addresses")
    ]
    return f"At most {most[0]:.2f} % of a run's instructions have no facts, {most[1]:.2f} % no known address."


def _place(row: Record) -> list[object]:
    return [row["core"], row["net"], row["dtype"], row["runtime"]]


def _reason(row: Record) -> str:
    return str(row["error"]) if "error" in row else f"other outputs: {row['difference']:.1e} of the largest element"


TABLES = {"arm_peers": ("Other runtimes' Arm builds beside mavcg on simulated cores", arm_peers)}
