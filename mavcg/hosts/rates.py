"""Measures what threads of this machine do at most at the same time: products by type, and bytes from each memory."""

import os
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mavcg.hardware.core import GENERIC
from mavcg.hosts.caches import Caches, first_threads, read_caches
from mavcg.hosts.facts import memory_bytes, pin, probe_sizes
from mavcg.hosts.peak_loops import peak_loop
from mavcg.hosts.probe import Memory, compile_probe, read_gb_per_s, written_memory
from mavcg.profiles.load import load_core
from mavcg.runtime.binding import detect, runnable_machine
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import Machine
from mavcg.toolchain.target import host_target

ROOT = Path("/")
LEVELS = ("l1", "l2", "l3", "memory")


@dataclass(frozen=True)
class MemoryRate:
    """A cache, or memory. size_bytes: of all caches of the threads together; None for memory. gb_per_s: by all."""

    name: str
    size_bytes: int | None
    gb_per_s: float


@dataclass(frozen=True)
class HostRates:
    """The highest rates of `threads` threads that run at the same time.

    products_per_s: multiply-adds by type. instructions: those that multiply. memories: from level 1 to memory.
    """

    threads: int
    products_per_s: dict[str, float]
    instructions: dict[str, str]
    memories: tuple[MemoryRate, ...]

    def read_s(self, size_bytes: float, touched_bytes: float) -> float:
        """Return the seconds to read bytes from the nearest memory that holds all that is touched between two reads."""
        holding = [m for m in self.memories if m.size_bytes is None or touched_bytes <= m.size_bytes]
        return size_bytes / (1e9 * (holding or self.memories[-1:])[0].gb_per_s)

    def as_json(self) -> dict[str, Any]:
        """Return the rates as `mavcg bench --limit --json` has them."""
        return asdict(self) | {"memories": [asdict(memory) for memory in self.memories]}


def measure_rates(threads: int, types: Collection[str]) -> HostRates:
    """Measure products of these types and reads, by threads that are each bound to a CPU; it takes about a second.

    More threads than CPUs count as one for each CPU. Raises: MavcgError for a type that a core does not compute in.
    """
    cpus = _cpus(threads)
    machines = [_machine(cpu) for cpu in cpus]
    products, instructions = dict[str, float](), dict[str, str]()
    for arithmetic in types:
        loops = [peak_loop(machine, arithmetic) for machine in machines]
        instructions[arithmetic] = loops[0].instruction
        products[arithmetic] = sum(_together(cpus, [loop.per_second for loop in loops]))
    return HostRates(threads, products, instructions, _memories(cpus, machines))


def _memories(cpus: Sequence[int], machines: Sequence[Machine]) -> tuple[MemoryRate, ...]:
    """Return each level's bandwidth, where every thread reads a part of its own."""
    caches = [read_caches(cpu) for cpu in cpus]
    _, each_bytes = memory_bytes(caches, len(cpus))
    parts = [written_memory(each_bytes) for _ in cpus]
    probes = [compile_probe(machine.vector_bytes, machine.vector_registers) for machine in machines]
    sizes = [{**probe_sizes(of_cpu, each_bytes), "memory": each_bytes} for of_cpu in caches]
    memories = []
    for level in (name for name in LEVELS if all(name in of_cpu for of_cpu in sizes)):
        # Level 3 is shared, so that each thread reads a part of it.
        read = [of_cpu[level] // (len(cpus) if level == "l3" else 1) for of_cpu in sizes]
        calls = [partial(read_gb_per_s, *each) for each in zip(probes, map(_first, parts, read), strict=True)]
        memories.append(MemoryRate(level, _held_bytes(level, caches), sum(_together(cpus, calls))))
    return tuple(memories)


def _first(memory: Memory, size_bytes: int) -> Memory:
    return memory[:size_bytes]


def _held_bytes(level: str, caches: Sequence[Caches]) -> int | None:
    """Return the bytes of a level that threads on CPUs with these caches have together; None for memory."""
    if level == "memory":
        return None
    if level == "l3":
        return max(of_cpu.l3_bytes or 0 for of_cpu in caches)
    return sum((of_cpu.l1d_bytes if level == "l1" else of_cpu.l2_bytes) or 0 for of_cpu in caches)


def _cpus(threads: int) -> list[int]:
    """Return a CPU for each thread, those of cores without another thread first."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    cores = first_threads(allowed, ROOT)
    return [*cores, *(cpu for cpu in allowed if cpu not in cores)][: max(1, threads)]


def _machine(cpu: int) -> Machine:
    """Return a CPU's core as this process may run code on it."""
    name = next((found.core for found in detect() if found.cpu == cpu and found.core), GENERIC)
    cores = () if name == GENERIC else (load_core(name),)
    return runnable_machine(machines_for(cores, host_target())[name])


def _together(cpus: Sequence[int], calls: Sequence[Callable[[], float]]) -> list[float]:
    """Return the results of calls at the same time, each in a thread that is bound to a CPU. Raises: what a call
    raises."""
    from concurrent.futures import ThreadPoolExecutor

    barrier = threading.Barrier(len(cpus))

    def work(cpu: int, call: Callable[[], float]) -> float:
        pin(cpu)
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(cpus)) as pool:
        return list(pool.map(work, cpus, calls))
