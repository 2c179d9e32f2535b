"""Limits of layers: the larger of arithmetic and bytes, of bytes from the memory that holds them."""

import pytest

from mavcg.cost.limit import LayerWork, limit_of, works_of_note
from mavcg.errors import MavcgError
from mavcg.hosts.rates import HostRates, MemoryRate

RATES = HostRates(
    1,
    {"f32": 50e9, "i8": 200e9},
    {"f32": "vfmadd231ps", "i8": "vpdpbusd"},
    (MemoryRate("l1", 32_000, 100.0), MemoryRate("l2", 500_000, 50.0), MemoryRate("memory", None, 10.0)),
)


def test_the_larger_of_arithmetic_and_bytes_is_the_limit() -> None:
    work = LayerWork(5_000_000, "f32", 200_000, 400_000)
    limit = limit_of([work], RATES, 400_000)

    assert limit.arithmetic_s == pytest.approx(100e-6)
    assert limit.memory_s == pytest.approx(200_000 / 50e9 + 400_000 / 50e9)
    assert limit.limit_s == limit.arithmetic_s and limit.bound_by == "arithmetic"

    far = limit_of([work], RATES, 2_000_000)  # the weights of a larger network come from memory
    assert far.memory_s == pytest.approx(200_000 / 10e9 + 400_000 / 50e9)
    assert limit_of([LayerWork(0, "", 0, 4_000_000)], RATES, 1).bound_by == "memory"


def test_stages_of_a_layer_add_up_each_in_its_type() -> None:
    stages = [LayerWork(1_000_000, "f32", 0, 1000), LayerWork(4_000_000, "i8", 500, 0), LayerWork(0, "", 0, 3000)]
    limit = limit_of(stages, RATES, 500)

    assert limit.arithmetic_s == pytest.approx(20e-6 + 20e-6)
    assert limit.memory_s == pytest.approx(500 / 100e9 + 4000 / 100e9)


def test_a_loop_repeats_all_but_the_first_read_of_weights() -> None:
    limit = limit_of([LayerWork(1_000_000, "f32", 300_000, 1000, 10)], RATES, 300_000)

    assert limit.arithmetic_s == pytest.approx(200e-6)
    assert limit.memory_s == pytest.approx(300_000 / 50e9 + 10_000 / 100e9)


def test_notes_keep_the_work_and_older_ones_are_refused() -> None:
    works = (LayerWork(7, "i8", 8, 9), LayerWork(0, "", 1, 2, 3))
    note = {"steps": [{"name": "a"} | work.as_json() for work in works]}

    assert works_of_note(note, "libnet.so") == works
    with pytest.raises(MavcgError, match=r"^libnet.so: was built by an earlier mavcg.*build it again$"):
        works_of_note({"steps": [*note["steps"], {"name": "b"}]}, "libnet.so")
