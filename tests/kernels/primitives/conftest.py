"""Scenarios around the edges of tiles, and what is asserted of a primitive on them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest

from mavcg.errors import MavcgError
from mavcg.kernel import Machine
from mavcg.primitive import Epilogue, Primitive, Scenario
from mavcg.primitive_check import Case, Checked, check_all
from mavcg.primitive_run import emulation_there, find_machine

EPILOGUES = (
    Epilogue(),
    Epilogue(bias=True),
    Epilogue(bias=True, residual=True, act="relu"),
    Epilogue(residual=True, act="sigmoid"),  # not 0 at 0: what fills up blocks is still zero
    Epilogue(bias=True, act="clip", act_args=(0.0, 6.0)),
)
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 31, 32, 33, 40, 48)
BLOCKS = {"x86_64": 16, "aarch64": 8}


def random_scenario(pick: random.Random) -> Scenario:
    """Any convolution of a few thousand to a few million terms."""
    k = pick.choice((1, 1, 2, 3, 3, 3, 4, 5, 7))
    stride, dilation = pick.choice((1, 1, 1, 2, 2, 3, 4)), pick.choice((1, 1, 1, 2, 3))
    pad = pick.choice((0, 0, k // 2, k // 2 * dilation, k))
    reach = (k - 1) * dilation + 1
    h = max(1, pick.randint(1, 9) * stride + reach - 1 - 2 * pad + pick.randint(0, stride - 1))
    w = max(1, pick.randint(1, 20) * stride + reach - 1 - 2 * pad + pick.randint(0, stride - 1))
    kind = pick.random()
    c, m, groups = pick.choice(CHANNELS), pick.choice(CHANNELS), 1
    if kind < 0.2:
        m = groups = c
    elif kind < 0.3:
        groups = pick.choice((2, 3, 4))
        c, m = c * groups, m * groups
    elif kind < 0.35:
        groups = 2
        c, m = 32, pick.choice((32, 64, 96))
    elif kind < 0.45:
        c = pick.choice((1, 3))
    elif kind < 0.5:
        c, m, h, w = 64, 128, min(h, 12), min(w, 9)  # many weights: rows of work are parts of the channels
    return Scenario(c, max(h, reach - 2 * pad), max(w, reach - 2 * pad), stride, k, m, pad, groups, dilation)


def scenarios_of(primitive: Primitive, count: int, seed: int = 0) -> list[Scenario]:
    """Different ones, that it applies to."""
    pick = random.Random(f"{primitive.name} {seed}")
    found: dict[Scenario, None] = {}
    for _ in range(500 * count):
        scenario = random_scenario(pick)
        if pick.random() < 0.5 and not primitive.applies(scenario):  # what special ones are made for is rare
            scenario = replace(scenario, **pick.choice(({"k": 1, "stride": 1, "pad": 0}, {"c": 3, "groups": 1})))
        if scenario.out_h > 0 < scenario.out_w and scenario.m % scenario.groups == 0 and primitive.applies(scenario):
            found[scenario] = None
        if len(found) == count:
            return list(found)
    raise AssertionError(f"{primitive.name}: applies to {len(found)} of {500 * count} scenarios only")


def cases_of(primitive: Primitive, scenarios: Sequence[Scenario], block: int) -> list[Case]:
    """With one epilogue after the other, rows all at once now and then."""
    return [
        Case(primitive, scenario, EPILOGUES[(i + len(primitive.name)) % len(EPILOGUES)], i, block, ranges=i % 4 != 3)
        for i, scenario in enumerate(scenarios)
    ]


def assert_right(cases: Sequence[Case], machine: Machine) -> list[Checked]:
    """Every case agrees with the definition, and touches no memory but its own."""
    found = check_all(cases, machine)
    for checked in found:
        case = checked.case
        words = f"{case.primitive.name} {case.scenario} {case.epilogue} seed {case.seed} on {machine.name}"
        assert checked.ok, f"{words}: error {checked.max_error}, bound {checked.bound}; {checked.faults}"
    return found


CheckPrimitive = Callable[..., None]


@pytest.fixture
def host() -> Machine:
    """This machine's first core."""
    return find_machine("host")


@pytest.fixture
def right() -> Callable[..., list[Checked]]:
    """right(cases, machine): assert_right."""
    return assert_right


@pytest.fixture
def check_primitive(host: Machine) -> CheckPrimitive:
    """check_primitive(primitive, scenarios): is right on these, or on so many generated ones."""

    def check(primitive: Primitive, scenarios: Sequence[Scenario] | int) -> None:
        chosen = scenarios_of(primitive, scenarios) if isinstance(scenarios, int) else scenarios
        applying = [scenario for scenario in chosen if primitive.applies(scenario)]
        assert applying, "the test has no scenario for this primitive"
        for case in cases_of(primitive, applying, BLOCKS[host.arch]):
            assert_right([case], host)

    return check


@pytest.fixture
def same_bits(host: Machine) -> CheckPrimitive:
    """same_bits(primitive, scenario): the same on all machines that can be run here, in any ranges of rows, for vectors
    of every length; AArch64's emulated cores among them where the emulator is there and emulated is true."""

    def compare(primitive: Primitive, scenario: Scenario, emulated: bool = False) -> None:
        generic = find_machine("generic")
        machines = [host, generic, replace(generic, vector_bytes=16, vector_registers=32)]
        if host.arch == "x86_64":
            machines += [find_machine("haswell"), replace(generic, vector_bytes=64, vector_registers=32)]
            machines += _if_it_runs("znver3")
        if emulated and host.arch != "aarch64":
            if not emulation_there():
                pytest.skip("no qemu-aarch64")
            machines += [find_machine("cortex-a55"), find_machine("cortex-a76")]
        case = Case(primitive, scenario, EPILOGUES[2], 7, BLOCKS[host.arch], ranges=False)
        found = [assert_right([case], machine)[0] for machine in dict.fromkeys(machines)]
        found += assert_right([replace(case, ranges=True)], generic)
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
    return check_all([Case(primitive, scenario, ALL_ENDS, 3)], find_machine("generic"))[0]
