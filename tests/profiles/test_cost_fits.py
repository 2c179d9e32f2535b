"""Constants of the cost model: every file of profiles/fits is read, and what is not as it should be is refused."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mavcg.errors import ProfileError
from mavcg.hardware.cost_fit import ALL_CORES, IN_ORDER, KINDS, OUT_OF_ORDER_AARCH64, X86
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.profiles.cost_fits import fit_faults, load_cost_fit
from mavcg.profiles.folders import HERE, files
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import Epilogue, Scenario


def test_there_is_a_file_for_each_kind_and_one_for_all() -> None:
    assert set(files("fits")) == {*KINDS, ALL_CORES}
    assert fit_faults() == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_constants_in_their_ranges(kind: str) -> None:
    fit = load_cost_fit(kind)

    for ratio in ("l1_share", "l2_share", "l1_fill_exposed", "l2_fill_exposed", "memory_fill_exposed", "min_gain"):
        assert 0 < getattr(fit.macro_tile, ratio) <= 1
    assert fit.macro_tile.l2_fill_exposed_prefetched < fit.macro_tile.l2_fill_exposed
    assert fit.typical.l1d_bytes < fit.typical.l2_bytes
    assert (fit.chunk_prefetch is not None) is (kind == X86)


def test_no_constant_of_an_arm_core_was_fitted_on_another_architecture() -> None:
    """Constants of all cores are read for Arm cores, too."""
    for name in (IN_ORDER, OUT_OF_ORDER_AARCH64, ALL_CORES):
        text = files("fits")[name].read_text()
        assert set(re.findall(r'fitted_on = "([^"]*)"', text)) <= {
            "assumed",
            "simulated-cortex-a55",
            "simulated-cortex-a75",
        }
        assert not re.search(r"\b(Zen|EPYC|AMD|Intel|Haswell|x86|VNNI|AVX)", text.partition("[machines]")[2])


def test_the_cost_of_a_handover_is_what_was_measured() -> None:
    """430 to 590 ns at 3.2 GHz (bench/handover.py)."""
    assert 430 * 3.2 <= load_cost_fit(X86).steps.handover_cycles <= 590 * 3.2


def test_all_counted_work_has_a_constant() -> None:
    weights, machine = np.float32(0), Machine("generic", "aarch64", "generic")
    named = set[str]()
    for scenario in (Scenario(3, 12, 12, 2, 3, 16, 1), Scenario(16, 7, 7, 1, 3, 16, 1), Scenario(8, 6, 6, 1, 1, 8)):
        for primitive in all_primitives():
            if primitive.applies(scenario):
                zeros = np.broadcast_to(weights, scenario.weights_shape)
                for stage in primitive.lower(scenario, zeros, Epilogue(), 8).stages:
                    counts = stage.spec.counts(machine, 64.0)
                    assert counts is not None, primitive.name
                    named |= {product.name for product in counts.products}
                    named |= {work.name for work in counts.vectors} | {loop.name for loop in counts.loops}

    assert len(named) > 25
    assert all(named <= set(load_cost_fit(kind).primitives.cycles) for kind in KINDS)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (lambda text: text.replace("l1_share = {", "l1_part = {"), "macro_tile.l1_part: no such key"),
        (lambda text: re.sub(r"\nl1_share = .*", "", text), "macro_tile.l1_share: missing"),
        (lambda text: text.replace('unit = "GHz"', 'unit = "MHz"'), 'typical.ghz: the unit is .* write unit = "GHz"'),
        (lambda text: text.replace('fitted_on = "zen3"', 'fitted_on = "zen9"', 1), "name a machine of .machines."),
        (lambda text: text.replace("value = 0.75", "value = -0.75", 1), "not a number of 0 or more"),
        (lambda text: text.replace("value = 4096,", "value = 40.5,"), "not a whole number"),
        (lambda text: re.sub(r', source = "[^"]*"', "", text, count=1), "no source"),
        (lambda text: text.replace("[typical]", "[usual]"), "usual: no such key"),
        (lambda text: text.replace('name        = "x86"', 'name = "arm"'), "is not the file's name"),
    ],
)
def test_what_is_wrong_is_refused_with_its_key(
    change: Callable[[str], str], refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (HERE / "fits" / f"{X86}.toml").read_text()
    (tmp_path / "fits").mkdir()
    (tmp_path / "fits" / f"{X86}.toml").write_text(change(text))
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    assert change(text) != text
    with pytest.raises(ProfileError, match=f"x86.toml: .*{refused}"):
        load_cost_fit(X86)
    assert len(fit_faults()) == 1
