"""Primitives of all families on an emulated x86 core with AVX-512: right, and the same bits as on this machine."""

from dataclasses import replace

import pytest

from mavcg.errors import MavcgError
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.lab.trials.bare_x86 import bochs_there
from mavcg.lab.trials.check import CheckCase, check_all
from mavcg.lab.trials.emulation import emulator_missing, runs_here
from mavcg.lab.trials.run import find_machine
from mavcg.runtime.machines import block_of
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import Epilogue, Primitive, Scenario

# 3x3 with channels on both sides of a vector and an odd image; depthwise; 1x1 with a stride.
SCENARIOS = (
    Scenario(18, 7, 9, 1, 3, 35, pad=1),
    Scenario(24, 6, 7, 1, 3, 24, pad=1, groups=24),
    Scenario(20, 5, 9, 2, 1, 33),
)
ENDS = Epilogue(bias=True, residual=True, act="relu")


def sample(host: Machine, every_output: bool) -> list[CheckCase]:
    """The first of each class of primitives, or of each kind of output of these; the scenarios take turns."""
    cases: dict[tuple[type[Primitive], str], CheckCase] = {}
    for primitive in all_primitives():
        able = list(filter(primitive.applies, SCENARIOS))
        kind = type(primitive), primitive.layout_out if every_output else ""
        if able and kind not in cases:
            scenario = able[len(cases) % len(able)]
            cases[kind] = CheckCase(primitive, scenario, ENDS, 5, block_of(host), ranges=False)
    return list(cases.values())


@pytest.mark.long
@pytest.mark.skipif(not bochs_there(), reason="bochs is not installed")
@pytest.mark.parametrize("every_output", [False, pytest.param(True, marks=pytest.mark.long)])
def test_avx512_computes_the_same(host: Machine, every_output: bool) -> None:
    wide = find_machine("icelake-client")
    if host.arch != "x86_64":
        pytest.skip("blocks of channels are those of x86 libraries")
    assert wide.vector_bytes == 64 and wide.vector_registers == 32
    cases = sample(host, every_output)
    assert len({type(case.primitive) for case in cases}) >= 9 and {case.scenario for case in cases} == {*SCENARIOS}
    for mine, other in zip(check_all(cases, host, optimised=False), check_all(cases, wide), strict=True):
        assert other.ok and other.bits == mine.bits, f"{other.case}: {other.max_error} {other.faults}"


def test_what_is_emulated_is_said() -> None:
    assert runs_here(find_machine("generic"))
    newer = replace(find_machine("generic"), arch="x86_64", llvm_cpu="sapphirerapids")
    assert "older core" in emulator_missing(newer)
    if find_machine("host").arch == "x86_64" and not runs_here(newer):
        with pytest.raises(MavcgError, match="sapphirerapids.*does not run its code.*older core"):
            find_machine("sapphirerapids")
