"""What is asserted of a primitive on scenarios: given ones, and those that mavcg.primitive_cases generates."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

import pytest

from mavcg.errors import MavcgError
from mavcg.kernel import Machine
from mavcg.primitive import Epilogue, Primitive, Scenario
from mavcg.trials.cases import EPILOGUES, checked_scenarios, scenarios_of
from mavcg.trials.check import Case, Checked, block_of, check_all
from mavcg.trials.emulation import qemu
from mavcg.trials.run import find_machine


def assert_right(cases: Sequence[Case], machine: Machine, optimised: bool = True) -> list[Checked]:
    """Every case agrees with the definition, and touches no memory but its own."""
    return all_right(check_all(cases, machine, optimised), machine)


def all_right(checked: Iterable[Checked], machine: Machine) -> list[Checked]:
    """The same of what was checked."""
    found = []
    for each in checked:
        case = each.case
        words = f"{case.primitive.name} {case.scenario} {case.epilogue} seed {case.seed} on {machine.name}"
        assert each.ok, f"{words}: error {each.max_error}, bound {each.bound}; {each.faults}"
        found.append(each)
    return found


CheckPrimitive = Callable[..., None]


@pytest.fixture
def host() -> Machine:
    """This machine's first core."""
    return find_machine("host")


@pytest.fixture
def right() -> Callable[..., list[Checked]]:
    """right(cases, machine[, optimised]): assert_right."""
    return assert_right


@pytest.fixture
def check_primitive(host: Machine) -> CheckPrimitive:
    """check_primitive(primitive, scenarios): is right on these, or on so many generated ones."""

    def check(primitive: Primitive, scenarios: Sequence[Scenario] | int) -> None:
        chosen = scenarios_of(primitive, scenarios) if isinstance(scenarios, int) else scenarios
        applying = [scenario for scenario in chosen if primitive.applies(scenario)]
        assert applying, "the test has no scenario for this primitive"
        all_right(checked_scenarios(primitive, applying, host), host)

    return check


@pytest.fixture
def same_bits(host: Machine) -> CheckPrimitive:
    """same_bits(primitive, scenario): the same on all machines that can be run here, in any ranges of rows, for vectors
    of every length; AArch64's emulated cores among them where the emulator is there and emulated is true. Compiled as
    in a library for this machine, for the others straight into instructions, in a third of the time."""

    def compare(primitive: Primitive, scenario: Scenario, emulated: bool = False) -> None:
        generic = find_machine("generic")
        machines = [host, generic, replace(generic, vector_bytes=16, vector_registers=32)]
        if host.arch == "x86_64":
            machines += [find_machine("haswell"), replace(generic, vector_bytes=64, vector_registers=32)]
            machines += _if_it_runs("znver3")
        if emulated and host.arch != "aarch64":
            if qemu() is None:
                pytest.skip("no qemu-aarch64")
            machines += [find_machine("cortex-a55"), find_machine("cortex-a76")]
        case = Case(primitive, scenario, EPILOGUES[2], 7, block_of(host), ranges=False)
        found = [assert_right([case], machine, machine is host)[0] for machine in dict.fromkeys(machines)]
        found += assert_right([replace(case, ranges=True)], generic, optimised=False)
        assert len({checked.bits for checked in found}) == 1, "another core or other ranges of rows, other bits"

    return compare


def _if_it_runs(core: str) -> list[Machine]:
    try:
        return [find_machine(core)]
    except MavcgError:
        return []


# For families whose primitives must all agree in their bits on one small scenario.
SMALL = Scenario(3, 4, 6, 1, 3, 9, pad=1)
ALL_ENDS = Epilogue(bias=True, residual=True, act="leaky_relu", act_args=(0.125,))


@cache
def computed(primitive: Primitive, scenario: Scenario = SMALL) -> Checked:
    """A primitive checked on the generic machine, once for all tests that ask."""
    return check_all([Case(primitive, scenario, ALL_ENDS, 3)], find_machine("generic"), optimised=False)[0]
