"""The version of a kernel that a core runs: its own, a stand-in's, one of a level above it, or generic."""

import pytest

from mavcg.errors import MavcgError
from mavcg.hardware.core import Core
from mavcg.hardware.feature_levels import lower_levels
from mavcg.profiles.load import load_core
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.kernel_versions import needs_of_versions, versions_of


def test_stand_ins_by_kernel() -> None:
    """Only a core that has the kernel stands in, and only where it needs nothing that the other may lack."""
    a = Core("a", "aarch64", "in", "a", "")
    dot = Core("dot", "aarch64", "in", "dot", "", extensions=("dotprod",))
    b = Core("b", "aarch64", "in", "b", "", stand_ins=("dot", "a"))
    there = {f"k.{label}": frozenset[str]() for label in ("generic", "a", "dot")}

    assert versions_of("k", there, CoreSet((a, b, dot))) == ("k.generic", "k.a", "k.a", "k.dot")
    del there["k.a"]
    assert versions_of("k", there, CoreSet((a, b, dot)))[1:3] == ("k.generic", "k.generic")
    with pytest.raises(MavcgError, match=r"kernel j: no object defines j\.generic"):
        versions_of("j", there, CoreSet(()))


def test_a_level_runs_the_nearest_version_above_it_that_can_run_there() -> None:
    x2 = load_core("cortex-x2")
    noi8mm, v81, base = lower_levels(x2, x2.extensions)
    needs = {
        "f.generic": frozenset[str](),
        "f.cortex-x2": frozenset({"rdm"}),
        "g.generic": frozenset[str](),
        "g.cortex-x2": frozenset({"i8mm", "rdm"}),
        "g.cortex-x2-noi8mm": frozenset({"dotprod"}),
    }
    core_set = CoreSet((x2, noi8mm, v81, base))

    assert versions_of("f", needs, core_set) == ("f.generic", *["f.cortex-x2"] * 3, "f.generic")
    own = ("g.generic", "g.cortex-x2", "g.cortex-x2-noi8mm", "g.generic", "g.generic")
    assert versions_of("g", needs, core_set) == own
    assert needs_of_versions(needs, core_set) == {
        "cortex-x2": ("i8mm", "rdm"),
        "cortex-x2-noi8mm": ("dotprod", "rdm"),
        "cortex-x2-v81": ("rdm",),
        "cortex-x2-base": (),
    }
