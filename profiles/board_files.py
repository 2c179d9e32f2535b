"""Read boards from their TOML files, which docs/add-a-board.md describes."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mavcg.errors import MavcgError
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.core import GENERIC
from mavcg.profiles import schema
from mavcg.profiles.schema import Table, refuse
from mavcg.toolchain.target import parse_target

BOARD_KEYS = ("name", "soc", "target", "source", "clusters", "l3_bytes", "memory_gb_per_s", "battery")
CLUSTER_KEYS = (
    "core",
    "cpus",
    "max_khz",
    "l1d_bytes",
    "l2_bytes",
    "l2_cores",
    "l3_bytes",
    "l2_gb_per_s",
    "l3_gb_per_s",
    "memory_gb_per_s",
    "caches",
)
# Facts in a cluster's table `caches`, with their units: they replace the facts in the core's own file ([caches]) and
# the assumptions about cores of its kind.
CACHE_FACTS = {
    "l1d_ways": "ways",
    "l2_ways": "ways",
    "l3_ways": "ways",
    "l2_latency": "cycles",
    "l3_latency": "cycles",
    "miss_slots": "lines",
    "prefetch_lines": "lines",
    "memory_ns": "ns",
}
MOST_OF_A_CACHE = 4096
_OF_A_CACHE = Annotated[float, Meta(ge=0, le=MOST_OF_A_CACHE)]

UNITS = {"_khz": "kHz", "_bytes": "bytes", "_cores": "cores", "_gb_per_s": "GB/s"}  # by the end of a key
# Far below and far above all real machines, so that a figure in the wrong unit (MHz or Hz, KB) is recognised.
RANGES = {"max_khz": (10_000, 100_000_000), "l2_cores": (1, 4096), "bytes": (1024, 1 << 40)}
NONE_AT_ALL = "l2_bytes"  # may be 0: the cores of this cluster have no level 2 of their own


def read_board(path: Path) -> Board:
    """Return a board from its TOML file. The audit checks that its cores exist.

    Raises: ProfileError naming file, key and remedy.
    """
    return _board(path, schema.read_text(path))


@lru_cache(maxsize=256)
def _board(path: Path, text: str) -> Board:
    """Return the board that a text describes. The result is kept, because each build looks through all boards."""
    table = schema.toml_of(path, text)
    schema.check_name(path, table)
    schema.only(path, table, BOARD_KEYS)
    target = schema.text(path, table, "target")
    try:
        parse_target(target)
    except MavcgError as error:
        raise refuse(path, "target", str(error).removeprefix(f"--target {target}: "), "as in --target") from None
    sources = [("clusters", schema.source_of(path, table, "source"))]
    clusters = tuple(
        _cluster(path, entry, f"clusters[{i}]", sources)
        for i, entry in enumerate(schema.tables(path, table, "clusters"))
    )
    if not clusters:
        raise refuse(path, "clusters", "missing", 'add [[clusters]] with core = "..." and cpus = "0-3"')
    cpus = [cpu for cluster in clusters for cpu in cluster.cpus]
    doubled = sorted({cpu for cpu in cpus if cpus.count(cpu) > 1})
    if doubled:
        raise refuse(path, "clusters", f"CPU {doubled[0]} is in two clusters", "give each CPU to one cluster")
    l3_bytes = _size(path, table, "l3_bytes", "l3_bytes", sources)
    own = next((i for i, cluster in enumerate(clusters) if cluster.l3_bytes is not None), None)
    if l3_bytes is not None and own is not None:
        wrong = "the board has one that all clusters share"
        raise refuse(path, f"clusters[{own}].l3_bytes", wrong, "give the one or the other")
    memory = _rate(path, table, "memory_gb_per_s", "memory_gb_per_s", sources)
    _refuse_contradictions(path, clusters, l3_bytes, memory)
    battery = schema.flag(path, table.get("battery", False), "battery", "write battery = true, or leave it out")
    soc = schema.text(path, table, "soc")
    return Board(table["name"], soc, target, clusters, tuple(sources), l3_bytes, memory, battery)


def parse_cpus(text: str) -> tuple[int, ...]:
    """Return the CPU numbers in a list of the Linux kernel: "0-3,6" is (0, 1, 2, 3, 6).

    Raises: ValueError for another text.
    """
    cpus: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        if match is None:
            raise ValueError(f"{part!r} is not a CPU number or range")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{part!r} runs backwards")
        cpus += range(first, last + 1)
    return tuple(cpus)


def _cluster(path: Path, entry: Table, key_path: str, sources: list[tuple[str, str]]) -> Cluster:
    schema.only(path, entry, CLUSTER_KEYS, f"{key_path}.")
    try:
        cpus = parse_cpus(schema.text(path, entry, "cpus", key_path=f"{key_path}.cpus"))
    except ValueError as error:
        raise refuse(
            path, f"{key_path}.cpus", str(error), 'write it as the kernel does, such as cpus = "0-3,6"'
        ) from None
    cluster = Cluster(schema.text(path, entry, "core", key_path=f"{key_path}.core"), cpus)
    if cluster.core == GENERIC:
        raise refuse(
            path, f"{key_path}.core", "generic is not a core of a board", "name the core; `mavcg cores` lists them"
        )
    return replace(
        cluster,
        max_khz=_size(path, entry, "max_khz", f"{key_path}.max_khz", sources),
        l1d_bytes=_size(path, entry, "l1d_bytes", f"{key_path}.l1d_bytes", sources),
        l2_bytes=_size(path, entry, "l2_bytes", f"{key_path}.l2_bytes", sources),
        l2_cores=_size(path, entry, "l2_cores", f"{key_path}.l2_cores", sources),
        l3_bytes=_size(path, entry, "l3_bytes", f"{key_path}.l3_bytes", sources),
        l2_gb_per_s=_rate(path, entry, "l2_gb_per_s", f"{key_path}.l2_gb_per_s", sources),
        l3_gb_per_s=_rate(path, entry, "l3_gb_per_s", f"{key_path}.l3_gb_per_s", sources),
        memory_gb_per_s=_rate(path, entry, "memory_gb_per_s", f"{key_path}.memory_gb_per_s", sources),
        caches=_caches(path, entry, f"{key_path}.caches", sources),
    )


def _caches(path: Path, entry: Table, key_path: str, sources: list[tuple[str, str]]) -> tuple[tuple[str, float], ...]:
    """Return the facts about caches that replace those of a cluster's core, as (key, value)."""
    table = schema.table_of(path, entry.get("caches", {}), key_path, "write [clusters.caches]")
    schema.only(path, table, tuple(CACHE_FACTS), f"{key_path}.")
    facts = []
    for key in table:
        value, at = schema.fact(path, table, key, sources, f"{key_path}.{key}"), f"{key_path}.{key}"
        figure: float = schema.value_as(path, at, value, _OF_A_CACHE, f"give it in {CACHE_FACTS[key]}")
        if (unit := table[key].get("unit", CACHE_FACTS[key])) != CACHE_FACTS[key]:
            wrong = f"{schema.value_text(unit)} is not the unit of {key}"
            raise refuse(path, f"{at}.unit", wrong, f"give the value in {CACHE_FACTS[key]}, and that unit or none")
        facts.append((key, figure))
    return tuple(facts)


def _size(path: Path, table: Table, key: str, key_path: str, sources: list[tuple[str, str]]) -> int | None:
    value = _fact(path, table, key, key_path, sources)
    if value is None:
        return None
    if key == NONE_AT_ALL and value == 0 and not isinstance(value, bool):
        return 0
    kind = key if key in RANGES else "bytes"
    return schema.whole(path, {key: value}, key, key_path, *RANGES[kind], unit=_unit(key))


def _rate(path: Path, table: Table, key: str, key_path: str, sources: list[tuple[str, str]]) -> float | None:
    value = _fact(path, table, key, key_path, sources)
    return None if value is None else schema.rate(path, value, key_path)


def _fact(path: Path, table: Table, key: str, key_path: str, sources: list[tuple[str, str]]) -> object:
    """Return the value of a fact, in the unit that its key names; None if it is absent."""
    value = schema.fact(path, table, key, sources, key_path)
    unit = _unit(key) if value is None else table[key].get("unit", _unit(key))
    if unit != _unit(key):
        wrong = f"{schema.value_text(unit)} is not the unit of {key}"
        raise refuse(path, f"{key_path}.unit", wrong, f"give the value in {_unit(key)}, and that unit or none")
    return value


def _unit(key: str) -> str:
    return next(unit for ending, unit in UNITS.items() if key.endswith(ending))


def _refuse_contradictions(
    path: Path, clusters: Sequence[Cluster], l3_bytes: int | None, memory_gb_per_s: float | None
) -> None:
    """Raise ProfileError for facts of a cluster that contradict each other."""
    for number, cluster in enumerate(clusters):
        key_path = f"clusters[{number}]"
        own_l3 = cluster.l3_bytes is not None
        caches = [
            (f"{key_path}.l1d_bytes", cluster.l1d_bytes),
            (f"{key_path}.l2_bytes", cluster.l2_bytes or None),
            (f"{key_path}.l3_bytes" if own_l3 else "l3_bytes", cluster.l3_bytes if own_l3 else l3_bytes),
        ]
        rates = [
            (f"{key_path}.l2_gb_per_s", cluster.l2_gb_per_s),
            (f"{key_path}.l3_gb_per_s", cluster.l3_gb_per_s),
            (f"{key_path}.memory_gb_per_s", cluster.memory_gb_per_s),
        ]
        _in_order(path, caches, "is less than the nearer cache's", "correct one of them")
        _in_order(path, rates[::-1], "is less than what is behind it gives", "correct one of them, or remove it")
        _in_order(
            path,
            [rates[-1], ("memory_gb_per_s", memory_gb_per_s)],
            "of all cores is less than one core's",
            "correct one of them, or remove it",
        )
        for key, value in (("l2_cores", cluster.l2_cores), ("l2_gb_per_s", cluster.l2_gb_per_s)):
            if cluster.l2_bytes == 0 and value is not None:
                raise refuse(path, f"{key_path}.{key}", "the cluster has no level 2: its l2_bytes = 0", "remove it")
        if cluster.l2_cores is not None and cluster.l2_cores > len(cluster.cpus):
            wrong = f"{cluster.l2_cores} cores share an L2, and the cluster has {len(cluster.cpus)} CPUs"
            raise refuse(path, f"{key_path}.l2_cores", wrong, f"correct it, or {key_path}.cpus")


def _in_order(path: Path, facts: Sequence[tuple[str, float | None]], wrong: str, remedy: str) -> None:
    """Raise ProfileError for a figure that is smaller than the one before it."""
    known = [(key_path, value) for key_path, value in facts if value is not None]
    for (before, least), (key_path, value) in pairwise(known):
        if value < least:
            raise refuse(path, key_path, f"{value} {wrong}, {before} = {least}", remedy)
