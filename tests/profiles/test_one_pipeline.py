"""Cores of one pipeline: their timing is derived from one another, and differs only where a file says so.

Silicon gives the Cortex-A76 and the Neoverse N1 the same cycles to 0.1 % in published figures.
"""

from dataclasses import replace

import pytest

from mavcg.hardware.timing import Timing
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

_WINDOW = ("in_flight", "issue_queue")


def timing_of(core: str) -> Timing:
    return load_timing(load_core(core))


def rows(timing: Timing) -> dict[str, tuple[object, ...]]:
    """Return what counts of each row: all but its source."""
    return {name: tuple(replace(row, source="").__dict__.values()) for name, row in timing.classes.items()}


# Core, the core that it is derived from, the rows that differ, and the sizes of the window that differ.
DERIVED = [
    ("cortex-a76", "neoverse-n1", (), ()),
    ("cortex-x1", "neoverse-v1", ("fmla_lane_q",), ("in_flight",)),  # 80 and 96 by figures; buffers of 224 and 256
    ("cortex-x2", "neoverse-v1", (), ("in_flight",)),  # a reorder buffer of 288
    ("cortex-a75-r0", "cortex-a75", None, ()),
    ("apple-avalanche", "apple-firestorm", (), ()),
    ("apple-blizzard", "apple-icestorm", (), ()),
]


@pytest.mark.parametrize(("core", "origin", "differing", "window"), DERIVED, ids=[case[0] for case in DERIVED])
def test_cores_of_one_pipeline_differ_only_where_it_is_said(
    core: str, origin: str, differing: tuple[str, ...] | None, window: tuple[str, ...]
) -> None:
    derived, known = timing_of(core), timing_of(origin)
    assert (derived.width, derived.order) == (known.width, known.order)
    assert derived.forwards == known.forwards and derived.classes.keys() == known.classes.keys()
    assert tuple(name for name in _WINDOW if getattr(derived, name) != getattr(known, name)) == window
    if differing is not None:
        assert derived.pools == known.pools
        own, others = rows(derived), rows(known)
        assert tuple(name for name in own if own[name] != others[name]) == differing


def test_every_core_that_executes_out_of_order_has_a_window() -> None:
    """Without one, 128 micro-operations and 8 before each unit stand in, which were 14 % too slow on a Neoverse N1."""
    from mavcg.profiles.load import load_cores

    cores = [core for core in load_cores().values() if core.arch == "aarch64" and core.order == "out"]
    without = [core.name for core in cores if not any(fact.key.startswith("window.") for fact in core.facts)]
    assert cores and not without
