"""Timing of primitives and conversions: what is timed, how often, and what is taken off."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from mavcg.errors import MavcgError
from mavcg.kernel import Machine
from mavcg.kernels.primitives.registry import find_primitive
from mavcg.primitive import Layout, Scenario
from mavcg.primitive_run import find_machine
from mavcg.selection import measured
from mavcg.selection.costs import Cost
from mavcg.selection.measured import Effort, measure, measure_conversion

SMALL = Scenario(8, 10, 10, 1, 3, 8, 1)
SHORT = Effort(rounds=5, least_ms=0.2, round_ms=0.02)


@dataclass
class Clock:
    """Stands at what the runs took."""

    now_ns: int = 0
    runs: int = 0
    takes_ns: list[int] = field(default_factory=list)

    def run(self) -> None:
        self.now_ns += self.takes_ns[self.runs % len(self.takes_ns)]
        self.runs += 1


def rounds(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, effort: Effort, evict: Callable[[], object] | None = None
) -> Cost:
    monkeypatch.setattr(time, "thread_time_ns", lambda: clock.now_ns)
    return measured._rounds(clock.run, effort, evict)


def test_the_median_of_rounds_and_the_spread_between_quartiles(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first run says how many make up a round; of the five rounds one is far off, and does not count.
    clock = Clock(takes_ns=[2_000_000, 3_000_000, 1_000_000, 2_000_000, 90_000_000, 4_000_000])
    found = rounds(monkeypatch, clock, Effort(5, 5.0, 1.0))
    assert (found.ms, found.spread_ms, found.runs, found.kind) == (3.0, 2.0, 5, "measured")


def test_short_runs_are_timed_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(takes_ns=[1_000])
    found = rounds(monkeypatch, clock, Effort(5, 5.0, 1.0))
    assert (found.ms, found.spread_ms, found.runs) == (0.001, 0.0, 5000)
    assert clock.runs == 5001


def test_rounds_go_on_until_enough_time_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rounds(monkeypatch, Clock(takes_ns=[100_000]), Effort(3, 5.0, 0.5))
    assert found.runs == 10 * 5


def test_cold_runs_are_single_and_what_evicts_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, evicted = Clock(takes_ns=[1_000_000]), []

    def evict() -> None:
        clock.now_ns += 7_000_000
        evicted.append(clock.runs)

    found = rounds(monkeypatch, clock, Effort(5, 5.0, 1.0), evict)
    assert (found.ms, found.runs, evicted) == (1.0, 5, [0, 1, 2, 3, 4])


@pytest.fixture(scope="module")
def host() -> Machine:
    return find_machine("host")


@pytest.mark.parametrize("name", ["sum2d_scalar_chw_chw", "direct_blocked_channels_hwc_chwc", "im2row_hwc_hwc"])
def test_a_primitive_takes_some_time(host: Machine, name: str) -> None:
    found = measure(SMALL, find_primitive(name), host, effort=SHORT)
    assert found.kind == "measured" and found.runs >= 5
    # 57,600 multiply-accumulates: no core does more than 64 a cycle at 6 GHz, none needs a millisecond by far.
    assert SMALL.macs / (64 * 6e6) < found.ms < 5


def test_more_work_takes_longer(host: Machine) -> None:
    primitive = find_primitive("sum2d_scalar_chw_chw")
    larger = Scenario(32, 20, 20, 1, 3, 16, 1)  # 32 times the work
    few, many = (measure(s, primitive, host, effort=SHORT).ms for s in (SMALL, larger))
    assert many > 8 * few


def test_cold_caches(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "COLD_BYTES", 1 << 20)
    found = measure(SMALL, find_primitive("im2row_hwc_hwc"), host, cold=True, effort=Effort(5, 0.0))
    assert found.ms > 0 and found.runs == 5


def test_a_conversion_takes_some_time(host: Machine) -> None:
    small, large = (measure_conversion(Layout.CHW, Layout.HWC, 16, n, n, host, effort=SHORT).ms for n in (8, 64))
    assert 0 < 4 * small < large


def test_what_does_not_apply_is_not_measured(host: Machine) -> None:
    with pytest.raises(MavcgError, match="does not compute"):
        measure(Scenario(8, 10, 10, 2, 3, 8), find_primitive("winograd_2d_f2_k3_hwc_hwc"), host)
    with pytest.raises(MavcgError, match="larger than the padded image"):
        measure(Scenario(8, 2, 2, 1, 3, 8), find_primitive("sum2d_scalar_chw_chw"), host)


def test_other_architectures_are_not_measured_here(host: Machine) -> None:
    other = Machine("other", "aarch64" if host.arch == "x86_64" else "x86_64", "generic")
    with pytest.raises(MavcgError, match="mavcg tune --export"):
        measure(SMALL, find_primitive("sum2d_scalar_chw_chw"), other)
