"""Measure a core of this machine with small loops: clock, multiply-adds, bandwidth of each cache.

The loops are LLVM IR that is compiled in this process for this machine: no file, and no compiler to start. Each is run
many times for less than a scheduler's time slice, so that some runs are undisturbed even on a busy machine. For figures
of the core alone the best run counts, for caches and memories the first decile. On a machine where a dozen processes
shared the CPU, medians were once a fifth of the true figures, and plans made with them took 3 to 5 percent longer.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

CHAIN = 32  # dependent operations of one cycle each in a iteration of the clock's loop
GROUP = 8  # vectors that a iteration of the reading loop loads
ALIGN = 64
RUN_NS = 300_000  # long beside the timer's resolution and a call by ctypes, short beside a scheduler's time slice
SPENT_NS = 12_000_000  # on each figure: of 40 runs some are undisturbed where a dozen processes share two CPUs
UNDISTURBED = 0.1  # of the runs are taken to be, at least
CHUNK_BYTES = 1 << 21  # of a large memory in one run
WARM_PASSES = 2  # over a large memory, unmeasured: lines that were just written came at 17 GB/s twice, then at 30

Entry = Callable[..., object]
Memory = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Probe:
    """The compiled loops for vectors of one length; engine keeps their code alive."""

    vector_bytes: int
    accumulators: int
    chain: Entry
    fma: Entry
    read: Entry
    engine: object


@cache
def compile_probe(vector_bytes: int, registers: int) -> Probe:
    """Compile the loops. vector_bytes: length of vectors. registers: number of the core's vector registers."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    accumulators = registers - 4  # two hold the factors; at least 12 are in flight: 2 pipes and 6 cycles
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )
    module = llvm.parse_assembly(_chain_ir() + _fma_ir(vector_bytes // 4, accumulators) + _read_ir(vector_bytes // 4))
    module.triple = machine.triple
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()

    def entry(name: str, *arguments: type) -> Entry:
        made: Entry = ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)(engine.get_function_address(name))
        return made

    whole, pointer = ctypes.c_int64, ctypes.c_void_p
    return Probe(
        vector_bytes,
        accumulators,
        entry("chain", whole, whole, whole),
        entry("fma", whole, ctypes.c_float, ctypes.c_float),
        entry("read", pointer, whole, whole),
        engine,
    )


def clock_ghz(probe: Probe) -> float:
    """Return the clock of this thread's core in GHz, from a chain of additions and exclusive ors of one cycle each."""
    return CHAIN / min(_ns_per_iteration(lambda iterations: probe.chain(iterations, 3, 5)))


def fma_gvectors_per_s(probe: Probe) -> float:
    """Return the rate of f32 vector multiply-adds, in 10^9 vectors per second."""
    return probe.accumulators / min(_ns_per_iteration(lambda iterations: probe.fma(iterations, 0.999, 0.001)))


def written_memory(size_bytes: int) -> Memory:
    """Allocate memory and write to it, because pages that were never written are all the same page of zeros."""
    return np.full(size_bytes, 1, dtype=np.uint8)


def read_gb_per_s(probe: Probe, memory: Memory) -> float:
    """Return the bandwidth of repeated reads from this memory, in 10^9 bytes per second."""
    start, groups = _aligned_range(memory, probe)
    group_bytes = GROUP * probe.vector_bytes
    probe.read(start, groups, 1)
    if memory.nbytes <= CHUNK_BYTES:
        return (
            groups
            * group_bytes
            / _undisturbed_figure(_ns_per_iteration(lambda iterations: probe.read(start, groups, iterations)))
        )
    for _ in range(WARM_PASSES):
        probe.read(start, groups, 1)
    return 1 / _undisturbed_figure(_ns_per_byte(probe, memory, 2 * SPENT_NS))


def read_together_gb_per_s(probe: Probe, parts: Mapping[int, Memory], pin: Callable[[int], None]) -> float:
    """Return the total bandwidth of simultaneous reads, in 10^9 bytes per second.

    parts: memory that each CPU reads. pin: binds the calling thread to a CPU.
    """
    barrier = threading.Barrier(len(parts))
    rates: list[float] = []

    def work(cpu: int) -> None:
        pin(cpu)
        barrier.wait()
        rates.append(1 / _undisturbed_figure(_ns_per_byte(probe, parts[cpu], 4 * SPENT_NS)))

    threads = [threading.Thread(target=work, args=(cpu,)) for cpu in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def _undisturbed_figure(times: list[float]) -> float:
    """Return the first decile of the times: the longest of the quickest tenth."""
    return sorted(times)[int(UNDISTURBED * (len(times) - 1))]


def _ns_per_byte(probe: Probe, memory: Memory, spend_ns: int) -> list[float]:
    """Return nanoseconds per byte for each chunk of this memory, read in order until spend_ns have passed."""
    start, groups = _aligned_range(memory, probe)
    group_bytes = GROUP * probe.vector_bytes
    step = min(groups, CHUNK_BYTES // group_bytes)
    ns_per_byte: list[float] = []
    ends_ns = time.perf_counter_ns() + spend_ns
    while not ns_per_byte or time.perf_counter_ns() < ends_ns:
        for first in range(0, groups - step + 1, step):
            began = time.perf_counter_ns()
            probe.read(start + first * group_bytes, step, 1)
            ns_per_byte.append((time.perf_counter_ns() - began) / (step * group_bytes))
    return ns_per_byte


def _aligned_range(memory: Memory, probe: Probe) -> tuple[int, int]:
    """Return the first aligned address, and the number of groups of vectors from there."""
    start = -(-memory.ctypes.data // ALIGN) * ALIGN
    left = memory.ctypes.data + memory.nbytes - start
    return start, left // (GROUP * probe.vector_bytes)


def _ns_per_iteration(run: Callable[[int], object]) -> list[float]:
    """Return nanoseconds per iteration for each of many runs."""
    iterations = 1
    while True:
        ns = min(_ns(run, iterations) for _ in range(3))  # the first may wait for the CPU that the thread was bound to
        if ns >= RUN_NS / 4:
            break
        iterations *= 4
    iterations = max(1, round(iterations * RUN_NS / ns))
    return [_ns(run, iterations) / iterations for _ in range(max(3, SPENT_NS // RUN_NS))]


def _ns(run: Callable[[int], object], iterations: int) -> int:
    began = time.perf_counter_ns()
    run(iterations)
    return time.perf_counter_ns() - began


def _chain_ir() -> str:
    steps = []
    for i in range(0, CHAIN, 2):
        steps.append(f"  %s{i} = add i64 %{'x' if i == 0 else f's{i - 1}'}, %y")
        steps.append(f"  %s{i + 1} = xor i64 %s{i}, %z")
    body = "\n".join(steps)
    return f"""
define i64 @chain(i64 %iterations, i64 %y, i64 %z) {{
entry:
  br label %loop
loop:
  %iteration = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x = phi i64 [ %y, %entry ], [ %s{CHAIN - 1}, %loop ]
{body}
  %next = add i64 %iteration, 1
  %more = icmp slt i64 %next, %iterations
  br i1 %more, label %loop, label %end
end:
  ret i64 %s{CHAIN - 1}
}}
"""


def _fma_ir(lanes: int, accumulators: int) -> str:
    vector = f"<{lanes} x float>"
    # Accumulators that began alike would be one.
    starts = [f"<{', '.join(f'float {i + 1}.0' for _ in range(lanes))}>" for i in range(accumulators)]
    phis = "\n".join(f"  %a{i} = phi {vector} [ {starts[i]}, %entry ], [ %n{i}, %loop ]" for i in range(accumulators))
    call = f"call {vector} @llvm.fma.v{lanes}f32"
    steps = "\n".join(f"  %n{i} = {call}({vector} %a{i}, {vector} %f, {vector} %g)" for i in range(accumulators))
    sums = ["  %t0 = bitcast " + vector + f" %n0 to <{lanes} x i32>"]
    for i in range(1, accumulators):
        sums.append(f"  %b{i} = bitcast {vector} %n{i} to <{lanes} x i32>")
        sums.append(f"  %t{i} = xor <{lanes} x i32> %t{i - 1}, %b{i}")
    return f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
define i64 @fma(i64 %iterations, float %x, float %y) {{
entry:
  %f0 = insertelement {vector} undef, float %x, i32 0
  %f = shufflevector {vector} %f0, {vector} undef, <{lanes} x i32> zeroinitializer
  %g0 = insertelement {vector} undef, float %y, i32 0
  %g = shufflevector {vector} %g0, {vector} undef, <{lanes} x i32> zeroinitializer
  br label %loop
loop:
  %iteration = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{steps}
  %next = add i64 %iteration, 1
  %more = icmp slt i64 %next, %iterations
  br i1 %more, label %loop, label %end
end:
{chr(10).join(sums)}
  %low = extractelement <{lanes} x i32> %t{accumulators - 1}, i32 0
  %wide = zext i32 %low to i64
  ret i64 %wide
}}
"""


def _read_ir(lanes: int) -> str:
    vector = f"<{lanes} x i32>"
    phis, steps, sums = [], [], []
    for i in range(GROUP):
        phis.append(f"  %a{i} = phi {vector} [ %o{i}, %pass ], [ %n{i}, %loop ]")
        steps.append(f"  %p{i} = getelementptr {vector}, ptr %at, i64 {i}")
        steps.append(f"  %v{i} = load {vector}, ptr %p{i}, align {lanes * 4}")
        steps.append(f"  %n{i} = or {vector} %a{i}, %v{i}")
        sums.append(f"  %t{i} = or {vector} {'zeroinitializer' if i == 0 else f'%t{i - 1}'}, %n{i}")
    kept = "\n".join(f"  %o{i} = phi {vector} [ zeroinitializer, %entry ], [ %n{i}, %done ]" for i in range(GROUP))
    return f"""
define i64 @read(ptr %start, i64 %groups, i64 %iterations) {{
entry:
  br label %pass
pass:
  %iteration = phi i64 [ 0, %entry ], [ %again, %done ]
{kept}
  br label %loop
loop:
  %group = phi i64 [ 0, %pass ], [ %next, %loop ]
  %at = phi ptr [ %start, %pass ], [ %after, %loop ]
{chr(10).join(phis)}
{chr(10).join(steps)}
  %after = getelementptr {vector}, ptr %at, i64 {GROUP}
  %next = add i64 %group, 1
  %more = icmp slt i64 %next, %groups
  br i1 %more, label %loop, label %done
done:
  %again = add i64 %iteration, 1
  %rest = icmp slt i64 %again, %iterations
  br i1 %rest, label %pass, label %end
end:
{chr(10).join(sums)}
  %low = extractelement {vector} %t{GROUP - 1}, i32 0
  %wide = zext i32 %low to i64
  ret i64 %wide
}}
"""
