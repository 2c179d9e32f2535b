"""Direct convolutions in register tiles, and those for special layers."""

from collections.abc import Callable

import pytest

from mavcg.kernel import Machine
from mavcg.kernels.primitives.direct_blocked import PRIMITIVES
from mavcg.primitive import Primitive, Scenario
from mavcg.trials.check import Case
from mavcg.trials.emulation import qemu
from mavcg.trials.run import find_machine

# Most without a border: that is one and the same kernel for all of them.
EDGES = (
    Scenario(5, 5, 7, 1, 3, 20, 1),
    Scenario(17, 4, 9, 2, 2, 8),
    Scenario(19, 3, 13, 1, 1, 24),
    Scenario(16, 4, 5, 1, 2, 33),
    Scenario(32, 3, 6, 1, 2, 32, 0, 2),
)
SPECIAL = {
    "1x1": (Scenario(19, 5, 7, 1, 1, 24), Scenario(9, 3, 3, 1, 1, 5), Scenario(24, 4, 24, 1, 1, 8)),
    "first": (Scenario(3, 7, 11, 2, 3, 20), Scenario(1, 6, 9, 1, 3, 7)),
    "depthwise": (Scenario(20, 5, 9, 1, 2, 20, 0, 20), Scenario(9, 7, 6, 2, 3, 9, 1, 9)),
}


def edges_of(number: int, primitive: Primitive) -> Scenario:
    kind = primitive.name.split("_")[2]
    found = SPECIAL.get(kind, EDGES)
    return found[number % len(found)]


# Every other one of a table of layouts in and out at once, so that each layout is there; the others take their time.
IN_TURN = [
    pytest.param(i, p, id=p.name, marks=[pytest.mark.long] if (i + i // 4) % 2 else [])
    for i, p in enumerate(PRIMITIVES)
]


@pytest.mark.parametrize(("number", "primitive"), IN_TURN)
def test_agrees_with_the_definition(check_primitive: Callable[..., None], number: int, primitive: Primitive) -> None:
    check_primitive(primitive, [edges_of(number, primitive)])


@pytest.mark.long
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_agrees_on_many_scenarios(check_primitive: Callable[..., None], primitive: Primitive) -> None:
    check_primitive(primitive, 200)


def test_bits_are_the_same_on_all_cores(same_bits: Callable[..., None]) -> None:
    same_bits(next(p for p in PRIMITIVES if p.name == "direct_blocked_depthwise_hwc_chwc"), SPECIAL["depthwise"][0])


@pytest.mark.long
@pytest.mark.parametrize(("number", "primitive"), list(enumerate(PRIMITIVES)), ids=[p.name for p in PRIMITIVES])
def test_bits_are_the_same_emulated(same_bits: Callable[..., None], number: int, primitive: Primitive) -> None:
    same_bits(primitive, edges_of(number, primitive), emulated=True)


def test_a_sample_is_right_on_an_emulated_core(right: Callable[..., None]) -> None:
    if qemu() is None:
        pytest.skip("no qemu-aarch64")
    names = ("direct_blocked_channels_hwc_hwc", "direct_blocked_columns_hcw_chw", "direct_blocked_depthwise_chwc_chwc")
    chosen = [(i, p) for i, p in enumerate(PRIMITIVES) if p.name in names]

    right([Case(p, edges_of(i, p), seed=i, block=8) for i, p in chosen], find_machine("cortex-a76"))


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16])
def test_every_length_of_blocks_is_right(right: Callable[..., None], host: Machine, block: int) -> None:
    primitive = next(p for p in PRIMITIVES if p.name == "direct_blocked_channels_chwc_chwc")

    right([Case(primitive, Scenario(7, 4, 5, 1, 2, 11, 1), block=block)], host)


def test_special_ones_refuse_other_layers() -> None:
    by_name = {primitive.name: primitive for primitive in PRIMITIVES}

    for name, wrong in (
        ("direct_blocked_1x1_hwc_hwc", Scenario(8, 9, 9, 2, 1, 8)),
        ("direct_blocked_1x1_hwc_hwc", Scenario(8, 9, 9, 1, 3, 8)),
        ("direct_blocked_1x1_hwc_hwc", Scenario(8, 9, 9, 1, 1, 8, 1)),
        ("direct_blocked_first_chw_hwc", Scenario(8, 9, 9, 1, 3, 8)),
        ("direct_blocked_depthwise_hwc_hwc", Scenario(8, 9, 9, 1, 3, 16, 1, 8)),
    ):
        assert not by_name[name].applies(wrong), (name, wrong)
