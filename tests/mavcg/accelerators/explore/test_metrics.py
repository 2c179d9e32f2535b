"""Area and energy by hand."""

from pathlib import Path

import numpy as np
import pytest

from mavcg.accelerators.explore.metrics import MetricModel, area_mm2, array_bytes
from mavcg.accelerators.explore.space_file import read_space
from mavcg.accelerators.explore.workload import workload_of
from mavcg.cost.traffic import no_reload
from mavcg.hardware.technology import interpolate
from tests.mavcg.accelerators.explore.spaces import DENSE, explored, written


def test_area_is_units_and_memories(tmp_path: Path) -> None:
    space = read_space(written(tmp_path, mem_size="[32, 128, 32]", pe_len="[8, 4]"))
    (structure,) = space.all_structures()

    expected = 32 * 13328 + 2 * 121849 + 469412  # f32 units; the two memories of EIE's table
    assert area_mm2(structure, space.technology, (DENSE,)) == pytest.approx(expected / 1e6, rel=1e-4)


def test_levels_add_area_and_are_what_the_array_reads(tmp_path: Path) -> None:
    """The outermost level alone decides about tiles, time and traffic, as in `mavcg plan` without --levels."""
    nearest = "{ mem_size = [4, 4, 4], bandwidth = 100 }"
    levels = f"[[{nearest}, {{ mem_size = [32, 128, 32] }}], [{{ mem_size = [32, 128, 32] }}]]"
    space = read_space(written(tmp_path, mem_size="", levels=levels, pe_len="[8, 4]"))
    whole = explored(space, "latency,area,energy", prune=False, net=(DENSE,))
    two, one = whole.figures(0), whole.figures(1)

    (structure, _) = space.all_structures()
    assert (two.figures["latency"], two.figures["traffic"]) == (one.figures["latency"], one.figures["traffic"])
    assert two.figures["area"] - one.figures["area"] == pytest.approx(3 * space.technology.sram_mm2(4096))
    pj = space.technology.sram_pj_per_byte
    reads = array_bytes(DENSE, structure)
    saved = sum(a * (pj(size) - pj(4096)) for a, size in zip(reads, (32768, 131072, 32768), strict=True))
    assert one.figures["energy"] - two.figures["energy"] == pytest.approx(saved / 1e12)


def test_what_the_array_reads(tmp_path: Path) -> None:
    (structure,) = read_space(written(tmp_path, pe_len="[8, 16]")).all_structures()  # IC along 8, OC along 16
    of_input, of_weight, of_sums = array_bytes(DENSE, structure)

    # 100 output channels take 7 steps of 16, 300 input channels 38 of 8.
    assert of_input == pytest.approx(4 * 30000 / (100 / 7))
    assert of_weight == 4 * 30000
    assert of_sums == pytest.approx(2 * 4 * 30000 / (300 / 38))


def test_energy_of_a_layer_that_fits_whole(tmp_path: Path) -> None:
    space = read_space(written(tmp_path, mem_size="1024", pe_len="[8, 16]"))
    (structure,) = space.all_structures()
    result = explored(space, "energy", net=(DENSE,))

    moved = no_reload(DENSE).total_bytes
    expected_pj = moved * (162.5 + 12.5) + 12.5 * sum(array_bytes(DENSE, structure)) + 4.6 * 30000
    figures_of_list = result.figures(0)
    assert figures_of_list.figures["traffic"] == moved
    assert figures_of_list.figures["energy"] == pytest.approx(expected_pj / 1e12, rel=1e-12)


def test_interpolation_meets_its_rows_and_goes_on() -> None:
    rows = ((8, 1.0), (32, 2.0), (128, 4.0))

    assert [interpolate(rows, size) for size in (1, 8, 32, 128)] == pytest.approx([1, 1, 2, 4])
    assert interpolate(rows, 16) == pytest.approx(2**0.5)
    assert interpolate(rows, 512) == pytest.approx(8)
    assert interpolate(rows[:1], 512) == 1


def test_time_is_that_of_the_arrays_steps_and_no_less_than_its_bound(tmp_path: Path) -> None:
    space = read_space(written(tmp_path, mem_size="1024", pe_len="[8, 16]", bandwidth="[1, 1e5]", frequency="[1]"))
    structures, workload = tuple(space.all_structures()), workload_of({"net": (DENSE,)})
    once = no_reload(DENSE)
    moved = np.array([[[once.input_bytes, once.weight_bytes, once.output_bytes]]])
    for paper_roof, elements in ((False, 30000 / (7 * 38)), (True, 128)):  # 100 channels by 16, 300 by 8
        model = MetricModel(space, workload, paper_roof)
        latency = model.figures(structures, moved).latency_s[0, 0]
        assert latency == pytest.approx([max(once.total_bytes / 1e9, 30000 / elements / 1e9), 30000 / elements / 1e9])
        bounds = model.bounds(structures, moved.sum(axis=2)).latency_s[0, 0]
        assert (bounds <= latency).all() and bounds == pytest.approx(latency, rel=1e-9)
