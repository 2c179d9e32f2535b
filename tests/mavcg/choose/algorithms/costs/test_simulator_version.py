"""Versions of simulated times: facts of a core and code of the simulator count, words do not."""

from dataclasses import replace

import pytest

from mavcg.choose.algorithms.costs import cost_version as version
from mavcg.choose.algorithms.costs.cost_version import core_version, simulator_version
from mavcg.cost.core_facts import simulated_core
from mavcg.hardware.core import Core
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing


def test_cores_have_versions_of_their_own() -> None:
    names = ("cortex-a53", "cortex-a55", "cortex-a75")

    assert len({core_version(load_core(name)) for name in names}) == len(names)
    assert core_version(load_core("cortex-a55")) == core_version(load_core("cortex-a55"))


def test_caches_latencies_and_the_simulator_count(monkeypatch: pytest.MonkeyPatch) -> None:
    core = load_core("cortex-a55")
    before = core_version(core)
    with monkeypatch.context() as patched:
        patched.setattr(version, "simulated_core", lambda of: replace(simulated_core(of), miss_slots=2))
        assert core_version(core) != before

    def slower(of: Core) -> object:
        timing = load_timing(of)
        return replace(timing, forwards={**timing.forwards, ("fmla", "fmla", ""): 9})

    with monkeypatch.context() as patched:
        patched.setattr(version, "load_timing", slower)
        assert core_version(core) != before
    with monkeypatch.context() as patched:
        patched.setattr(version, "simulator_version", lambda: "another")
        assert core_version(core) != before
    assert core_version(core) == before


def test_the_simulators_code_counts_without_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def digest(paths: list[object], root: object) -> str:
        seen.extend(str(path) for path in paths)
        return "0" * 64

    monkeypatch.setattr(version, "digest_of_code", digest)
    simulator_version.cache_clear()
    assert simulator_version() == "0" * version.DIGITS
    simulator_version.cache_clear()

    for ending in (
        "lab/simulate/csrc/in_order.c",
        "lab/simulate/rows.py",
        "asm/isa/mnemonics.py",
        "models/issue_constraints.py",
    ):
        assert any(path.endswith(ending) for path in seen), ending
