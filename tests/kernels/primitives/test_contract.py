"""The contract of a convolution primitive, tested for every entry of the registry.

A primitive agrees with the definition of a convolution within its error bound, writes nothing but its output and its
workspace, and gives the same bits on every machine, for any ranges of rows. The fast suite runs primitives that have
every kind of kernel, layout and edge scenario of their family, mostly without LLVM's optimisations; the long suite runs
every primitive on every edge, on generated scenarios, and on emulated cores. Tests of one family are in its folder.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import pytest

from mavcg.kernels.primitives.registry import all_primitives, find_primitive
from mavcg.kernels.primitives.winograd.family import WinogradPrimitive
from mavcg.lab.trials.check import CheckCase
from mavcg.lab.trials.emulation import qemu
from mavcg.specs.primitive import AxisWindow, Layout, Primitive, Scenario
from tests.kernels.primitives.cases import EPILOGUES, workspace_faults
from tests.kernels.primitives.conftest import (
    ALL_ENDS,
    SMALL,
    assert_agrees,
    assert_right,
    assert_same_bits,
    host_block,
    machine_of,
    small_result,
)

# Scenarios around the edges of tiles, vectors, blocks and chunks, by group of primitives.
EDGES: dict[str, tuple[Scenario, ...]] = {
    "sum2d": (
        Scenario(4, 9, 10, 2, 3, 6, 2, 2, 2),
        Scenario(5, 8, 8, 3, 2, 5, 0, 5),
        Scenario(3, 6, 17, 1, 3, 5, 1, across=AxisWindow(4, 2, 3, 2), batch=2),
    ),
    # Around vectors of 4, 8 and 16, blocks of 8 and 16, tiles and chunks.
    "direct": (
        Scenario(5, 4, 9, 1, 2, 17),
        Scenario(9, 5, 11, 2, 3, 8),
        Scenario(17, 3, 7, 1, 2, 20),
        Scenario(32, 2, 8, 1, 1, 32, 0, 2),
        Scenario(3, 9, 17, 3, 3, 5, 2, 1, 2),
        Scenario(6, 6, 11, 1, 1, 9, 0, across=AxisWindow(7, 2, 3)),
    ),
    # Most without a border: its kernel is the same for all primitives.
    "direct_blocked": (
        Scenario(5, 5, 7, 1, 3, 20, 1),
        Scenario(17, 4, 9, 2, 2, 8),
        Scenario(19, 3, 13, 1, 1, 24),
        Scenario(16, 4, 5, 1, 2, 33),
        Scenario(32, 3, 6, 1, 2, 32, 0, 2),
        Scenario(7, 9, 6, 1, 7, 18, 3, across=AxisWindow(1), batch=2),
    ),
    "direct_blocked_1x1": (Scenario(19, 5, 7, 1, 1, 24), Scenario(9, 3, 3, 1, 1, 5), Scenario(24, 4, 24, 1, 1, 8)),
    "direct_blocked_first": (Scenario(3, 7, 11, 2, 3, 20), Scenario(1, 6, 9, 1, 3, 7)),
    "direct_blocked_depthwise": (
        Scenario(20, 5, 9, 1, 2, 20, 0, 20),
        Scenario(9, 7, 6, 2, 3, 9, 1, 9),
        Scenario(20, 5, 12, 1, 1, 20, 0, 20, across=AxisWindow(5, 2, 2, 2)),
    ),
    "implicit": (
        Scenario(6, 7, 9, 2, 3, 20, 1, 2, across=AxisWindow(7, 1, 3), batch=3),
        Scenario(5, 6, 7, 1, 3, 32, 1, across=AxisWindow(1, 2), batch=2),
    ),
    "implicit_depthwise": (Scenario(20, 6, 9, 1, 3, 20, 1, 20, across=AxisWindow(1), batch=2),),
    "im2": (
        SMALL,
        Scenario(2, 2, 70, 1, 1, 3),  # a row of two pieces, the second shorter
        Scenario(60, 3, 3, 1, 3, 5, pad=1),  # blocks of terms
        Scenario(3, 4, 5, 1, 2, 70),  # few pixels, and so parts of the channels
        Scenario(6, 9, 11, 2, 3, 4, pad=2, groups=2, dilation=2),  # strided and dilated groups
        Scenario(1, 2, 3, 3, 2, 2, pad=4),  # a border wider than the kernel
        Scenario(2, 1, 2, 1, 5, 3, pad=2),  # a kernel larger than the image
        Scenario(4, 5, 9, 2, 1, 5, across=AxisWindow(7, 1, 3), batch=2),
        Scenario(6, 9, 5, 1, 5, 4, 2, 2, 2, across=AxisWindow(2, 3, 1)),
    ),
    "kn2": (
        SMALL,
        Scenario(3, 7, 19, 1, 4, 5),  # no border: all columns of taps are as wide
        Scenario(4, 5, 9, 1, 1, 5, across=AxisWindow(7, 1, 3), batch=2),
        Scenario(3, 9, 5, 1, 5, 6, 4, 1, 2, across=AxisWindow(2)),
        Scenario(9, 10, 10, 1, 1, 18),  # one tap
        Scenario(6, 5, 8, 1, 3, 9, pad=2, groups=3, dilation=2),
        Scenario(2, 3, 1, 1, 5, 2, pad=4),  # taps that see nothing but border
        Scenario(3, 20, 18, 1, 2, 70, pad=1),  # blocks of rows and parts of channels
        Scenario(3, 2, 2, 1, 5, 7, pad=5, dilation=2),  # columns of taps beyond the image
    ),
    "fft": (
        SMALL,
        Scenario(3, 3, 37, 1, 3, 2),  # tiles of a row
        Scenario(6, 5, 8, 1, 3, 9, pad=2, groups=3, dilation=2),
        Scenario(2, 3, 1, 1, 5, 2, pad=4),  # a narrow image
    ),
    "sparse": (
        Scenario(17, 5, 31, 1, 1, 33, sparsity=90),  # pixels of two pieces, where they are
        Scenario(19, 7, 23, 1, 1, 22, sparsity=90, block_sparsity=85),  # a last row of blocks with two channels
        Scenario(3, 9, 11, 2, 3, 6, 1, 1, 2, 50, across=AxisWindow(5, 1, 2), batch=2),
        Scenario(5, 4, 6, 1, 3, 9, 1, 1, 1, 100, 100),  # no weight at all
    ),
    # Sizes that are no multiple of a tile, channels of no vector.
    "winograd_k3": (
        Scenario(19, 9, 12, 1, 3, 21, 1),
        Scenario(17, 13, 15, 1, 3, 18, 1),
        Scenario(3, 1, 1, 1, 3, 2, 1),  # one output
        Scenario(17, 7, 9, 1, 3, 20, 1),
        Scenario(19, 11, 13, 1, 3, 21, 2),
        Scenario(4, 2, 3, 1, 3, 5, 7),  # a border of more than a tile
        Scenario(19, 11, 40, 1, 3, 21, 0),
        Scenario(16, 10, 14, 1, 3, 16),  # whole tiles, no border
        Scenario(3, 30, 34, 1, 3, 4, 1),  # several blocks
        Scenario(19, 14, 11, 1, 3, 150, 1),
        Scenario(5, 7, 11, 1, 1, 19, across=AxisWindow(3, pad=1)),
        Scenario(5, 9, 8, 1, 5, 18, 2, across=AxisWindow(3), batch=2),
    ),
    "winograd_k5": (
        Scenario(9, 8, 11, 1, 5, 19, 2),
        Scenario(18, 9, 10, 1, 5, 16, 2),
        Scenario(5, 9, 8, 1, 5, 33, 2),
        Scenario(8, 9, 13, 1, 5, 16, 4),
        Scenario(5, 6, 13, 1, 1, 19, across=AxisWindow(5, pad=2)),
    ),
    "winograd_k7": (
        Scenario(9, 8, 11, 1, 7, 19, 3),
        Scenario(18, 5, 13, 1, 1, 16, across=AxisWindow(7, pad=3)),
    ),
    "winograd_down": (
        Scenario(19, 9, 6, 1, 3, 18, 1, across=AxisWindow(1)),
        Scenario(17, 11, 5, 1, 5, 9, 2, across=AxisWindow(2)),
        Scenario(5, 13, 6, 1, 7, 17, 3, across=AxisWindow(1), batch=2),
    ),
}
# A primitive of each family and the scenario for which its bits are compared between machines in the fast suite.
SAME_BITS = {
    "sum2d_columns_chw_chw": Scenario(3, 6, 17, 1, 3, 5, 1),
    "direct_channels_hwc_chwc": Scenario(9, 5, 11, 2, 3, 8),
    "direct_blocked_depthwise_hwc_chwc": Scenario(20, 5, 9, 1, 2, 20, 0, 20),
    "im2row_hwc_hwc": SMALL,
    "kn2row_acc_chw_chw": SMALL,
    "fft_chw_chw": SMALL,
    "winograd_2d_f4_k3_hwc_hwc": Scenario(19, 10, 13, 1, 3, 37, 1),
    "sparse_bcsr4_chw_chw": Scenario(19, 7, 23, 1, 1, 22, sparsity=90, block_sparsity=85),
}
# Every kind of Winograd tile once, with layouts in rotation: those that emulated cores, which are slow, compute.
WINOGRAD_EMULATED = {
    "winograd_2d_f2_k3_hwc_hwc",
    "winograd_2d_f4_k3_chwc_chwc",
    "winograd_2d_f6_k3_chw_chw",
    "winograd_2d_f2_k5_hwc_chw",
    "winograd_2d_f4_k5_chw_hwc",
    "winograd_1d_f2_k3_hcw_hcw",
    "winograd_1d_f4_k3_chwc_hwc",
    "winograd_1d_f6_k3_hwc_chwc",
    "winograd_1d_f2_k5_hwc_hwc",
    "winograd_1d_f4_k5_chw_chw",
    "winograd_1d_f2_k7_hwc_hwc",
    "winograd_2d_f4_k3_staged_hwc_hwc",
    "winograd_2d_f6_k3_staged_chwc_chwc",
}
LOWERED_EVERY = 4  # of the fast suite's primitives; workspaces are compared for blocks of every length
OPTIMISED_EVERY = 18  # of the fast suite's primitives; compiling as for a library takes three times as long


def group_of(primitive: Primitive) -> str:
    """The primitives that share edge scenarios."""
    parts = primitive.name.split("_")
    if isinstance(primitive, WinogradPrimitive):
        return "winograd_down" if primitive.down else f"winograd_k{primitive.k}"
    special = "_".join((primitive.family, parts[parts.index("blocked") + 1 if "blocked" in parts else 1]))
    return special if special in EDGES else primitive.family


def edges_of(primitive: Primitive) -> list[Scenario]:
    """The edge scenarios that a primitive applies to; never none."""
    return [scenario for scenario in EDGES[group_of(primitive)] if primitive.applies(scenario)]


def in_rotation() -> Iterator[tuple[Primitive, Scenario]]:
    """Every primitive once, with the edges of its group one after the other."""
    for _, group in groupby(sorted(all_primitives(), key=group_of), group_of):
        for number, primitive in enumerate(group):
            edges = edges_of(primitive)
            yield primitive, edges[number % len(edges)]


ONCE = list(in_rotation())


def representative() -> set[int]:
    """Numbers in ONCE that have every edge, layout and kind of kernel of each group: each has one that none before it
    has."""
    seen: set[tuple[str, object]] = set()
    numbers = set()
    for number, (primitive, scenario) in enumerate(ONCE):
        layouts = primitive.layout_in, primitive.layout_out
        kind = primitive.name.rsplit("_", 2)[0]  # without its layouts
        new = {(group_of(primitive), part) for part in (scenario, kind, ("in", layouts[0]), ("out", layouts[1]))}
        if new - seen:
            numbers.add(number)
            seen |= new
    return numbers


FAST = representative()
every_primitive = pytest.mark.parametrize("primitive", all_primitives(), ids=lambda primitive: primitive.name)


@pytest.mark.sample(40)
@pytest.mark.parametrize(
    ("number", "primitive", "scenario"),
    [
        pytest.param(i, *once, id=once[0].name, marks=[] if i in FAST else [pytest.mark.long])
        for i, once in enumerate(ONCE)
    ],
)
def test_agrees_with_the_definition(number: int, primitive: Primitive, scenario: Scenario) -> None:
    """The epilogues in rotation, and then the machines: the portable one and this one."""
    epilogues = (*EPILOGUES, ALL_ENDS)
    machine = machine_of("host" if number // len(epilogues) % 2 else "generic")
    case = CheckCase(primitive, scenario, epilogues[number % len(epilogues)], number, host_block())
    (result,) = assert_right([case], machine, optimised=False)
    if number % LOWERED_EVERY == 0:
        assert not workspace_faults(primitive, scenario)
    if number % OPTIMISED_EVERY == 0:
        (optimised,) = assert_right([case], machine)
        assert optimised.bits == result.bits


def test_every_edge_is_run_by_the_fast_suite() -> None:
    run = {(group_of(primitive), scenario) for primitive, scenario in (ONCE[number] for number in FAST)}
    assert run == {(group, scenario) for group, edges in EDGES.items() for scenario in edges}
    assert {primitive for primitive, _ in ONCE} == set(all_primitives())


def test_only_blocks_that_straddle_groups_are_refused() -> None:
    for primitive in all_primitives():
        if group_of(primitive) in ("im2", "kn2", "fft"):
            for scenario in {*EDGES[group_of(primitive)]} - {*edges_of(primitive)}:
                blocked = Layout.CHWC in (primitive.layout_in, primitive.layout_out)
                assert blocked and scenario.groups > 1, (primitive.name, scenario)


def _im2_order(name: str) -> str:
    taps_first = name.startswith("im2row") and name.split("_")[-2] in ("hwc", "chwc")
    return "taps first" if taps_first else "channels first"


# The order of each sum's terms, and so its bits, by family: layouts, transposed operands and strips only move data.
ORDER_OF_TERMS: dict[str, Callable[[str], str]] = {
    "im2": _im2_order,
    "kn2": lambda name: name.split("_")[1],
    "fft": lambda name: name.split("_")[0],
}


def same_terms() -> Iterator[Any]:
    """Primitives of a family with one order of terms, as parameters: the representative ones, and all."""
    representatives = {ONCE[number][0] for number in FAST}
    for family, order_of in ORDER_OF_TERMS.items():
        members = [p for p in all_primitives() if p.family == family]
        for order in sorted({order_of(p.name) for p in members}):
            same = tuple(p for p in members if order_of(p.name) == order)
            few = tuple(p for p in same if p in representatives)
            yield pytest.param(family, order, few if len(few) > 1 else same, id=f"{family} {order}")
            yield pytest.param(family, order, same, id=f"all of {family} {order}", marks=[pytest.mark.long])


@pytest.mark.sample(2)
@pytest.mark.parametrize(("family", "order", "primitives"), [*same_terms()])
def test_only_the_order_of_the_terms_decides_the_bits(
    family: str, order: str, primitives: tuple[Primitive, ...]
) -> None:
    assert len(primitives) >= 2 and len({small_result(primitive).bits for primitive in primitives}) == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", SAME_BITS)
def test_the_same_bits_on_all_machines(name: str) -> None:
    assert_same_bits(find_primitive(name), SAME_BITS[name])


def test_every_family_has_the_same_bits_tested() -> None:
    """All but the implicit GEMM, whose kernels are the engine's: tests of those do it."""
    families = {primitive.family for primitive in all_primitives()}
    assert {find_primitive(name).family for name in SAME_BITS} == families - {"implicit"}


def test_a_sample_is_right_on_an_emulated_core() -> None:
    if qemu() is None:
        pytest.skip("no qemu-aarch64")
    names = ("direct_blocked_channels_hwc_hwc", "direct_blocked_columns_hcw_chw", "direct_blocked_depthwise_chwc_chwc")
    cases = [CheckCase(p, scenario, seed=i, block=8) for i, (p, scenario) in enumerate(ONCE) if p.name in names]
    assert len(cases) == len(names)
    assert_right(cases, machine_of("cortex-a76"))


@pytest.mark.long
@every_primitive
def test_agrees_at_every_edge(primitive: Primitive) -> None:
    assert_agrees(primitive, edges_of(primitive))


@pytest.mark.long
@every_primitive
def test_agrees_on_generated_scenarios(primitive: Primitive) -> None:
    """200 of each, and of each kind of Winograd tile: the layouts around it are the same transforms' loops."""
    other_layouts = isinstance(primitive, WinogradPrimitive) and (
        (primitive.layout_in, primitive.layout_out) != (Layout.HWC, Layout.HWC) or primitive.staged
    )
    assert_agrees(primitive, 4 if other_layouts else 200)


def emulated() -> Iterator[tuple[Primitive, Scenario]]:
    """What emulated cores compute: everything but most layouts of Winograd's tiles."""
    wide = Scenario(32, 9, 13, 1, 3, 40, pad=1)
    for primitive in all_primitives():
        group = group_of(primitive)
        if isinstance(primitive, WinogradPrimitive):
            if primitive.name in WINOGRAD_EMULATED:
                yield primitive, Scenario(19, 12, 11, 1, primitive.k, 37, 1)
            elif primitive.down and primitive.m == 2:
                yield from ((primitive, scenario) for scenario in edges_of(primitive))
        elif group in ("im2", "kn2", "fft"):
            yield primitive, wide
        elif group in ("sum2d", "implicit", "implicit_depthwise"):
            yield from ((primitive, scenario) for scenario in edges_of(primitive))
        elif group == "direct":
            yield primitive, EDGES["direct"][1]
        else:
            yield primitive, dict(ONCE)[primitive]


@pytest.mark.long
@pytest.mark.parametrize(("primitive", "scenario"), [pytest.param(p, s, id=f"{p.name} {s}") for p, s in emulated()])
def test_the_same_bits_on_emulated_cores(primitive: Primitive, scenario: Scenario) -> None:
    assert_same_bits(primitive, scenario, emulated=True)
