"""ONNX's Attention over caches that TensorScatter writes, against the standard's reference implementation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mavcg
from mavcg.cli.app import run as command
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx
from tests.conftest import examples

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402

ROOM, SIZE = 12, 8
TOLERANCE = 2e-5


def floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def model(path: Path, arrays: dict[str, Any], flat: bool, heads: tuple[int, int], more: dict[str, Any]) -> Path:
    """A TensorScatter for each of keys and values, and an Attention of both caches. arrays: of the inputs."""
    helper = onnx.helper
    attributes = {**more, **({"q_num_heads": heads[0], "kv_num_heads": heads[1]} if flat else {})}
    nodes = [
        helper.make_node("TensorScatter", [f"{name}_cache", name, "begin"], [f"{name}_next"], axis=-2) for name in "kv"
    ]
    inputs = ["q", "k_next", "v_next", "mask" if "mask" in arrays else "", "", "", "counts"]
    nodes.append(helper.make_node("Attention", inputs, ["y"], "the_node", **attributes))
    known = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in arrays.items()
    ]
    outputs = [helper.make_tensor_value_info(name, 1, None) for name in ("y", "k_next", "v_next")]
    graph = helper.make_graph(nodes, "g", known, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11), path)
    return path


def inputs_of(
    random: np.random.Generator,
    batch: int,
    tokens: int,
    heads: tuple[int, int],
    flat: bool,
    mask: tuple[int, ...] | None,
) -> dict[str, Any]:
    """Inputs of sequences of different lengths."""

    def heads_of(count: int, length: int) -> np.ndarray:
        return floats(random, batch, length, count * SIZE) if flat else floats(random, batch, count, length, SIZE)

    arrays: dict[str, Any] = {"q": heads_of(heads[0], tokens)}
    for name in "kv":
        arrays |= {name: heads_of(heads[1], tokens), f"{name}_cache": heads_of(heads[1], ROOM)}
    arrays["begin"] = random.integers(0, ROOM - tokens + 1, batch)
    arrays["counts"] = arrays["begin"] + tokens
    if mask is not None:
        arrays["mask"] = random.integers(0, 2, mask) > 0 if random.integers(2) else floats(random, *mask)
    return arrays


def assert_same(path: Path, arrays: dict[str, Any]) -> Graph:
    expected: Any = ReferenceEvaluator(str(path)).run(None, arrays)
    graph = import_onnx(path)
    assert [node.op for node in graph.nodes].count("attention") == 1
    for have, want in zip(run(graph, *(arrays[name] for name in graph.inputs)), expected, strict=True):
        np.testing.assert_allclose(have, want, TOLERANCE, TOLERANCE)
    return graph


# Shapes before those of tokens and keys. Of masks with one row for all tokens the reference takes the first's keys.
MASKS = st.sampled_from([None, (), (1,), (4,), (2, 1)])


@settings(max_examples=examples(60, 5))
@given(
    st.integers(1, 4),
    st.sampled_from([(4, 4), (4, 2), (3, 1)]),
    st.booleans(),
    st.booleans(),
    MASKS,
    st.sampled_from([ROOM, ROOM - 2]),
    st.booleans(),
    st.integers(0, 99),
)
def test_runs_with_caches(
    tmp_path_factory: Any,
    tokens: int,
    heads: tuple[int, int],
    flat: bool,
    causal: bool,
    mask: tuple[int, ...] | None,
    masked: int,
    capped: bool,
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    shape = None if mask is None else (*(heads[0] if n == 4 else n for n in mask), tokens, masked)
    arrays = inputs_of(random, 2, tokens, heads, flat, shape)
    if shape is not None:  # a mask is as long as the longest sequence, at least
        arrays["begin"] = np.minimum(arrays["begin"], masked - tokens)
        arrays["counts"] = arrays["begin"] + tokens
    more = {"is_causal": int(causal), "softcap": 1.5 if capped else 0.0, "scale": 0.4}
    assert_same(model(tmp_path_factory.mktemp("a") / "m.onnx", arrays, flat, heads, more), arrays)


def test_queries_that_see_no_key_are_zero(tmp_path: Path) -> None:
    arrays = inputs_of(np.random.default_rng(0), 2, 3, (2, 2), False, None)
    arrays["counts"] = np.array([0, 1])
    path = model(tmp_path / "m.onnx", arrays, False, (2, 2), {"is_causal": 1})
    graph = assert_same(path, arrays)
    y = run(graph, *(arrays[name] for name in graph.inputs))[0]
    assert not y[0].any() and not y[1, :, :2].any() and y[1, :, 2].all()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"counts": np.zeros(3, np.int64)}, r"nonpad_kv_seqlen i64\[3\] for 1 sequences"),
        ({"mask": np.zeros((1, ROOM + 1), np.float32)}, r"attn_mask f32\[1,13\] for 12 keys"),
    ],
)
def test_bad_nodes_are_refused_with_a_reason(tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
    arrays = inputs_of(np.random.default_rng(0), 1, 2, (2, 2), False, None) | changed
    path = model(tmp_path / "m.onnx", arrays, False, (2, 2), {})
    with pytest.raises(MavcgError, match=rf"node 'the_node' \(Attention\): {problem}"):
        import_onnx(path)


@pytest.mark.long
def test_a_built_library_keeps_its_caches(tmp_path: Path, cores: tuple[str, str]) -> None:
    """Tokens one by one, with the caches as states, against one reference run of all of them."""
    random, heads, steps = np.random.default_rng(3), (4, 2), 5
    arrays = inputs_of(random, 1, 1, heads, False, None)
    path = model(tmp_path / "m.onnx", arrays, False, heads, {"is_causal": 1})
    library = tmp_path / "libm.so"
    states = [option for name in "kv" for option in ("--state", f"{name}_cache={name}_next")]
    assert command(["build", str(path), "--cores", cores[0], "-o", str(library), "--jobs", "1", *states]) == 0
    tokens = inputs_of(random, 1, steps, heads, False, None)
    caches = {f"{name}_cache": np.zeros((1, heads[1], ROOM, SIZE), np.float32) for name in "kv"}
    whole = tokens | caches | {"begin": np.array([0]), "counts": np.array([steps])}
    every = model(tmp_path / "all.onnx", whole, False, heads, {"is_causal": 1})
    expected: Any = ReferenceEvaluator(str(every)).run(None, whole)
    with mavcg.load(library) as loaded:
        for step in range(steps):
            given = {name: np.ascontiguousarray(tokens[name][:, :, step : step + 1]) for name in "qkv"}
            given |= {"begin": np.array([step]), "counts": np.array([step + 1])}
            (y,) = loaded.run(*(given[tensor.name] for tensor in loaded.inputs))
            np.testing.assert_allclose(y, expected[0][:, :, step : step + 1], TOLERANCE, TOLERANCE)
