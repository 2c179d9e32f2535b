"""Facts of this machine's cores and memories: caches as Linux lists them; measured clock, multiply-adds and bandwidths.

They are measured once and kept in the user's store, by processor, cores and caches. A file that MAVCG_HOST_FACTS names
replaces them, so that a plan for this machine can be repeated, here or elsewhere.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

import mavcg.hosts.probe
from mavcg.errors import MavcgError
from mavcg.files.decode import decode, read_json
from mavcg.files.store import open_store
from mavcg.hardware.board import Cluster
from mavcg.hosts.caches import Caches, first_threads, processor_name, read_caches

VARIABLE = "MAVCG_HOST_FACTS"
LEAST_MEMORY_BYTES = 32 << 20  # a buffer that is no cache's, where no cache is listed
MOST_MEMORY_BYTES = 256 << 20
L3_OVER_L2 = 16  # most that is read of level 3, over level 2

Figure = Annotated[float, Meta(gt=0, lt=1e15)]
Count = Annotated[int, Meta(gt=0, lt=10**15)]


@dataclass(frozen=True)
class CoreFacts:
    """Facts of one cluster; None for an unknown fact.

    Figures are for one core that works alone; bandwidths are of reads, in 10^9 bytes per second.
    """

    core: Annotated[str, Meta(min_length=1, description="a core", examples=["a name of `mavcg cores`"])]
    cpus: Annotated[
        tuple[Annotated[int, Meta(ge=0)], ...],
        Meta(min_length=1, description="a list of CPU numbers", examples=["[0, 1]"]),
    ]
    max_khz: Count | None = None
    l1d_bytes: Count | None = None
    l2_bytes: Count | None = None
    l2_cores: Count | None = None
    l1_gb_per_s: Figure | None = None
    l2_gb_per_s: Figure | None = None
    l3_gb_per_s: Figure | None = None
    memory_gb_per_s: Figure | None = None
    fma_per_cycle: Figure | None = None


@dataclass(frozen=True)
class HostFacts:
    """Facts of this machine.

    processor: its own name. memory_gb_per_s: bandwidth of reads by all cores together, in 10^9 bytes per second.
    """

    processor: str
    clusters: Annotated[tuple[CoreFacts, ...], Meta(examples=['[{"core": .., "cpus": [..], ..}, ..]'])]
    l3_bytes: Count | None = None
    memory_gb_per_s: Figure | None = None


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
    store, key = open_store("host"), _key(clusters, root)
    kept = None if again else store.read(key, HostFacts)
    if kept is not None:
        return kept
    measured = measure(clusters, root)
    store.write(key, measured)
    return measured


def read_facts(path: Path) -> HostFacts:
    """Read facts from a JSON file as facts_json writes it.

    Raises: MavcgError naming file, key and remedy.
    """
    try:
        document = read_json(path, "name a JSON file of facts, or unset it")
    except MavcgError as error:
        raise MavcgError(f"{VARIABLE}={error}") from None
    return facts_of(document.value, f"{VARIABLE}={path}")


def facts_of(document: object, where: str) -> HostFacts:
    """Return facts from a parsed JSON document; `processor` may be left out. where: its name in errors.

    Raises: MavcgError naming the key, the value and the remedy.
    """
    document = {"processor": "", **document} if isinstance(document, dict) else document
    return decode(document, HostFacts, where, "correct it, or leave it out")


def facts_json(facts: HostFacts) -> str:
    """Return the text of a file for MAVCG_HOST_FACTS."""
    return json.dumps(asdict(facts), indent=2) + "\n"


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
    single_bytes, each_bytes = memory_bytes(list(caches.values()), len(cpus))
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
        together = _round_figure(probe.read_together_gb_per_s(_loops(clusters[0].core), parts, pin))
    elif measured:
        together = measured[0].memory_gb_per_s
    return HostFacts(processor_name(root), tuple(measured), l3_bytes, together)


def _measure_core(facts: CoreFacts, caches: Caches, cpu: int, memory: "mavcg.hosts.probe.Memory") -> CoreFacts:
    """Return the facts with figures that a thread bound to this CPU measures."""
    probe = mavcg.hosts.probe
    loops = _loops(facts.core)
    figures: dict[str, float | int] = {}

    def work() -> None:
        pin(cpu)
        ghz = probe.clock_ghz(loops)
        figures["max_khz"] = round(ghz * 1e6)
        figures["fma_per_cycle"] = _round_figure(probe.fma_gvectors_per_s(loops) / ghz)
        for level, size_bytes in probe_sizes(caches, len(memory)).items():
            figures[f"{level}_gb_per_s"] = _round_figure(probe.read_gb_per_s(loops, memory[:size_bytes]))

    _in_thread(work)
    return CoreFacts(**{**asdict(facts), "cpus": facts.cpus, **figures})


def probe_sizes(caches: Caches, memory_bytes: int) -> dict[str, int]:
    """Return, for each cache level, a size in bytes that fits in it and not in the level before.

    A level without such a size has none. Of a last level of hundreds of MiB, which machines share, L3_OVER_L2 times
    the level before are read: tensors are no larger, and other programs and guests leave so much alone. On a virtual
    machine with 480 MiB, 120 MiB gave 15 to 30 GB/s beside other programs, 32 MiB 29.3 to 29.8.
    """
    l1, l2, l3 = caches.l1d_bytes, caches.l2_bytes, caches.l3_bytes
    sizes: dict[str, int] = {}
    if l1 is not None:
        sizes["l1"] = l1 // 2
    if l2 is not None and l1 is not None and l2 >= 4 * l1:
        sizes["l2"] = l2 // 2
    if l3 is not None and l2 is not None and l3 >= 4 * l2:
        sizes["l3"] = min(max(2 * l2, min(l3 // 4, L3_OVER_L2 * l2)), memory_bytes)
    if memory_bytes >= 2 * max(l1 or 0, l2 or 0, l3 or 0):
        sizes["memory"] = memory_bytes
    return sizes


def memory_bytes(caches: Sequence[Caches], cpus: int) -> tuple[int, int]:
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
    from mavcg.profiles.load import load_core
    from mavcg.runtime.machines import machines_for
    from mavcg.toolchain.target import host_target

    cores = () if core == GENERIC else (load_core(core),)
    machine = machines_for(cores, host_target())[core]
    return mavcg.hosts.probe.compile_probe(machine.vector_bytes, machine.vector_registers)


def pin(cpu: int) -> None:
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


def _key(clusters: Sequence[Cluster], root: Path) -> str:
    """Return a key that is equal for the same processor, cores, caches and measuring code."""
    code = hashlib.sha256()
    for file in (__file__, str(mavcg.hosts.probe.__file__)):
        code.update(Path(file).read_bytes())
    cores = [(c.core, c.cpus, asdict(read_caches(c.cpus[0], root))) for c in clusters]
    return json.dumps([processor_name(root), cores, code.hexdigest()[:16]])


def _round_figure(value: float) -> float:
    """Round to three digits, because more would be noise."""
    return float(f"{value:.3g}")
