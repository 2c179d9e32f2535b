"""Draw scenarios around the edges of tiles for every primitive, and check primitives on them.

The long tests and `python -m bench.primitive_scenarios` run the same checks: each scenario on this machine, with its IR
compiled directly, and sometimes compiled as in a library too, which must not change a bit.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.lab.trials.check import CheckCase, Checked, check_all
from mavcg.runtime.machines import block_of
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import AxisWindow, Epilogue, Primitive, Scenario

EPILOGUES = (
    Epilogue(),
    Epilogue(bias=True),
    Epilogue(bias=True, residual=True, act="relu"),
    Epilogue(residual=True, act="sigmoid"),  # not 0 at 0: what fills up blocks is still zero
    Epilogue(bias=True, act="clip", act_args=(0.0, 6.0)),
)
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 31, 32, 33, 40, 48)
BLOCKS = (1, 2, 4, 8, 16)  # channels of CHWc's blocks that every primitive takes
# Changes of a scenario that make it one of those that special primitives are for.
_SPECIAL: tuple[dict[str, Any], ...] = (
    {"k": 1, "stride": 1, "pad": 0, "across": None},
    {"c": 3, "groups": 1},
    {"stride": 1, "dilation": 1, "groups": 1, "across": AxisWindow(1)},
)
OPTIMISED_EVERY = 20  # scenarios; compiling as for a library takes three times as long


def random_scenario(pick: random.Random) -> Scenario:
    """Draw a convolution of a few thousand to a few million terms."""
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
    h, w = max(h, reach - 2 * pad), max(w, reach - 2 * pad)
    made = Scenario(c, h, w, stride, k, m, pad, groups, dilation)
    if pick.random() < 0.25:
        made = _other_axis(made, pick)
    return replace(made, batch=pick.choice((2, 3))) if pick.random() < 0.1 else made


def _other_axis(scenario: Scenario, pick: random.Random) -> Scenario:
    """Return the scenario with another window along the rows, as in 1x7 and 7x1, and a wide enough image."""
    k = pick.choice((1, 1, 2, 3, 5, 7))
    along = AxisWindow(k, pick.choice((1, 1, scenario.stride, 2)), pick.choice((0, k // 2, k - 1)))
    if pick.random() < 0.3:
        along = replace(along, dilation=pick.choice((1, 2)))
    reach = (along.k - 1) * along.dilation + 1
    return replace(scenario, w=max(scenario.w, reach - 2 * along.pad, 2), across=along)


def scenarios_of(primitive: Primitive, count: int, seed: int = 0) -> list[Scenario]:
    """Return different scenarios that a primitive applies to. Raises: MavcgError if it applies to too few of many."""
    pick = random.Random(f"{primitive.name} {seed}")
    scenarios: dict[Scenario, None] = {}
    for _ in range(500 * count):
        scenario = random_scenario(pick)
        if pick.random() < 0.5 and not primitive.applies(scenario):  # what special ones are made for is rare
            scenario = replace(scenario, **pick.choice(_SPECIAL))
        if primitive.cost_scenario(
            replace(scenario, sparsity=50)
        ).sparsity:  # its time and its work depend on the zeros
            sparsity = pick.choice((0, 50, 90, 100))
            scenario = replace(scenario, sparsity=sparsity, block_sparsity=pick.choice((0, sparsity)))
        if scenario.out_h > 0 < scenario.out_w and scenario.m % scenario.groups == 0 and primitive.applies(scenario):
            scenarios[scenario] = None
        if len(scenarios) == count:
            return list(scenarios)
    raise MavcgError(
        f"{primitive.name}: applies to only {len(scenarios)} of {500 * count} random scenarios; request fewer"
    )


def _epilogue(primitive: Primitive, seed: int) -> Epilogue:
    return EPILOGUES[(seed + len(primitive.name)) % len(EPILOGUES)]


def cases_of(primitive: Primitive, scenarios: Sequence[Scenario], block: int) -> list[CheckCase]:
    """Return cases with varying epilogues, some of them with all rows in one call."""
    return [
        CheckCase(primitive, scenario, _epilogue(primitive, seed), seed, block, ranges=seed % 4 != 3)
        for seed, scenario in enumerate(scenarios)
    ]


def checked_scenarios(primitive: Primitive, scenarios: Sequence[Scenario], machine: Machine) -> Iterator[Checked]:
    """Yield the check of each scenario on a machine whose code this one runs.

    Workspace sizes are checked for every block length.
    """
    for number, case in enumerate(cases_of(primitive, scenarios, block_of(machine))):
        (checked,) = check_all([case], machine, optimised=False)
        faults = [*checked.faults, *workspace_faults(primitive, case.scenario)]
        if number % OPTIMISED_EVERY == 0:
            (optimised,) = check_all([case], machine)
            faults += [f"optimised: {fault}" for fault in optimised.faults]
            faults += ["optimised: other bits"] if optimised.bits != checked.bits else []
        yield replace(checked, faults=tuple(dict.fromkeys(faults)))


def workspace_faults(primitive: Primitive, scenario: Scenario) -> list[str]:
    """Return the lowerings, for any block length, that take more workspace than the primitive states."""
    s, stated = scenario, primitive.workspace_bytes(scenario)
    weights = np.zeros(s.weights_shape, np.float32)
    taken = {block: primitive.lower(s, weights, Epilogue(), block).workspace_bytes for block in BLOCKS}
    return [
        f"workspace: takes {n} bytes with blocks of {b}, but {stated} are stated"
        for b, n in taken.items()
        if n > stated
    ]
