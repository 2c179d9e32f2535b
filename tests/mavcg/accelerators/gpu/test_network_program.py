"""The host program of a network: its steps, its arithmetic on the CPU, and the folder that holds it."""

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.accelerators.gpu.emulation import HEADERS, compile_shared
from mavcg.accelerators.gpu.network_steps import network_steps
from mavcg.graph.networks import NAMES, network
from mavcg.passes.graph.pipeline import optimise

SHIM = """
#include "gpu_half.h"
extern "C" unsigned to_half(float x) { return half_from(x); }
extern "C" float to_float(unsigned h) { return float_of_half((uint16_t)h); }
"""


def test_halves_of_the_host_are_numpys(tmp_path: Path) -> None:
    library = compile_shared(SHIM, tmp_path, HEADERS)
    library.to_float.restype = ctypes.c_float
    halves = np.arange(1 << 16, dtype=np.uint16)
    floats = np.array([library.to_float(int(h)) for h in halves[::7]], np.float32)
    assert np.array_equal(floats, halves[::7].view(np.float16).astype(np.float32), equal_nan=True)

    rng = np.random.default_rng(1)
    x = np.concatenate(
        [
            floats[np.isfinite(floats)],
            rng.standard_normal(2000) * 2.0 ** rng.integers(-26, 17, 2000),
            np.array([0.0, -0.0, 65519.9, 65520.0, 1e-9, 2.0**-25, 3 * 2.0**-25, np.inf, -np.inf], np.float32),
        ]
    ).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).view(np.uint16)
    assert [library.to_half(ctypes.c_float(float(value))) for value in x] == expected.tolist()


def test_steps_of_squeezenet() -> None:
    steps = network_steps(optimise(network("squeezenet")), "f16")

    kinds = [step.kind for step in steps]
    assert (kinds.count("kernel"), kinds.count("join"), kinds.count("cpu")) == (26 + 3 + 1, 8, 1)
    assert all(step.layer.act == "relu" for step in steps if step.layer is not None and step.weights)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_network_has_a_host_program(name: str) -> None:
    assert network_steps(optimise(network(name)), "f32")


@pytest.mark.long
def test_emit_a_network(mavcg: Any, here: Path) -> None:
    emit = mavcg("plan", "squeezenet", "--board", "jetson-tx2", "--emit-cuda", "d", "--json")

    assert emit.status == 0, emit.stderr
    assert len(json.loads(emit.stdout)["kernels"]) == 30
    program = (here / "d" / "network.cu").read_text()
    assert program.count("<<<") >= 30 and "cpu_softmax" in program
    # 1.24 million weights and biases of four bytes, rounded up to tiles.
    assert 4_940_000 < (here / "d" / "weights.bin").stat().st_size < 8_000_000
    assert mavcg("plan", "--check-cuda", "d").status == 0
