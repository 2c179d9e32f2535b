"""Cycles by the manual's formulas, worked out by hand; overlap, sharing, stalls and deadlocks of small programs."""

from dataclasses import replace

import pytest

from mavcg.accelerators.image.assembly import parse_instruction
from mavcg.accelerators.image.program import AccelProgram, AccelSegment
from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.simulator.timing import bank_conflict, work_of
from mavcg.accelerators.target import IsaTarget, find_target
from mavcg.errors import MavcgError
from tests.mavcg.accelerators.compiled import random_program

ZU2 = find_target("zu2")
# 1 byte a cycle, no latency: cycles are bytes.
SLOW = replace(ZU2, ddr_gb_per_s=0.33, ddr_latency_cycles=0)
CONV = (
    "conv.dense from=0 from_row=57 from_block=600 rows=10 columns=56 channels=64 to=9000 to_row=56 to_block=448 "
    "out_rows=8 out_columns=56 out_channels=128 kernel_rows=3 kernel_columns=3 stride_rows=1 stride_columns=1 "
    "dilation_rows=1 dilation_columns=1 pad_top=0 pad_left=1 parameters=0 lo=-128 hi=127 leaky=0 slope=0 zero=0 "
    "outside=0 accumulate=0 partial=0 sums=0"
)
MAP = "ddr=0 ddr_pixel=16 ddr_row=160 rows=10 columns=10 channels=16"
LOAD, SAVE = f"load.map {MAP} to=0 to_row=10 to_block=100", f"save.map {MAP} from=500 from_row=10 from_block=100"
POOL = (
    "from=0 from_row=10 from_block=100 rows=10 columns=10 channels=16 to=300 to_row=10 to_block=100 out_rows=10 "
    "out_columns=10 kernel_rows=3 kernel_columns=3 stride_rows=1 stride_columns=1 dilation_rows=1 dilation_columns=1 "
    "pad_top=1 pad_left=1 shift=0 lo=-128 hi=127 leaky=0 slope=0 zero=0"
)


def line(text: str, **changed: int) -> AccelInstruction:
    words = [
        f"{w.partition('=')[0]}={changed.pop(w.partition('=')[0])}" if w.partition("=")[0] in changed else w
        for w in text.split()
    ]
    assert not changed
    return parse_instruction(" ".join(words), "test")


def program(target: IsaTarget, *lines: str | AccelInstruction) -> AccelProgram:
    code = [parse_instruction(one, "test") if isinstance(one, str) else one for one in lines]
    return AccelProgram("test", target, tuple(code), b"", 1 << 20, (), (), (AccelSegment((), (), (), 0),))


def cycles(text: str | AccelInstruction, target: IsaTarget = ZU2) -> int:
    one = parse_instruction(text, "test") if isinstance(text, str) else text
    return work_of(one, datapath(target), target).cycles


def test_a_convolution_takes_whole_lanes() -> None:
    # 8 rows by 4, 56 columns, 9 positions, 64 channels by 12 is 6, 128 by 12 is 11.
    assert cycles(CONV) == 16 + 2 * 56 * 9 * 6 * 11
    assert cycles(line(CONV, out_rows=5)) == 16 + 2 * 56 * 9 * 6 * 11
    assert cycles(line(CONV, out_rows=4)) == 16 + 56 * 9 * 6 * 11


def test_a_depthwise_convolution_uses_a_channel_of_each_lane() -> None:
    text = CONV.replace("conv.dense", "conv.depthwise").replace("out_channels=128", "out_channels=64")

    assert cycles(text) == 16 + 2 * 56 * 9 * 6


def test_a_transposed_convolution_skips_positions_without_input() -> None:
    # Stride 2, kernel 4: every output meets 2 of 4 positions along each axis.
    text = line(
        CONV,
        kernel_rows=4,
        kernel_columns=4,
        stride_rows=2,
        stride_columns=2,
        out_rows=8,
        out_columns=10,
        channels=12,
        out_channels=12,
    )
    one = replace(text, form=parse_instruction(CONV.replace("dense", "transposed"), "t").form)

    assert cycles(one) == 16 + (2 * 1 * 2) * (10 * 2)


def test_rows_in_one_bank_conflict() -> None:
    assert bank_conflict(4, 57, 16) == 1
    assert bank_conflict(4, 8, 16) == 2
    assert bank_conflict(4, 16, 16) == 4
    assert cycles(line(CONV, from_row=64, from_block=700)) == 16 + 4 * 2 * 56 * 9 * 6 * 11


def test_pool_and_misc_take_elements_of_whole_words() -> None:
    # 100 pixels, 16 channels are 2 words of 12, 9 positions, 48 a cycle.
    assert cycles(f"pool.max {POOL}") == 12 + 100 * 24 * 9 // 48


def test_transfers_take_whole_bursts() -> None:
    """A burst has 64 bytes on zu2; each contiguous run takes whole ones by itself."""
    path = datapath(ZU2)

    def cycles_with(**changed: int) -> int:
        return work_of(line(LOAD, **changed), path, ZU2).ddr_bytes

    assert cycles_with() == 1600
    assert cycles_with(ddr_pixel=24, ddr_row=240) == 100 * 64  # a run of 16 bytes for each pixel
    assert cycles_with(ddr_pixel=96, ddr_row=960, channels=65) == 100 * 128
    assert cycles_with(ddr_row=999) == 10 * 192
    assert cycles_with(columns=9, ddr_row=160, channels=15, ddr_pixel=15) == 10 * 192


def test_one_transfer_takes_its_bytes() -> None:
    result = simulate(program(SLOW, LOAD))
    code = 40  # fetched first, at a byte a cycle

    assert result.ddr_bytes == 1600 + code
    # Code, 10 words through the dispatcher (the first passes at once), start-up, bytes.
    assert result.cycles == code + 4 + 1600
    assert result.busy["load"] == 1600


def test_load_and_save_share_the_bandwidth() -> None:
    alone, both = simulate(program(SLOW, LOAD)).cycles, simulate(program(SLOW, LOAD, SAVE)).cycles

    assert both >= 2 * 1600
    assert both - alone == pytest.approx(1600 + 40, abs=16)


def test_units_overlap_without_tokens_and_wait_with_them() -> None:
    conv = line(CONV, out_rows=4, out_columns=10, channels=12, out_channels=12)
    free = simulate(program(SLOW, LOAD, conv))
    waiting = simulate(program(SLOW, replace(line(LOAD), signal=0b100), replace(conv, wait=0b1)))

    assert waiting.cycles == free.cycles + 16 + 10 * 9  # in the other program it hides behind the load
    assert waiting.stalls["conv: waits for load"] > 1400


def test_a_deadlock_is_explained() -> None:
    conv = replace(line(CONV), wait=0b1)

    with pytest.raises(MavcgError, match=r"deadlock at cycle \d+: instruction 0 \(conv.dense\) waits for .* load"):
        simulate(program(ZU2, conv, LOAD))


def test_a_full_queue_that_blocks_is_explained() -> None:
    """65 instructions wait for a token that only an instruction behind them gives."""
    waiting = replace(line(CONV), wait=0b1)

    with pytest.raises(MavcgError, match="waits for room in its queue of 64"):
        simulate(program(ZU2, *[waiting] * 66, replace(line(LOAD), signal=0b100)))


def test_more_words_than_ports_slow_down() -> None:
    """Pool reads 4 words a cycle; two banks have two read ports."""
    narrow = replace(ZU2, banks=1)
    wide, slow = (simulate(program(t, f"pool.max {POOL}")).busy["pool"] for t in (ZU2, narrow))

    assert slow / wide == pytest.approx(1800 / 2 / 462, rel=0.01)


def test_cycles_are_deterministic_and_bounded_by_the_units() -> None:
    for seed in (3, 8, 17):
        made = random_program(seed)
        assert made is not None
        first, second = simulate(made[2]), simulate(made[2])

        assert first == second
        assert max(first.busy.values()) <= first.cycles <= sum(first.busy.values()) + sum(first.stalls.values())
        assert sorted(span.index for span in first.spans) == list(range(len(made[2].instructions)))


def test_ports_limit_each_direction_and_the_memory_both_together() -> None:
    """1600 bytes each, by ports of a byte a cycle, from a fast memory and from one of a byte and a half."""
    ports = replace(SLOW, ddr_gb_per_s=33.0, port_gb_per_s=0.33)
    memory = replace(ports, ddr_gb_per_s=0.495)

    one, two, both = (simulate(program(ports, *lines)).cycles for lines in ((LOAD,), (LOAD, LOAD), (LOAD, SAVE)))

    assert two - one == pytest.approx(1600, abs=60)  # and its code
    assert 0 <= both - one < 60  # at the same time, but for its code
    assert simulate(program(memory, LOAD, SAVE)).cycles - both == pytest.approx(3200 / 1.5 - 1600, abs=60)
    assert simulate(program(memory, LOAD)).cycles == one


def test_more_bandwidth_is_not_slower() -> None:
    """But for conflicts at the memory's ports when transfers move nearer: below 1 %."""
    made = random_program(8)
    assert made is not None
    times = [
        simulate(replace(made[2], target=replace(made[1], ddr_gb_per_s=rate))).cycles for rate in (0.05, 0.5, 5, 50)
    ]

    assert all(after < before * 1.01 for before, after in zip(times[:-1], times[1:], strict=True))
    assert times[0] > 2 * times[-1]
