"""Facts of this machine's cores and memories: caches as Linux lists them; measured clock, multiply-adds and bandwidths.

They are measured once and kept in the user's cache folder (see schedule_store.py), by processor, cores and caches. A
file that MAVCG_HOST_FACTS names replaces them, so that a plan for this machine can be repeated, here or elsewhere.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import mavcg.hosts.probe
from mavcg.assembly.schedule_store import DiskStore, open_store
from mavcg.errors import MavcgError
from mavcg.hardware.board import Cluster
from mavcg.hosts.caches import Caches, first_threads, processor_name, read_caches

VARIABLE = "MAVCG_HOST_FACTS"
LEAST_MEMORY_BYTES = 32 << 20  # a buffer that is no cache's, where no cache is listed
MOST_MEMORY_BYTES = 256 << 20


@dataclass(frozen=True)
class CoreFacts:
    """Facts of one cluster; None for an unknown fact.

    Figures are for one core that works alone; bandwidths are of reads, in 10^9 bytes per second.
    """

    core: str
    cpus: tuple[int, ...]
    max_khz: int | None = None
    l1d_bytes: int | None = None
    l2_bytes: int | None = None
    l2_cores: int | None = None
    l1_gb_per_s: float | None = None
    l2_gb_per_s: float | None = None
    l3_gb_per_s: float | None = None
    memory_gb_per_s: float | None = None
    fma_per_cycle: float | None = None


@dataclass(frozen=True)
class HostFacts:
    """Facts of this machine.

    processor: its own name. memory_gb_per_s: bandwidth of reads by all cores together, in 10^9 bytes per second.
    """

    processor: str
    clusters: tuple[CoreFacts, ...]
    l3_bytes: int | None = None
    memory_gb_per_s: float | None = None


def host_facts(clusters: Sequence[Cluster], again: bool = False, root: Path = Path("/")) -> HostFacts:
    """Return the facts of this machine's clusters: from MAVCG_HOST_FACTS's file, kept from before, or measured now.

    Args:
        again: True to measure even if facts are kept.
        root: folder that stands for /, with sys/ and proc/.
    Raises: MavcgError for a faulty file of MAVCG_HOST_FACTS, and for an x86 core without AVX2 and FMA.
    """
    named = os.environ.get(VARIABLE, "")
    if named:
        return read_facts(Path(named))
    store = _store()
    key = _key(clusters, root)
    kept = store.read(key) if store is not None and not again else None
    if kept is not None:
        try:
            return facts_of(kept["facts"])
        except (KeyError, MavcgError):
            pass  # written by another version: measured anew
    measured = measure(clusters, root)
    if store is not None:
        store.write(key, {"facts": asdict(measured)})
    return measured


def read_facts(path: Path) -> HostFacts:
    """Read facts from a JSON file as facts_json writes it.

    Raises: MavcgError naming file, key and remedy.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise MavcgError(
            f"{VARIABLE}={path}: cannot be read: {error}; name a JSON file of facts, or unset it"
        ) from None
    try:
        return facts_of(document)
    except MavcgError as error:
        raise MavcgError(f"{VARIABLE}={path}: {error}") from None


def facts_json(facts: HostFacts) -> str:
    """Return the text of a file for MAVCG_HOST_FACTS."""
    return json.dumps(asdict(facts), indent=2) + "\n"


def facts_of(document: object) -> HostFacts:
    """Return facts from a parsed JSON document. Raises: MavcgError naming the key and the remedy."""
    table = _table(document, HostFacts, "")
    entries = table.pop("clusters", None)
    if not isinstance(entries, list):
        raise MavcgError('clusters: missing, or not a list; give [{"core": ..., "cpus": [...], ...}, ...]')
    processor = table.pop("processor", "")
    if not isinstance(processor, str):
        raise MavcgError(f"processor: {processor!r} is not text; give its name, or leave it out")
    clusters = []
    for number, entry in enumerate(entries):
        location = f"clusters[{number}]."
        figures = _table(entry, CoreFacts, location)
        core, cpus = figures.pop("core", None), figures.pop("cpus", None)
        if not isinstance(core, str) or not core:
            raise MavcgError(f"{location}core: {core!r} is not a core; give a name of `mavcg cores`")
        if not isinstance(cpus, list) or not cpus or not all(type(cpu) is int and cpu >= 0 for cpu in cpus):
            raise MavcgError(f"{location}cpus: {cpus!r} is not a list of CPU numbers; give them as [0, 1]")
        clusters.append(CoreFacts(core, tuple(cpus), **_figures(figures, location)))
    return HostFacts(processor, tuple(clusters), **_figures(table, ""))


def measure(clusters: Sequence[Cluster], root: Path = Path("/")) -> HostFacts:
    """Measure each cluster on its first CPU that this process may use, then the memory with all CPUs.

    It takes about a second.
    Raises: MavcgError for an x86 core without AVX2 and FMA.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    usable = {cluster: [cpu for cpu in cluster.cpus if cpu in allowed] for cluster in clusters}
    caches = {cluster: read_caches(cluster.cpus[0], root) for cluster in clusters}
    l3_bytes = max(
        (cache.l3_bytes for cache in caches.values() if cache.l3_bytes is not None),
        default=None,
    )
    cpus = first_threads([cpu for numbers in usable.values() for cpu in numbers], root)
    probe = mavcg.hosts.probe
    single_bytes, each_bytes = _memory_bytes(list(caches.values()), len(cpus))
    memory = probe.written_memory(max(single_bytes, each_bytes * len(cpus)))
    measured: list[CoreFacts] = []
    for cluster in clusters:
        known = caches[cluster]
        facts = CoreFacts(cluster.core, cluster.cpus, None, known.l1d_bytes, known.l2_bytes, known.l2_cores)
        cpu = next(iter(usable[cluster]), None)
        measured.append(facts if cpu is None else _measure_core(facts, known, cpu, memory[:single_bytes]))
    together = None
    if len(cpus) > 1:
        parts = {cpu: memory[number * each_bytes : (number + 1) * each_bytes] for number, cpu in enumerate(cpus)}
        together = _round_figure(probe.read_together_gb_per_s(_loops(clusters[0].core), parts, _pin))
    elif measured:
        together = measured[0].memory_gb_per_s
    return HostFacts(processor_name(root), tuple(measured), l3_bytes, together)


def _measure_core(facts: CoreFacts, caches: Caches, cpu: int, memory: "mavcg.hosts.probe.Memory") -> CoreFacts:
    """Return the facts with figures that a thread bound to this CPU measures."""
    probe = mavcg.hosts.probe
    loops = _loops(facts.core)
    figures: dict[str, float | int] = {}

    def work() -> None:
        _pin(cpu)
        ghz = probe.clock_ghz(loops)
        figures["max_khz"] = round(ghz * 1e6)
        figures["fma_per_cycle"] = _round_figure(probe.fma_gvectors_per_s(loops) / ghz)
        for level, size_bytes in _probe_sizes(caches, len(memory)).items():
            figures[f"{level}_gb_per_s"] = _round_figure(probe.read_gb_per_s(loops, memory[:size_bytes]))

    _in_thread(work)
    return CoreFacts(**{**asdict(facts), "cpus": facts.cpus, **figures})


def _probe_sizes(caches: Caches, memory_bytes: int) -> dict[str, int]:
    """Return, for each cache level, a size in bytes that fits in it and not in the level before.

    A level without such a size has none.
    """
    l1, l2, l3 = caches.l1d_bytes, caches.l2_bytes, caches.l3_bytes
    sizes: dict[str, int] = {}
    if l1 is not None:
        sizes["l1"] = l1 // 2
    if l2 is not None and l1 is not None and l2 >= 4 * l1:
        sizes["l2"] = l2 // 2
    if l3 is not None and l2 is not None and l3 >= 4 * l2:
        sizes["l3"] = min(max(2 * l2, l3 // 4), memory_bytes)
    if memory_bytes >= 2 * max(l1 or 0, l2 or 0, l3 or 0):
        sizes["memory"] = memory_bytes
    return sizes


def _memory_bytes(caches: Sequence[Caches], cpus: int) -> tuple[int, int]:
    """Return the bytes that one core reads alone, and the bytes that each of several cores reads at the same time.

    They are twice the largest cache, so that data are evicted before they are read again, and less if memory is short.
    Cores on several dies have several such caches, so each reads as much, unless the total is more than
    MOST_MEMORY_BYTES.
    """
    listed = [size for of_cpu in caches for size in (of_cpu.l1d_bytes, of_cpu.l2_bytes, of_cpu.l3_bytes) if size]
    size_bytes = min(max(2 * max(listed, default=0), LEAST_MEMORY_BYTES), MOST_MEMORY_BYTES)
    try:
        size_bytes = min(size_bytes, os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)
    except (ValueError, OSError, AttributeError):
        pass  # no such figure here: the size stays
    size_bytes = max(size_bytes, 1 << 20)
    return size_bytes, max(min(size_bytes, MOST_MEMORY_BYTES // max(cpus, 1)), 1 << 20)


def _loops(core: str) -> "mavcg.hosts.probe.Probe":
    """Return the measuring loops, with vectors of the length that kernels for this core use."""
    from mavcg.hardware.core import GENERIC
    from mavcg.kernels.machines import machines_for
    from mavcg.profiles.load import load_core
    from mavcg.toolchain.target import host_target

    cores = () if core == GENERIC else (load_core(core),)
    machine = machines_for(cores, host_target())[core]
    return mavcg.hosts.probe.compile_probe(machine.vector_bytes, machine.vector_registers)


def _pin(cpu: int) -> None:
    """Bind this thread to a CPU, if the system can."""
    if hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(0, {cpu})
        except OSError:
            return  # taken away in between: the figures are of another CPU then


def _in_thread(work: Any) -> None:
    """Run work in a new thread, whose CPU binding ends with it. Raises: what work raises."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def _store() -> DiskStore | None:
    opened = open_store()
    # The store of schedules is <root>/schedules/<fingerprint>; facts of the machine do not depend on the passes.
    return None if opened is None else DiskStore(opened.folder.parents[1] / "host")


def _key(clusters: Sequence[Cluster], root: Path) -> str:
    """Return a key that is equal for the same processor, cores, caches and measuring code."""
    code = hashlib.sha256()
    for file in (__file__, str(mavcg.hosts.probe.__file__)):
        code.update(Path(file).read_bytes())
    cores = [(c.core, c.cpus, asdict(read_caches(c.cpus[0], root))) for c in clusters]
    return json.dumps([processor_name(root), cores, code.hexdigest()[:16]])


def _table(document: object, kind: type[HostFacts] | type[CoreFacts], location: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise MavcgError(
            f"{location.rstrip('.') or 'the file'}: {str(document)[:40]!r} is not a table of facts; write {{ ... }}"
        )
    known = [entry.name for entry in fields(kind)]
    for key in document:
        if key not in known:
            raise MavcgError(f"{location}{key}: no such key; keys here are {', '.join(known)}")
    return dict(document)


def _figures(table: Mapping[str, Any], location: str) -> dict[str, Any]:
    """Return the figures of a table without nulls. Raises: MavcgError for a value that is not a number above 0."""
    for key, value in table.items():
        whole = key.endswith(("_bytes", "_cores", "_khz"))
        if value is not None and (type(value) not in ((int,) if whole else (int, float)) or not 0 < value < 1e15):
            kind = "whole number" if whole else "number"
            raise MavcgError(f"{location}{key}: {value!r} is not a {kind} above 0; correct it, or leave it out")
    return dict(table)


def _round_figure(value: float) -> float:
    """Round to three digits, because more would be noise."""
    return float(f"{value:.3g}")
