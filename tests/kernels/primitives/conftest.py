"""Assertions about a primitive on scenarios: given ones, and those that tests.kernels.primitives.cases generates."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import pytest

from mavcg.errors import MavcgError
from mavcg.lab.trials.check import CheckCase, Checked, check_all
from mavcg.lab.trials.emulation import qemu
from mavcg.lab.trials.run import find_machine
from mavcg.runtime.machines import block_of
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import Epilogue, Primitive, Scenario
from tests.kernels.primitives.cases import EPILOGUES, checked_scenarios, scenarios_of

# A scenario on which all primitives of a family with the same order of terms give the same bits.
SMALL = Scenario(3, 4, 6, 1, 3, 9, pad=1)
ALL_ENDS = Epilogue(bias=True, residual=True, act="leaky_relu", act_args=(0.125,))


machine_of = cache(find_machine)  # which finds out anew each time what this machine is


@pytest.fixture
def host() -> Machine:
    """This machine's first core."""
    return machine_of("host")


def host_block() -> int:
    """Channels of a block of CHWc in libraries for this machine."""
    return block_of(machine_of("host"))


def assert_right(cases: Sequence[CheckCase], machine: Machine, optimised: bool = True) -> list[Checked]:
    """Assert that every case agrees with the definition and touches no memory but its own; return the results."""
    return assert_all_ok(check_all(cases, machine, optimised), machine)


def assert_all_ok(results: Iterable[Checked], machine: Machine) -> list[Checked]:
    """Assert that results of a machine are within their bounds and without faults; return them as a list."""
    listed = []
    for result in results:
        case = result.case
        message = f"{case.primitive.name} {case.scenario} {case.epilogue} seed {case.seed} on {machine.name}"
        assert result.ok, f"{message}: error {result.max_error}, bound {result.bound}; {result.faults}"
        listed.append(result)
    return listed


def assert_agrees(primitive: Primitive, scenarios: Sequence[Scenario] | int) -> None:
    """Assert that a primitive agrees with the definition on this machine.

    scenarios: those to run, of which the primitive applies to at least one, or the number of generated ones.
    """
    chosen = scenarios_of(primitive, scenarios) if isinstance(scenarios, int) else scenarios
    applying = [scenario for scenario in chosen if primitive.applies(scenario)]
    assert applying, "the test has no scenario for this primitive"
    machine = machine_of("host")
    assert_all_ok(checked_scenarios(primitive, applying, machine), machine)


def assert_same_bits(primitive: Primitive, scenario: Scenario, emulated: bool = False) -> None:
    """Assert that a primitive's output has the same bits on all machines, for all vector lengths and ranges of rows.

    The machines are those whose code runs here and, where emulated is true, AArch64 cores: the test is skipped without
    their emulator. The code is optimised as in a library for this machine; for the others the IR goes straight into
    instructions, in a third of the time.
    """
    host, generic = machine_of("host"), machine_of("generic")
    machines = [host, generic, replace(generic, vector_bytes=16, vector_registers=32)]
    if host.arch == "x86_64":
        machines += [machine_of("haswell"), replace(generic, vector_bytes=64, vector_registers=32)]
        machines += _if_it_runs("znver3")
    if emulated and host.arch != "aarch64":
        if qemu() is None:
            pytest.skip("no qemu-aarch64")
        machines += [machine_of("cortex-a55"), machine_of("cortex-a76")]
    case = CheckCase(primitive, scenario, EPILOGUES[2], 7, block_of(host), ranges=False)
    results = [assert_right([case], machine, machine is host)[0] for machine in dict.fromkeys(machines)]
    results += assert_right([replace(case, ranges=True)], generic, optimised=False)
    assert len({result.bits for result in results}) == 1, "another core or other ranges of rows, other bits"


def _if_it_runs(core: str) -> list[Machine]:
    try:
        return [machine_of(core)]
    except MavcgError:
        return []


@cache
def small_result(primitive: Primitive, scenario: Scenario = SMALL) -> Checked:
    """The result of a primitive on the portable machine with a full epilogue, asserted to be right; computed once."""
    return assert_right([CheckCase(primitive, scenario, ALL_ENDS, 3)], machine_of("generic"), optimised=False)[0]
