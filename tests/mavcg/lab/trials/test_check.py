"""The check of primitives finds small faults under every epilogue: kernels are NumPy's here, wrong on purpose."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from mavcg.graph.reference.elementwise import activate
from mavcg.kernels.primitives.registry import find_primitive
from mavcg.lab.trials import check as primitive_check
from mavcg.lab.trials.check import CheckCase, Checked, check, check_all, weight_factor
from mavcg.lab.trials.definition import reference
from mavcg.lab.trials.jobs import TrialJob
from mavcg.lab.trials.run import find_machine
from mavcg.specs.kernel import Array, KernelSpec, Machine
from mavcg.specs.primitive import Epilogue, Layout, Lowering, Primitive, Scenario, Stage, StageOperand
from tests.kernels.primitives.cases import EPILOGUES, random_scenario

Sums = Callable[[Array, Array], Array]  # of an image and weights
Fault = Callable[[Array, Array, Sums], Array]  # wrong sums of these


@dataclass(frozen=True)
class _Spec(KernelSpec):
    scenario: Scenario
    epilogue: Epilogue

    @property
    def family(self) -> str:
        return "numpy"

    @property
    def rows(self) -> int:
        return 1


@dataclass(frozen=True)
class _InNumpy(Primitive):
    """The definition in one step; weights as they are."""

    @property
    def family(self) -> str:
        return "numpy"

    @property
    def name(self) -> str:
        return "numpy_chw_chw"

    def computes(self, scenario: Scenario) -> bool:
        return True

    def workspace_bytes(self, scenario: Scenario) -> int:
        return 0

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        return Lowering(
            (Stage(_Spec(scenario, epilogue), (StageOperand("x"), StageOperand("weights"), StageOperand("out"))),),
            lambda: weights,
            weights.shape,
        )


def _without(weights: Array, where: tuple[slice | int, ...]) -> Array:
    found = weights.copy()
    found[where] = 0
    return found


def _copied(total: Array, axis: int) -> Array:
    """The last of an axis is its neighbour again."""
    found = np.moveaxis(total.copy(), axis, 0)
    found[-1] = found[-2] if len(found) > 1 else 0
    return np.moveaxis(found, 0, axis)


EVERY = slice(None)
FAULTS: dict[str, Fault] = {
    "a tap is dropped": lambda x, w, sums: sums(x, _without(w, (EVERY, EVERY, w.shape[2] // 2, w.shape[3] // 2))),
    "a tap of one channel": lambda x, w, sums: sums(x, _without(w, (EVERY, 0, w.shape[2] // 2, w.shape[3] // 2))),
    "the last term": lambda x, w, sums: sums(x, _without(w, (EVERY, -1))),
    "the last row": lambda x, w, sums: _copied(sums(x, w), 1),
    "the last column": lambda x, w, sums: _copied(sums(x, w), 2),
    "the last lane": lambda x, w, sums: _copied(sums(x, w), 0),
    "half of the mantissa": lambda x, w, sums: sums(x, w).astype(np.float16),
}


def _nothing_wrong(x: Array, weights: Array, sums: Sums) -> Array:
    return sums(x, weights)


@dataclass
class _Run:
    """run_jobs with a fault. changed: how many sums of the last job it changed by more than rounding does."""

    fault: Fault
    changed: int = 0

    def __call__(self, jobs: Sequence[TrialJob], machine: Machine, optimised: bool = True) -> None:
        for job in jobs:
            spec = job.lowering.stages[0].spec
            assert isinstance(spec, _Spec)
            s = spec.scenario
            held = {base: np.frombuffer(m.inner.tobytes(), np.float32) for base, m in job.operands.items()}
            residual = held["residual"].reshape(s.m, s.out_h, s.out_w) if "residual" in held else None

            def sums(x: Array, weights: Array, s: Scenario = s) -> Array:
                result: Array = reference(s, x[None], weights, None, None, Epilogue())[1][0]
                return result

            x = held["x"].reshape(s.c, s.h, s.w)
            weights = held["weights"].reshape(s.weights_shape)
            right, total = sums(x, weights), np.asarray(self.fault(x, weights, sums), np.float64)
            self.changed = int((np.abs(total - right) > 1e-4 * np.abs(right).max()).sum())
            if "bias" in held:
                total = total + held["bias"][:, None, None]
            total = total + (0 if residual is None else residual)
            act = "" if spec.epilogue.act == "none" else spec.epilogue.act
            out = activate(total, act, spec.epilogue.act_args).astype(np.float32)
            job.operands["out"].inner[:] = np.frombuffer(out.tobytes(), np.uint8)


def scenarios(count: int) -> list[Scenario]:
    """Generated ones, that are convolutions."""
    pick, found = random.Random("faults"), list[Scenario]()
    while len(found) < count:
        s = random_scenario(pick)
        if s.out_h > 0 < s.out_w and s.c % s.groups == s.m % s.groups == 0:
            found.append(s.image)
    return found


def checked(fault: Fault, count: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Checked, int]]:
    """Generated scenarios under all epilogues with a fault, and how many sums it changed in each."""
    run, machine = _Run(fault), find_machine("generic")
    monkeypatch.setattr(primitive_check, "run_jobs", run)
    primitive = _InNumpy(Layout.CHW, Layout.CHW)
    return [
        (check(primitive, s, machine, epilogue, seed), run.changed)
        for seed, s in enumerate(scenarios(count))
        for epilogue in EPILOGUES
    ]


def test_what_is_right_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(found.ok and found.max_error < 1e-7 for found, _ in checked(_nothing_wrong, 12, monkeypatch))


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", FAULTS)
def test_small_faults_are_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [found for found, changed in checked(FAULTS[name], 9, monkeypatch) if changed]

    assert len(wrong) == 9 * len(EPILOGUES)
    assert [found.case for found in wrong if found.ok] == []


def test_activations_leave_most_outputs_to_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """And are flat at some of them, at both ends."""
    found = checked(_nothing_wrong, 25, monkeypatch)
    outputs = [one.output for one, _ in found if one.case.epilogue.act in ("relu", "clip")]
    clipped = [one.output for one, _ in found if one.case.epilogue.act == "clip"]
    hidden = [float(((output == 0) | (output == 6)).mean()) for output in outputs]

    assert 0.05 < np.mean(hidden) < 0.25 and max(hidden) < 0.75
    assert all(sum((output == end).sum() for output in clipped) > 100 for end in (0, 6))


@pytest.mark.parametrize(("terms", "factor"), [(1, 8.0), (36, 1.0), (576, 0.25), (6272, 0.0625)])
def test_weights_give_sums_of_about_the_same_size(terms: int, factor: float) -> None:
    """Of spread sqrt(terms) / 3 by themselves, and of about 2 then."""
    scenario = Scenario(terms, 4, 4, 1, 1, 8)

    assert weight_factor(scenario) == factor and 1.4 < factor * terms**0.5 / 3 < 2.9


@dataclass(frozen=True)
class _Faulty(Primitive):
    """Another one, that does without some weights."""

    inner: Primitive
    without: tuple[slice | int, ...]

    @property
    def family(self) -> str:
        return self.inner.family

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def error_bound(self) -> float:
        return self.inner.error_bound

    def computes(self, scenario: Scenario) -> bool:
        return self.inner.computes(scenario)

    def workspace_bytes(self, scenario: Scenario) -> int:
        return self.inner.workspace_bytes(scenario)

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        return self.inner.lower_image(scenario, _without(weights, self.without), epilogue, block)


@pytest.mark.parametrize("name", ["implicit_gemm_hwc_hwc", "winograd_1d_f6_k3_hwc_hwc"])
@pytest.mark.parametrize("where", [(EVERY, EVERY, -1, -1), (-1, -1, -1, -1)], ids=["a tap", "a term of the last lane"])
def test_kernels_that_leave_something_out_are_found_out(name: str, where: tuple[slice | int, ...]) -> None:
    right, s, machine = find_primitive(name), Scenario(5, 6, 7, 1, 3, 19, 1), find_machine("host")
    wrong = _Faulty(right.layout_in, right.layout_out, right, where)
    as_it_is, without = check_all([CheckCase(p, s, EPILOGUES[-1]) for p in (right, wrong)], machine, optimised=False)

    assert as_it_is.ok and not without.ok and without.max_error > 100 * without.bound
