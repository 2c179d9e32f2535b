"""Peaks and bandwidths of this machine: loops of products, and rates by threads."""

import re

import pytest

from mavcg.errors import MavcgError
from mavcg.hosts.peak_loops import ACCUMULATORS, ITERATIONS, peak_loop
from mavcg.hosts.rates import HostRates, MemoryRate, measure_rates
from tests.kernels.conftest import host_machines

HOST = host_machines()[-1]


@pytest.mark.parametrize("arithmetic", ["f32", "f64", "bf16", "i8", "i16"])
def test_a_loop_multiplies_in_each_iteration(arithmetic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No product is hoisted out of the loop or shared by sums: the code has one for each."""
    texts: list[str] = []
    monkeypatch.setattr("mavcg.hosts.peak_loops._compile", _recording(texts))
    loop = peak_loop(HOST, arithmetic, tiles=False)

    found = re.findall(rf"^\s+(?:{{vex}}\s*)?v?{loop.instruction.removeprefix('v')[:8]}", texts[0], re.MULTILINE)
    assert found and len(found) % ACCUMULATORS == 0  # smull takes two for 16 bytes
    assert loop.products % (ACCUMULATORS * ITERATIONS) == 0 and loop.per_second(0.001) > 0


def _recording(texts: list[str]) -> object:
    import llvmlite.binding as llvm

    from mavcg.hosts.peak_loops import _compile

    def compiled(text: str, machine: object) -> object:
        engine = _compile(text, HOST)
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=HOST.llvm_cpu, features=",".join(HOST.llvm_features), opt=2, jit=True
        )
        texts.append(target.emit_assembly(llvm.parse_assembly(text)))
        return engine

    return compiled


def test_the_peak_of_tiles() -> None:
    if not HOST.int8_tiles:
        pytest.skip("this processor has no AMX, or the system permits no tiles")
    assert peak_loop(HOST, "i8").instruction == "tdpbssd" and peak_loop(HOST, "i8").per_second(0.01) > 0


def test_a_type_that_the_machine_does_not_compute_in_is_refused() -> None:
    if HOST.half:
        pytest.skip("this processor computes in f16")
    with pytest.raises(MavcgError, match="does not compute in f16, so it has no peak of f16; build with --precision"):
        peak_loop(HOST, "f16")


def test_rates_of_threads() -> None:
    rates = measure_rates(2, ["f32", "i8"])

    assert rates.threads == 2 and set(rates.products_per_s) == set(rates.instructions) == {"f32", "i8"}
    assert all(rate > 0 for rate in rates.products_per_s.values())
    assert rates.memories[-1].name == "memory" and rates.memories[-1].size_bytes is None
    assert all(memory.size_bytes and memory.gb_per_s > 0 for memory in rates.memories[:-1])
    assert rates.as_json()["memories"][-1]["name"] == "memory"


def test_bytes_come_from_the_nearest_memory_that_holds_them() -> None:
    rates = HostRates(1, {}, {}, (MemoryRate("l2", 100, 2.0), MemoryRate("memory", None, 0.5)))

    assert rates.read_s(10, 100) == pytest.approx(5e-9) and rates.read_s(10, 101) == pytest.approx(20e-9)
