"""Every conversion against a copy by NumPy, around the edges of squares and blocks, on every machine that is there."""

from functools import partial

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.kernels.primitives.convert import (
    LayoutConversion,
    RaggedBlocks,
    conversions,
    find_conversion,
    lower_conversion,
)
from mavcg.kernels.tensor.transpose import TransposeSpec
from mavcg.lab.trials.definition import to_layout
from mavcg.lab.trials.emulation import qemu
from mavcg.lab.trials.jobs import TrialJob, all_rows, memory, random_ranges
from mavcg.lab.trials.run import find_machine, run_jobs
from mavcg.runtime.machines import block_of
from mavcg.specs.kernel import Array
from mavcg.specs.primitive import Layout, Lowering

SHAPES = (
    (1, 1, 1),
    (3, 5, 7),
    (4, 4, 4),
    (8, 3, 9),
    (16, 2, 5),
    (17, 3, 4),
    (24, 5, 13),
    (31, 1, 8),
    (32, 6, 1),
    (33, 2, 70),
    (40, 7, 7),
    (64, 9, 3),
    (100, 1, 1),
    (67, 66, 5),
)


def image(c: int, h: int, w: int) -> Array:
    """Numbers that all differ."""
    return np.arange(1, c * h * w + 1, dtype=np.float32).reshape(c, h, w)


def job(conversion: LayoutConversion, c: int, h: int, w: int, block: int, seed: int) -> TrialJob:
    lowering = Lowering((lower_conversion(conversion, c, h, w, block),), partial(np.zeros, 0, np.float32), (0,))
    source = to_layout(image(c, h, w), conversion.layout_from, block)
    target = to_layout(image(c, h, w), conversion.layout_to, block)
    operands = {"x": memory(source.nbytes, source), "out": memory(target.nbytes)}
    return TrialJob(lowering, operands, random_ranges(lowering, seed) if seed % 3 else all_rows(lowering))


@pytest.mark.parametrize(
    ("core", "shapes"),
    [
        ("host", SHAPES[1:14:4]),
        *(pytest.param(core, SHAPES, marks=pytest.mark.long) for core in ("host", "generic", "cortex-a55")),
    ],
)
def test_every_conversion_copies_every_element(
    core: str, shapes: tuple[tuple[int, int, int], ...], thorough: bool
) -> None:
    if core != "host" and qemu() is None:
        pytest.skip("there is no emulator")
    machine = find_machine(core)
    block = block_of(machine)
    cases = [(conversion, shape) for conversion in conversions() for shape in shapes]
    jobs = [job(conversion, *shape, block, seed) for seed, (conversion, shape) in enumerate(cases)]
    run_jobs(jobs, machine, optimised=thorough)

    for (conversion, shape), done in zip(cases, jobs, strict=True):
        expected = to_layout(image(*shape), conversion.layout_to, block)
        assert done.operands["out"].inner.tobytes() == expected.tobytes(), f"{conversion.name} of {shape}"
        assert all(operand.guards_hold for operand in done.operands.values()), (
            f"{conversion.name} of {shape}: wrote outside"
        )


def test_there_is_one_from_each_layout_into_each_other() -> None:
    pairs = {(c.layout_from, c.layout_to) for c in conversions()}

    assert pairs == {(a, b) for a in Layout for b in Layout if a != b}
    assert len({c.name for c in conversions()}) == len(conversions())
    assert find_conversion(Layout.CHWC, Layout.HCW).name == "chwc_to_hcw"


def test_whole_blocks_are_turned_in_registers_and_others_filled_up() -> None:
    into = find_conversion(Layout.CHW, Layout.CHWC)

    assert isinstance(lower_conversion(into, 32, 7, 7, 16).spec, TransposeSpec)
    assert isinstance(lower_conversion(into, 24, 7, 7, 16).spec, RaggedBlocks)
    assert isinstance(lower_conversion(into, 24, 7, 7, 8).spec, TransposeSpec)


def test_what_is_no_conversion_is_refused() -> None:
    with pytest.raises(MavcgError, match="HWC into HWC"):
        find_conversion(Layout.HWC, Layout.HWC)
    with pytest.raises(MavcgError, match="0 x 4 x 4"):
        lower_conversion(conversions()[0], 0, 4, 4, 16)
