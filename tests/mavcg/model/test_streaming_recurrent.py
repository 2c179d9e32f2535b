"""LSTM, GRU and RNN over a stream: chunks with states in the context equal onnxruntime's run of the whole sequence, and
its runs of the chunks with the states from the caller."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.jit import host_machine
from bench.program_runner import KernelStore, ProgramRunner
from mavcg.choose.lowering.lower import lower_graph
from mavcg.graph import Array
from mavcg.importers.load import import_model
from mavcg.passes.graph.pipeline import optimise
from mavcg.passes.graph.states import pair_states
from mavcg.runtime.machines import packing_for
from mavcg.toolchain.target import host_target
from tests.conftest import examples

onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")

INPUTS, UNITS = 3, 4  # few shapes: their kernels are compiled once
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@cache
def kernels() -> KernelStore:
    return KernelStore(host_machine())


def recurrent(kinds: Sequence[str], steps: int, seed: int) -> Any:
    """One layer after the other, each with its states as inputs h0, c0, h1, .. and outputs h0_next, .."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    tensor = helper.make_tensor_value_info
    float32, state = TensorProto.FLOAT, [1, 1, UNITS]
    nodes, weights, names = [], [], list[str]()
    at, size = "x", INPUTS
    for i, kind in enumerate(kinds):
        rows = GATES[kind] * UNITS
        for name, shape in ((f"W{i}", (1, rows, size)), (f"R{i}", (1, rows, UNITS)), (f"B{i}", (1, 2 * rows))):
            weights.append(numpy_helper.from_array(rng.normal(0, 0.5, shape).astype(np.float32), name))
        own = [f"h{i}", *([f"c{i}"] if kind == "LSTM" else [])]
        outputs = [f"y{i}", *(f"{name}_next" for name in own)]
        nodes.append(helper.make_node(kind, [at, f"W{i}", f"R{i}", f"B{i}", "", *own], outputs, hidden_size=UNITS))
        nodes.append(helper.make_node("Squeeze", [f"y{i}", "one"], [f"s{i}"]))
        names, at, size = [*names, *own], f"s{i}", UNITS
    weights.append(numpy_helper.from_array(np.array([1], np.int64), "one"))
    graph = helper.make_graph(
        nodes,
        "recurrent",
        [tensor("x", float32, [steps, 1, INPUTS]), *(tensor(name, float32, state) for name in names)],
        [tensor(at, float32, [steps, 1, UNITS]), *(tensor(f"{name}_next", float32, state) for name in names)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def runner(model: Any) -> ProgramRunner:
    """The model's program with all states in the context; its every store is checked."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save(model, path)
        graph = import_model(path, {})
    patterns = [f"{kind}*={kind}*_next" for kind in "hc" if any(name.startswith(kind) for name in graph.inputs)]
    lowered = lower_graph(optimise(pair_states(graph, patterns)), packing_for(host_target()))
    kernels().add(lowered.specs)
    return ProgramRunner(lowered, host_machine(), 2, kernels())


def session(model: Any) -> Any:
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def theirs(model: Any, chunks: Sequence[Array]) -> list[Array]:
    """Return onnxruntime's results of the chunks; the caller hands the states on."""
    run = session(model)
    names = [i.name for i in run.get_inputs()][1:]
    kept = {name: np.zeros((1, 1, UNITS), np.float32) for name in names}
    results = []
    for chunk in chunks:
        result, *states = run.run(None, {"x": chunk, **kept})
        kept = dict(zip(names, states, strict=True))
        results.append(result)
    return results


@settings(max_examples=examples(40, 4))
@given(
    st.lists(st.sampled_from(sorted(GATES)), min_size=1, max_size=2),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 1000),
)
def test_chunks_equal_the_whole_sequence(kinds: list[str], steps: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    chunks = [rng.standard_normal((steps, 1, INPUTS)).astype(np.float32) for _ in range(count)]
    model = recurrent(kinds, steps, seed)
    ours = runner(model)
    assert len(ours.program.states) == len(kinds) + kinds.count("LSTM") and len(ours.program.outputs) == 1
    results = [ours.run(chunk)[0] for chunk in chunks]
    (whole,) = theirs(recurrent(kinds, steps * count, seed), [np.concatenate(chunks)])
    np.testing.assert_allclose(np.concatenate(results), whole, rtol=1e-5, atol=1e-6)
    for result, right in zip(results, theirs(model, chunks), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-6)
