"""MaxPool's Indices, MaxUnpool, Col2Im and TensorScatter against onnxruntime or by hand; block-wise quantisation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx
from tests.conftest import examples
from tests.mavcg.importers.one_node import assert_agrees, save

pytest.importorskip("onnxruntime")
F = "float32"


@settings(max_examples=examples(30, 7))
@given(st.sampled_from([1, 2]), st.sampled_from(["float32", "uint8", "int8"]), st.booleans(), st.integers(0, 1 << 20))
def test_places_of_maxima(tmp_path_factory: Any, spatial: int, dtype: str, columns: bool, seed: int) -> None:
    """Equal elements occur; the first of a window counts."""
    random = np.random.default_rng(seed)
    kernel, strides = random.integers(1, 4, spatial).tolist(), random.integers(1, 4, spatial).tolist()
    dilations = random.integers(1, 3, spatial).tolist()
    pads = [int(random.integers(0, kernel[i % spatial])) for i in range(2 * spatial)]
    x = random.integers(0, 6, (2, 3, *random.integers(5, 9, spatial))).astype(dtype)
    path = save(
        tmp_path_factory.mktemp("pool") / "m.onnx",
        "MaxPool",
        {"x": x},
        [("y", dtype), ("places", "int64")],
        12,
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        pads=pads,
        ceil_mode=int(random.integers(0, 2)),
        storage_order=int(columns),
    )

    assert_agrees(path, x)


def test_places_where_a_window_has_no_element_or_no_largest_one(tmp_path: Path) -> None:
    """Chain 618 of seed 1: two taps around a row of one are both padding, where onnxruntime's place is of its own."""
    x = np.array([[[[1, np.nan, np.nan, np.nan, 2, 3]]]], np.float32)
    names = [("y", F), ("places", "int64")]
    kept: dict[str, Any] = {"kernel_shape": [2, 1], "dilations": [2, 1], "strides": [1, 3], "auto_pad": "SAME_UPPER"}
    path = save(tmp_path / "m.onnx", "MaxPool", {"x": x}, names, 12, **kept)
    _, places = run(import_onnx(path), x)
    assert places.tolist() == [[[[-1, -1]]]]
    kept = {"kernel_shape": [1, 3], "strides": [1, 3], "pads": [0, 1, 0, 1]}
    x[0, 0, 0, 0] = np.nan
    _, places = run(import_onnx(save(tmp_path / "n.onnx", "MaxPool", {"x": x}, names, 12, **kept)), x)
    assert places.tolist() == [[[[0, 2]]]]


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_elements_return_to_their_places(tmp_path: Path, spatial: int) -> None:
    random = np.random.default_rng(spatial)
    x = random.standard_normal((2, 3, *[3] * spatial)).astype(np.float32)
    places = (
        np.stack([random.permutation(6**spatial)[: 3**spatial] for _ in range(6)]) + np.arange(6)[:, None] * 6**spatial
    )
    places = places.reshape(x.shape)
    path = tmp_path / "m.onnx"
    save(path, "MaxUnpool", {"x": x, "i": places}, [("y", F)], 11, kernel_shape=[2] * spatial, strides=[2] * spatial)

    assert_agrees(path, x, places)


def added_up(x: np.ndarray, image: list[int], block: list[int], by: dict[str, list[int]], out: list[int]) -> np.ndarray:
    """Col2Im by its definition."""
    spatial = len(image)
    padded = [n + by["pads"][d] + by["pads"][spatial + d] for d, n in enumerate(image)]
    made = np.zeros((*x.shape[:1], x.shape[1] // int(np.prod(block)), *padded), x.dtype)
    columns = x.reshape(*made.shape[:2], *block, *out)
    for tap in np.ndindex(*block):
        for window in np.ndindex(*out):
            at = tuple(t * d + o * s for t, d, o, s in zip(tap, by["dilations"], window, by["strides"], strict=True))
            made[(..., *at)] += columns[(..., *tap, *window)]
    inside: tuple[Any, ...] = tuple(slice(by["pads"][d], by["pads"][d] + n) for d, n in enumerate(image))
    return made[(..., *inside)]


@settings(max_examples=examples(25, 6))
@given(st.sampled_from([1, 2, 3]), st.integers(0, 1 << 20))
def test_blocks_are_added_up(tmp_path_factory: Any, spatial: int, seed: int) -> None:
    random = np.random.default_rng(seed)

    def draw(low: int, high: int, count: int = spatial) -> list[int]:
        return [int(n) for n in random.integers(low, high, count)]

    block, strides, dilations, pads, image = draw(1, 4), draw(1, 3), draw(1, 3), draw(0, 3, 2 * spatial), draw(6, 9)
    out = [
        (image[d] + pads[d] + pads[spatial + d] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1
        for d in range(spatial)
    ]
    x = random.standard_normal((2, 3 * int(np.prod(block)), int(np.prod(out)))).astype(np.float32)
    known = {"image": np.array(image), "block": np.array(block)}
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads}
    path = save(tmp_path_factory.mktemp("col") / "m.onnx", "Col2Im", {"x": x}, [("y", F)], 18, known, **attributes)

    # onnxruntime mixes channels up in one and three dimensions.
    (made,) = assert_agrees(path, x) if spatial == 2 else run(import_onnx(path), x)
    np.testing.assert_allclose(made, added_up(x, image, block, attributes, out), 1e-5, 1e-5)


@settings(max_examples=examples(20, 5))
@given(st.booleans(), st.sampled_from([(-2, 3), (-2, 4), (1, 4), (2, 4), (-1, 2)]), st.integers(0, 1 << 20))
def test_a_cache_is_updated(tmp_path_factory: Any, circular: bool, axis_rank: tuple[int, int], seed: int) -> None:
    """Against the definition: onnxruntime does not have the operator."""
    axis, rank = axis_rank
    random = np.random.default_rng(seed)
    shape = [2, 3, 2, 3][:rank]
    shape[axis] = 6
    short = list(shape)
    short[axis] = int(random.integers(1, 7))
    cache, update = (random.standard_normal(s).astype(np.float32) for s in (shape, short))
    starts = random.integers(0, 6 if circular else 7 - short[axis], 2)
    mode = "circular" if circular else "linear"
    path = tmp_path_factory.mktemp("cache") / "m.onnx"
    save(path, "TensorScatter", {"c": cache, "u": update, "w": starts}, [("y", F)], 24, axis=axis, mode=mode)

    expected = cache.copy()
    for b in range(2):
        into, source = np.moveaxis(expected[b], axis % rank - 1, 0), np.moveaxis(update[b], axis % rank - 1, 0)
        for i in range(short[axis]):
            into[(starts[b] + i) % 6] = source[i]
    np.testing.assert_array_equal(run(import_onnx(path), cache, update, starts)[0], expected)


@settings(max_examples=examples(25, 6))
@given(
    st.sampled_from(["int8", "uint8", "int16", "uint16"]),
    st.booleans(),
    st.sampled_from([0, 2, 3]),
    st.integers(0, 1 << 20),
)
def test_quantised_by_blocks(tmp_path_factory: Any, dtype: str, with_zero: bool, block: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    axis = int(random.integers(0, 2))
    x = (40 * random.standard_normal((5, 6))).astype(np.float32)
    shape = [-(-n // block) if i == axis else n for i, n in enumerate(x.shape)] if block else [x.shape[axis]]
    scale = random.uniform(0.1, 2, shape).astype(np.float32)
    bounds = np.iinfo(dtype)
    inputs = {"x": x, "s": scale}
    if with_zero or dtype != "uint8":
        inputs["z"] = random.integers(bounds.min, bounds.max, shape, endpoint=True).astype(dtype)
    folder = tmp_path_factory.mktemp("blocks")
    path = save(folder / "q.onnx", "QuantizeLinear", inputs, [("y", dtype)], 21, axis=axis, block_size=block)
    (q,) = assert_agrees(path, *inputs.values(), tolerance=0)

    path = save(folder / "d.onnx", "DequantizeLinear", {**inputs, "x": q}, [("y", F)], 21, axis=axis, block_size=block)
    assert_agrees(path, q, *list(inputs.values())[1:])


def known(**arrays: list[int]) -> dict[str, np.ndarray]:
    return {name: np.array(values) for name, values in arrays.items()}


X = np.zeros((1, 2, 4), np.float32)
BAD: list[tuple[str, tuple[np.ndarray, ...], dict[str, np.ndarray], dict[str, Any], str]] = [
    ("MaxUnpool", (X, X.astype(np.int64)[:, :1]), {}, {"kernel_shape": [2]}, r"places i64\[1,1,4\] of f32\[1,2,4\]"),
    (
        "MaxUnpool",
        (X, X.astype(np.int64)),
        known(s=[1, 2, 3]),
        {"kernel_shape": [2]},
        r"at least \[1, 2, 5\] is needed",
    ),
    ("MaxUnpool", (X, X.astype(np.int64)), {}, {"kernel_shape": [2], "pads": [3, 3]}, r"places .* in \[1, 2, -1\]"),
    ("Col2Im", (X,), known(i=[5], b=[2]), {"strides": [0]}, r"strides \[0\]"),
    ("Col2Im", (X,), known(i=[5], b=[3]), {}, "3 windows of 3 elements of each channel are needed"),
    ("Col2Im", (X,), known(i=[5], b=[2, 2]), {}, r"image_shape \[5\] and block_shape \[2, 2\]"),
    ("TensorScatter", (X, X), {}, {"axis": 0}, "along axis 0"),
    ("TensorScatter", (X, np.zeros((1, 3, 4), np.float32)), {}, {}, r"f32\[1,3,4\] along axis 1 of f32\[1,2,4\]"),
    ("TensorScatter", (X, X, np.zeros(2, np.int64)), {}, {}, r"write_indices are i64\[2\] where i64\[1\]"),
    ("QuantizeLinear", (X, X), {}, {"block_size": 2}, "for blocks of 2 along axis 1"),
    ("DequantizeLinear", (X.astype(np.int8), X), {}, {"block_size": -2}, "for blocks of -2"),
]


@pytest.mark.parametrize(("op", "arrays", "constants", "attributes", "problem"), BAD)
def test_bad_nodes_are_refused_with_a_reason(
    tmp_path: Path,
    op: str,
    arrays: tuple[np.ndarray, ...],
    constants: dict[str, np.ndarray],
    attributes: dict[str, Any],
    problem: str,
) -> None:
    save(tmp_path / "m.onnx", op, {f"i{i}": a for i, a in enumerate(arrays)}, [("y", F)], 24, constants, **attributes)
    with pytest.raises(MavcgError, match=rf"node 'the_node' \({op}\): .*{problem}"):
        import_onnx(tmp_path / "m.onnx")
