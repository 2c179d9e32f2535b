"""Choices that turn if a rate of a core is wrong by as much as its model errs."""

from dataclasses import replace

import numpy as np
import pytest

from mavcg.cost.board_model import ALL_RATES, RATE_KEYS, with_rate
from mavcg.cost.model_error import ModelError, model_error
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.core_model import BoardModel
from mavcg.hardware.issue_rates import IssueRates
from mavcg.model import core_sensitivity
from mavcg.model.core_sensitivity import CoreEffect, core_effects, core_facts_json, core_rows
from mavcg.model.estimating import board_part, model_of
from mavcg.passes.graph.pipeline import optimise
from mavcg.profiles.load import load_board, load_core

BOARD = board_part(load_board("exynos9820"), "cortex-a75", None)


def net(channels: int) -> Graph:
    """A 3x3 convolution of 14 x 14 pixels."""
    b = GraphBuilder("net")
    x = b.input("x", TensorType("f32", (1, 14, 14, channels)))
    weights = np.random.default_rng(0).standard_normal((channels, 3, 3, channels), dtype=np.float32)
    return optimise(b.finish([b.add("conv2d", [x, b.constant(weights)], origin="conv", pads=(1, 1, 1, 1))]))


def rates_of(model: BoardModel, label: str) -> list[IssueRates]:
    cores = [model.versions[label], *model.clusters, *model.teams]
    return [core.rates for core in cores if core.core is not None and core.core.name == label]


def test_one_rate_of_one_core_changes_wherever_the_model_has_it() -> None:
    own = model_of(load_board("rk3588"))
    changed = with_rate(own, "cortex-a76", "loads_per_cycle", 0.9)
    (before,) = dict.fromkeys(rates_of(own, "cortex-a76"))
    (after,) = dict.fromkeys(rates_of(changed, "cortex-a76"))
    assert after == replace(before, loads_per_cycle=0.9 * before.loads_per_cycle)
    assert rates_of(changed, "cortex-a55") == rates_of(own, "cortex-a55")


def test_vector_arithmetic_is_as_fast_as_multiply_adds() -> None:
    own = model_of(BOARD)
    faster = with_rate(own, "cortex-a75", "fma_per_cycle", 1.5).versions["cortex-a75"].rates
    assert faster.vector_per_cycle >= faster.fma_per_cycle == 1.5 * own.versions["cortex-a75"].rates.fma_per_cycle
    every = with_rate(own, "cortex-a75", ALL_RATES, 0.5).versions["cortex-a75"].rates
    assert all(getattr(every, key) == 0.5 * getattr(own.versions["cortex-a75"].rates, key) for key in RATE_KEYS)


def test_slower_multiply_adds_turn_a_layer_to_fewer_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_sensitivity, "model_error", lambda core: ModelError(0.6))
    effects = core_effects("net", net(16), BOARD, 1)
    by_change = {(effect.key, round(effect.factor, 9)): effect.choices for effect in effects}
    assert set(by_change) == {(key, factor) for key in (ALL_RATES, *RATE_KEYS) for factor in (0.4, 1.6)}
    (choice,) = by_change["fma_per_cycle", 0.4]
    assert choice.layer == "conv" and "winograd_2d_f2" in choice.before and "winograd_2d_f4" in choice.after
    # All rates together change no ratio between algorithms that caches hold.
    assert not by_change[ALL_RATES, 0.4] and not by_change[ALL_RATES, 1.6]


def test_each_rate_is_changed_by_the_error_of_the_cores_model() -> None:
    effects = core_effects("net", net(3), BOARD, 1)
    error = model_error(load_core("cortex-a75"))
    assert {effect.factor for effect in effects} == {1 - error.fraction, 1 + error.fraction}
    assert {(effect.core, effect.error) for effect in effects} == {("cortex-a75", error)}


def test_a_table_names_the_layers_and_the_document_the_kernels() -> None:
    choice = core_sensitivity.ChangedChoice("conv", "a, 1 of 4 rows a task", "b, 2 of 4 rows a task")
    effects = [
        CoreEffect("cortex-a75", "width", ModelError(0.1, True), 0.9, (choice,)),
        CoreEffect("cortex-a55", "width", ModelError(0.019), 1.019, ()),
    ]
    facts = core_facts_json(effects)
    assert facts[0]["choices"] == [{"layer": "conv", "own": choice.before, "changed": choice.after}]
    assert [row["error_is"] for row in facts] == ["assumed", "published"]
    assert list(core_rows(facts)) == [
        ("cortex-a75", "width", "-10.0 %", "conv"),
        ("cortex-a55", "width", "+1.9 %", "none"),
    ]
