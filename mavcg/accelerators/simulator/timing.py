"""Compute an instruction's cycles, bytes and memory words, as in the manual's section on timing.

Work is without contention; progress_rates shares DDR memory and ports among instructions that run at the same time.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from mavcg.accelerators.isa.datapath import SUM_WORDS, Datapath, blocks
from mavcg.accelerators.isa.footprint import input_size
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.target import IsaTarget

# Cycles from issue to the first result, by unit: decoding, address generation and the depth of the pipeline.
STARTUP = {"load": 4, "save": 4, "conv": 16, "pool": 12, "misc": 12}
BEAT_BYTES = 16  # width of a port to the DDR memory (AXI, 128 bits)
QUEUE_DEPTH = 64  # maximum instructions in a unit's queue
SCALE = 1 << 16  # parts of a cycle of compute work, and of a byte of transfers: rates are integers
FETCH_BYTES = 4096  # size of a fetch of code; the dispatcher has two buffers of this size


@dataclass(frozen=True)
class Work:
    """Demands of an instruction on its unit, the DDR memory and feature memory.

    cycles: cycles of its unit, including start-up; for load and save, the start-up only. ddr_bytes: DDR traffic in
    whole beats. conflict_cycles: those of the cycles that are lost because rows of the array need the same bank.
    read_words, write_words: words of feature memory.
    """

    cycles: int
    ddr_bytes: int = 0
    conflict_cycles: int = 0
    read_words: int = 0
    write_words: int = 0


def work_of(instruction: AccelInstruction, path: Datapath, target: IsaTarget) -> Work:
    """Return the demands of an instruction."""
    v, form = instruction.values, instruction.form
    start = STARTUP[form.unit]
    if form.name in ("load.map", "save.map"):
        words = v["rows"] * v["columns"] * blocks(v["channels"], path.word)
        read, write = (0, words) if form.unit == "load" else (words, 0)
        return Work(start, map_bytes(instruction, target.ddr_burst_bytes), 0, read, write)
    if form.name == "load.parameters":
        return Work(start, whole_bursts(v["words"] * path.weight_word, target.ddr_burst_bytes))
    if form.unit == "conv":
        return _conv(instruction, path, start)
    if form.unit == "pool":
        taps, words = v["kernel_rows"] * v["kernel_columns"], blocks(v["channels"], path.word)
        out = v["out_rows"] * v["out_columns"] * words
        cycles = start + blocks(out * path.word * taps, target.pool_parallel)
        return Work(cycles, 0, 0, out * taps, out)
    if form.name in ("misc.start", "misc.end"):
        return Work(start)
    if form.name == "misc.eltwise":
        words = v["rows"] * v["columns"] * blocks(v["channels"], path.word)
        read = words * (1 if v["op"] == 5 else 2)
    else:
        factor = v["factor_rows"] * v["factor_columns"] if form.mode == "reorganise" else 1
        words = v["out_rows"] * v["out_columns"] * blocks(v["channels"] * factor, path.word)
        rows, columns = input_size(instruction)
        read = rows * columns * blocks(v["channels"], path.word)
    return Work(start + blocks(words * path.word, target.misc_parallel), 0, 0, read, words)


def map_bytes(instruction: AccelInstruction, burst: int = 1) -> int:
    """Return the bytes that load.map or save.map moves, each contiguous run of the DDR memory in whole bursts.

    burst: bytes of a burst.
    """
    v = instruction.values
    pixels, row = v["rows"] * v["columns"], v["columns"] * v["channels"]
    if v["ddr_pixel"] != v["channels"] and pixels > 1:
        return pixels * whole_bursts(v["channels"], burst)
    if v["ddr_row"] != row and v["rows"] > 1:
        return v["rows"] * whole_bursts(row, burst)
    return whole_bursts(v["rows"] * row, burst)


def whole_bursts(count: int, burst: int) -> int:
    """Return the bytes of the bursts that a contiguous run of bytes takes."""
    return blocks(count, burst) * burst


def _conv(instruction: AccelInstruction, path: Datapath, start: int) -> Work:
    v = instruction.values
    out_blocks = blocks(v["out_channels"], path.oc_lanes)
    if instruction.form.mode == "transposed":
        steps = _phase_steps(
            v["out_rows"], v["stride_rows"], v["pad_top"], v["kernel_rows"], v["dilation_rows"], path.row_lanes
        )
        steps *= _phase_steps(
            v["out_columns"], v["stride_columns"], v["pad_left"], v["kernel_columns"], v["dilation_columns"], 1
        )
        stride = 1  # rows of one phase read neighbouring rows
    else:
        steps = blocks(v["out_rows"], path.row_lanes) * v["out_columns"] * v["kernel_rows"] * v["kernel_columns"]
        stride = v["stride_rows"]
    steps *= out_blocks * (1 if instruction.form.mode == "depthwise" else blocks(v["channels"], path.word))
    conflict = bank_conflict(min(path.row_lanes, v["out_rows"]), stride * v["from_row"], path.banks)
    out_words = v["out_rows"] * v["out_columns"] * blocks(v["out_channels"], path.word)
    read = steps * min(path.row_lanes, v["out_rows"]) + (SUM_WORDS * out_words if v["accumulate"] else 0)
    write = out_words * (SUM_WORDS if v["partial"] else 1)
    return Work(start + steps * conflict, 0, steps * (conflict - 1), read, write)


@lru_cache(maxsize=4096)
def bank_conflict(lanes: int, distance: int, banks: int) -> int:
    """Return the largest number of the array's rows that read from the same bank in one cycle."""
    counts: dict[int, int] = {}
    for lane in range(lanes):
        bank = lane * distance % banks
        counts[bank] = counts.get(bank, 0) + 1
    return max(counts.values())


def _phase_steps(length: int, stride: int, pad: int, kernel: int, dilation: int, lanes: int) -> int:
    """Return the number of steps along one axis of a transposed convolution.

    Outputs whose positions are equal modulo the stride form a phase and use the same taps; a step computes `lanes`
    outputs of a phase. A phase without taps takes a step for the bias.
    """
    taps = Counter((tap * dilation - pad) % stride for tap in range(kernel))  # by the phase that uses them
    return sum(
        blocks(blocks(length - phase, stride), lanes) * max(1, taps[phase]) for phase in range(min(stride, length))
    )


@dataclass
class RunningWork:
    """An instruction in a unit. left: remaining parts of its work. wait: cycles of latency before the first part."""

    index: int
    work: Work
    start: int
    left: int
    wait: int


def progress_rates(
    compute: Sequence[RunningWork], moving: Sequence[RunningWork], ddr_rate: int, port_rate: int, port_words: int
) -> list[tuple[RunningWork, int]]:
    """Return the running instructions with the parts of work that each completes per cycle.

    Args:
        compute: instructions of the units that calculate.
        moving: transfers, which share `ddr_rate` parts of a byte per cycle evenly. Each has a port to the DDR memory,
            which moves at most `port_rate` of them.
        port_words: words that feature memory can read, and that it can write, per cycle.
    """
    share = min(ddr_rate // max(1, len(moving)), port_rate)
    rates = [(running, SCALE) for running in compute] + [(running, max(1, share)) for running in moving]
    # Words per cycle through all read ports and all write ports; if demand exceeds capacity, all rates are scaled down.
    reads = sum(running.work.read_words * rate * SCALE // _total(running) for running, rate in rates)
    writes = sum(running.work.write_words * rate * SCALE // _total(running) for running, rate in rates)
    demand, capacity = max(reads, writes), port_words * SCALE
    if demand > capacity:
        return [(running, max(1, rate * capacity // demand)) for running, rate in rates]
    return rates


def _total(running: RunningWork) -> int:
    """Return the number of parts of an instruction's whole work."""
    return max(1, (running.work.ddr_bytes or running.work.cycles) * SCALE)
