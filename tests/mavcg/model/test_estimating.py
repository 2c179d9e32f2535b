"""Measured times of a library's steps, beside a prediction."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from mavcg.choose.predict.predict import Prediction
from mavcg.model import estimating


def test_each_profile_follows_a_run_whose_threads_are_still_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def run(*_: Any) -> None:
        calls.append("run")

    def profile(*_: Any) -> list[Any]:
        calls.append("profile")
        return [SimpleNamespace(ns=2e6 if calls[-2] == "run" else 9e6, kernel="k")]

    inputs = [SimpleNamespace(shape=(2,), dtype=np.float32)]
    model = SimpleNamespace(inputs=inputs, states=(), run=run, profile=profile)
    monkeypatch.setattr(estimating, "load", lambda *_, **_options: nullcontext(model))
    monkeypatch.setattr(estimating, "SECONDS", 0)
    layer = SimpleNamespace(work=SimpleNamespace(kernel="k"))
    prediction = cast("Prediction", SimpleNamespace(chosen=SimpleNamespace(threads=2), layers=[layer]))

    assert estimating.time_layers(Path("m.so"), prediction) == (2.0,)
    assert calls.count("profile") == estimating.LEAST_RUNS
