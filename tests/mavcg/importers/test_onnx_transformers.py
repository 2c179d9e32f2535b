"""Operators that onnxruntime's tools fuse in transformers, against onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.importers.onnx_file import import_onnx
from tests.conftest import examples
from tests.mavcg.importers.one_node import assert_agrees, save

pytest.importorskip("onnxruntime")
F, MICROSOFT = "float32", "com.microsoft"
NONE = np.zeros(0, np.float32)
SEEDS = st.integers(0, 1 << 20)


def floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def given_arrays(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [array for name, array in inputs.items() if not name.startswith("no")]


@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_sums_that_are_normalised(tmp_path: Path, op: str, with_bias: bool) -> None:
    random = np.random.default_rng(0)
    inputs = {"x": floats(random, 2, 5, 12), "skip": floats(random, 2, 5, 12), "gamma": floats(random, 12)}
    if "Simplified" not in op:
        inputs |= {"beta": floats(random, 12)}
    if with_bias:
        inputs |= {"bias": floats(random, 12)}
    outputs = [("y", F), ("m", ""), ("v", ""), ("sum", F)]
    save(tmp_path / "m.onnx", op, inputs, outputs, 17, domain=MICROSOFT, epsilon=1e-3)

    assert_agrees(tmp_path / "m.onnx", *inputs.values())


def test_simplified_norms(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x, scale = floats(random, 2, 5, 12), floats(random, 12)
    save(tmp_path / "m.onnx", "SimplifiedLayerNormalization", {"x": x, "s": scale}, [("y", F)], 17, epsilon=1e-3)

    assert_agrees(tmp_path / "m.onnx", x, scale)


@settings(max_examples=examples(12, 5))
@given(st.booleans(), st.booleans(), st.booleans(), SEEDS)
def test_embeddings(tmp_path_factory: Any, segments: bool, masked: bool, places: bool, seed: int) -> None:
    random = np.random.default_rng(seed)

    def whole(high: int, *shape: int) -> np.ndarray:
        return random.integers(0, high, shape).astype(np.int32)

    inputs = {
        "ids": whole(20, 2, 5),
        "segments" if segments else "no segments": whole(2, 2, 5),
        "words": floats(random, 20, 8),
        "positions": floats(random, 9, 8),
        "rows" if segments else "no rows": floats(random, 2, 8),
        "gamma": floats(random, 8),
        "beta": floats(random, 8),
    }
    if masked or places:
        inputs |= {"mask" if masked else "no mask": np.sort(whole(2, 2, 5))[:, ::-1].copy()}
    if places:
        inputs |= {"places": whole(9, 2, 5)}
    path = tmp_path_factory.mktemp("embed") / "m.onnx"
    save(path, "EmbedLayerNormalization", inputs, [("y", F), ("n", "int32"), ("s", F)], 17, domain=MICROSOFT)

    assert_agrees(path, *given_arrays(inputs), tolerance=1e-4)


@settings(max_examples=examples(16, 5))
@given(st.booleans(), st.booleans(), st.sampled_from([3, 4]), st.booleans(), SEEDS)
def test_rotations(tmp_path_factory: Any, interleaved: bool, offset: bool, rank: int, part: bool, seed: int) -> None:
    """Whole heads are rotated, or the first 4 of 8 elements of each."""
    random = np.random.default_rng(seed)
    batch, heads, tokens, head = 2, 3, 5, 8
    x = floats(random, *((batch, heads, tokens, head) if rank == 4 else (batch, tokens, heads * head)))
    rotated = 4 if part else head
    angles = random.uniform(-3, 3, (11, rotated // 2))
    places = np.array([4]) if offset else random.integers(0, 11, (batch, tokens))
    inputs = {"x": x, "p": places, "cos": np.cos(angles).astype(F), "sin": np.sin(angles).astype(F)}
    attributes: dict[str, Any] = {"interleaved": int(interleaved)}
    if part:
        attributes |= {"rotary_embedding_dim": rotated, "num_heads": heads}
    path = tmp_path_factory.mktemp("rotary") / "m.onnx"
    save(path, "RotaryEmbedding", inputs, [("y", F)], 17, domain=MICROSOFT, **attributes)

    assert_agrees(path, *inputs.values())


@settings(max_examples=examples(20, 5))
@given(st.sampled_from(["none", "lengths", "keys", "all"]), st.booleans(), st.booleans(), st.booleans(), SEEDS)
def test_attention(
    tmp_path_factory: Any, mask: str, with_past: bool, causal: bool, with_added: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    batch, tokens, heads, size, past = 2, 4, 2, 6, 3 if with_past else 0
    keys = past + tokens
    masks = {
        "none": NONE.astype(np.int32),
        "lengths": random.integers(1, keys + 1, batch).astype(np.int32),
        "keys": random.integers(0, 2, (batch, keys)).astype(np.int32),
        "all": random.integers(0, 2, (batch, tokens, keys)).astype(np.int32),
    }
    for each in (masks["keys"], masks["all"]):
        each[..., 0] = 1  # where no key counts, roundings at 10,000 differ
    inputs = {
        "x": floats(random, batch, tokens, 10),
        "w": floats(random, 10, 3 * heads * size),
        "b": floats(random, 36),
    }
    inputs["mask" if mask != "none" else "no mask"] = masks[mask]
    inputs["past" if with_past else "no past"] = floats(random, 2, batch, heads, past, size)
    if with_added and not with_past:  # onnxruntime refuses both
        inputs["added"] = floats(random, 1, heads, tokens, keys)
    attributes: dict[str, Any] = {"num_heads": heads, "unidirectional": int(causal)}
    path = tmp_path_factory.mktemp("attention") / "m.onnx"
    save(path, "Attention", inputs, [("y", F), ("present", F)], 17, domain=MICROSOFT, **attributes)

    assert_agrees(path, *given_arrays(inputs), tolerance=1e-4)


@settings(max_examples=examples(20, 5))
@given(st.booleans(), st.booleans(), st.booleans(), st.booleans(), SEEDS)
def test_attention_of_several_heads(
    tmp_path_factory: Any, with_bias: bool, masked: bool, with_past: bool, causal: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    batch, tokens, heads, size, past = 2, 4, 2, 6, 3 if with_past else 0
    hidden = heads * size
    inputs = {name: floats(random, batch, tokens, hidden) for name in ("q", "k", "v")}
    inputs["bias" if with_bias else "no bias"] = floats(random, 3 * hidden)
    mask = random.integers(0, 2, (batch, past + tokens)).astype(np.int32)
    mask[:, 0] = 1
    inputs["mask" if masked else "no mask"] = mask
    inputs["added"] = floats(random, batch, 1, tokens, past + tokens)
    if with_past:
        inputs |= {name: floats(random, batch, heads, past, size) for name in ("past_key", "past_value")}
    attributes: dict[str, Any] = {"num_heads": heads, "unidirectional": int(causal), "scale": 0.3}
    path = tmp_path_factory.mktemp("heads") / "m.onnx"
    outputs = [("y", F), ("key", F), ("value", F)]
    save(path, "MultiHeadAttention", inputs, outputs, 17, domain=MICROSOFT, **attributes)

    assert_agrees(path, *given_arrays(inputs), tolerance=1e-4)


X = np.zeros((2, 3, 12), np.float32)
IDS = np.zeros((2, 3), np.int32)
BAD: list[tuple[str, tuple[np.ndarray, ...], dict[str, Any], str]] = [
    ("SkipLayerNormalization", (X[:1], X, X[0, 0]), {}, r"skip f32\[2,3,12\] does not broadcast to f32\[1,3,12\]"),
    ("SkipLayerNormalization", (X, X, X[0, 0, :5]), {}, r"gamma f32\[5\] for f32\[2,3,12\]"),
    ("EmbedLayerNormalization", (IDS, IDS, X[0], X[0, :2], X[0]), {}, "3 tokens where position_embedding has 2 rows"),
    ("EmbedLayerNormalization", (IDS, IDS, X[0], X[0], X[0]), {}, "gamma is missing"),
    ("RotaryEmbedding", (X, IDS, X[0, :, :5], X[0, :, :5]), {}, "in heads of 10"),
    ("RotaryEmbedding", (X, IDS[:1], X[0, :, :6], X[0, :, :6]), {}, r"position_ids .* where \[2, 3\] is needed"),
    ("Attention", (X, np.zeros((12, 12), F)), {"num_heads": 0}, "0 heads"),
    ("Attention", (X, np.zeros((12, 12), F), X[0, 0], np.zeros(5, np.int32)), {"num_heads": 2}, r"a mask i32\[5\]"),
    (
        "Attention",
        (X, np.zeros((12, 12), F)),
        {"num_heads": 2, "qkv_hidden_sizes": [4, 4, 5]},
        "for .4, 4, 5. elements",
    ),
    ("MultiHeadAttention", (X,), {"num_heads": 2}, "packed or transposed inputs"),
    ("MultiHeadAttention", (X, X, X, X[0, 0]), {"num_heads": 2}, r"bias f32\[12\] where 36 elements are needed"),
]


@pytest.mark.parametrize(("op", "arrays", "attributes", "problem"), BAD)
def test_bad_nodes_are_refused_with_a_reason(
    tmp_path: Path, op: str, arrays: tuple[np.ndarray, ...], attributes: dict[str, Any], problem: str
) -> None:
    inputs = {f"i{i}": a for i, a in enumerate(arrays)}
    save(tmp_path / "m.onnx", op, inputs, [("y", F)], 17, domain=MICROSOFT, **attributes)
    with pytest.raises(MavcgError, match=rf"node 'the_node' .*{op}.*: .*({problem})"):
        import_onnx(tmp_path / "m.onnx")
