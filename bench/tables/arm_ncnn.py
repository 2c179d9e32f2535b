"""The tables of ncnn's simulated networks beside the times that ncnn publishes."""

import tomllib
from collections.abc import Mapping, Sequence
from math import exp, log
from pathlib import Path

import numpy as np

from bench.tables.markdown import Record, table

FACTS = tomllib.loads(Path(__file__).parents[1].joinpath("arm_ncnn.toml").read_text(encoding="utf-8"))
LEAST_RANKED = 4  # networks from which on a rank correlation says something
_MILLION = 1e6


def published(core: str) -> list[Record]:
    """Return the published rows of boards with this core; the board that is simulated comes first."""
    rows = [row for row in FACTS["published"] if row["core"] == core]
    return sorted(rows, key=lambda row: "simulated" not in row)


def cycles_of(row: Record, network: str) -> float:
    """Return the cycles of a published time, at the clock that its section says."""
    return float(row["ms"][network] * row["ghz"] * _MILLION)


def simulated_cycles(record: Record) -> dict[str, dict[str, float]]:
    """Return the simulated cycles by core, then by network."""
    found: dict[str, dict[str, float]] = {}
    for row in record["rows"]:
        if "error" not in row:
            found.setdefault(row["core"], {})[row["net"]] = row["cycles"]
    return found


def mean_ratio(ratios: Sequence[float]) -> float:
    """Return the geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation of two lists, without ties."""
    ranks = [np.argsort(np.argsort(values)) for values in (first, second)]
    return float(np.asarray(np.corrcoef(ranks))[0, 1])


def arm_ncnn(record: Record) -> str:
    """Return bias, error and rank correlation by core, the ratios of little to big cores, and all networks."""
    found = simulated_cycles(record)
    text = (
        "Simulated cycles of ncnn's own networks in f32, one thread, over published time x the published clock. Bias: "
        "geometric mean of the ratios of the board that is simulated, less 1; error: mean distance from 1. Other "
        "boards: the geometric mean of their published cycles over that board's, least and most."
    )
    parts = [text, table(["core", "networks", "bias", "error", "rank correlation", "other boards"], _by_core(found))]
    little = _little_over_big(found)
    if little:
        parts += ["Time on an RK3399's A53 over that on its A72:", table(["network", "simulated", "published"], little)]
    networks = [
        [core, network, f"{cycles / _MILLION:.1f}", *_cells(core, network, cycles)]
        for core, by_network in found.items()
        for network, cycles in by_network.items()
    ]
    head = ["core", "network", "simulated", "published", "ratio", "other boards"]
    parts += ["Millions of cycles:", table(head, networks)]
    failed = [[row["core"], row["net"], row["error"]] for row in record["rows"] if "error" in row]
    if failed:
        parts += ["What was not simulated:", table(["core", "network", "reason"], failed)]
    return "\n\n".join(parts)


def _by_core(found: Mapping[str, Mapping[str, float]]) -> list[list[object]]:
    lines: list[list[object]] = []
    for core, by_network in found.items():
        own, *others = published(core)
        ratios = [cycles / cycles_of(own, network) for network, cycles in by_network.items()]
        error = sum(abs(ratio - 1) for ratio in ratios) / len(ratios)
        spread = [
            mean_ratio([cycles_of(row, n) / cycles_of(own, n) for n in by_network if n in row["ms"]]) for row in others
        ]
        ranked = len(ratios) >= LEAST_RANKED
        order = rank_correlation(list(by_network.values()), [own["ms"][name] for name in by_network]) if ranked else 0.0
        lines.append(
            [
                core,
                len(ratios),
                f"{100 * (mean_ratio(ratios) - 1):.1f}%",
                f"{100 * error:.1f}%",
                f"{order:.2f}" if ranked else "",
                f"{min(spread):.2f} to {max(spread):.2f}" if spread else "",
            ]
        )
    return lines


def _little_over_big(found: Mapping[str, Mapping[str, float]]) -> list[list[object]]:
    little, big = (published(core)[0] for core in ("cortex-a53", "cortex-a72"))
    clocks = big["ghz"] / little["ghz"]
    both = [name for name in found.get("cortex-a53", ()) if name in found.get("cortex-a72", ())]
    return [
        [
            name,
            f"{found['cortex-a53'][name] / found['cortex-a72'][name] * clocks:.2f}",
            f"{little['ms'][name] / big['ms'][name]:.2f}",
        ]
        for name in both
    ]


def _cells(core: str, network: str, cycles: float) -> list[object]:
    own, *others = published(core)
    here = cycles_of(own, network)
    more = sorted(cycles_of(row, network) / _MILLION for row in others if network in row["ms"])
    span = f"{more[0]:.1f} to {more[-1]:.1f}" if more else ""
    return [f"{here / _MILLION:.1f}", f"{cycles / here:.2f}", span]


TABLES = {"arm_ncnn": ("ncnn on simulated cores beside the times that it publishes", arm_ncnn)}
