"""GridSample, RoiAlign and DeformConv against onnxruntime."""

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
Y = [("y", "float32")]


def floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


@settings(max_examples=examples(40, 10))
@given(
    st.sampled_from([("nearest", 2), ("linear", 2), ("cubic", 2), ("nearest", 3), ("linear", 3)]),
    st.sampled_from(["zeros", "border", "reflection"]),
    st.booleans(),
    st.integers(0, 1 << 20),
)
def test_grids(tmp_path_factory: Any, mode: tuple[str, int], padding: str, aligned: bool, seed: int) -> None:
    """Positions reach far beyond the image, and edges of length 1 have no direction."""
    name, spatial = mode
    random = np.random.default_rng(seed)
    lengths = random.integers(2 if name == "cubic" or padding == "reflection" else 1, 6, spatial)
    out = random.integers(1, 5, spatial)
    x = floats(random, 2, 3, *lengths)
    grid = random.uniform(-2.5, 2.5, (2, *out, spatial)).astype(np.float32)
    path = tmp_path_factory.mktemp("grid") / "m.onnx"
    save(path, "GridSample", {"x": x, "g": grid}, Y, 20, mode=name, padding_mode=padding, align_corners=int(aligned))

    assert_agrees(path, x, grid, tolerance=2e-4)


def test_a_position_that_is_no_number_reads_inside(tmp_path: Path) -> None:
    x, grid = np.ones((1, 1, 3, 3), np.float32), np.full((1, 1, 2, 2), [[np.nan, 0], [np.inf, -np.inf]], np.float32)
    save(tmp_path / "m.onnx", "GridSample", {"x": x, "g": grid}, Y, 16, mode="nearest", padding_mode="border")
    (made,) = assert_agrees(tmp_path / "m.onnx", x, grid)
    np.testing.assert_array_equal(made, 1)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize(("opset", "scale"), [(10, 0.7), (16, 1.0)])
def test_regions(tmp_path: Path, mode: str, opset: int, scale: float) -> None:
    """Regions inside, across an edge, outside, smaller than an element."""
    random = np.random.default_rng(1)
    x, images = floats(random, 2, 3, 7, 9), np.array([0, 1, 1, 0, 1])
    regions = np.array([[0, 0, 5, 5], [1, 2, 9, 8], [-3, -3, 2, 2], [4, 4, 4.2, 4.1], [20, 20, 30, 30]], np.float32)
    attributes: dict[str, Any] = {
        "mode": mode,
        "output_height": 3,
        "output_width": 2,
        "sampling_ratio": 2,
        "spatial_scale": scale,
    }
    path = tmp_path / "m.onnx"
    save(path, "RoiAlign", {"x": x, "r": regions, "b": images}, Y, opset, **attributes)

    assert_agrees(path, x, regions, images)


@pytest.mark.parametrize(("opset", "scale"), [(10, 1.0), (16, 1.0), (16, 0.5)])
@pytest.mark.parametrize("images", [1, 2])
def test_regions_with_as_many_positions_as_pixels(tmp_path: Path, opset: int, scale: float, images: int) -> None:
    """Random regions; then those without pixels, across an edge, outside, and nearly the largest."""
    random = np.random.default_rng(images)
    x, numbers = floats(random, images, 3, 7, 9), random.integers(0, images, 24)
    corners = random.uniform(-2, 12, (18, 2, 2)).astype(np.float32)
    regions = np.concatenate([corners.min(1), corners.max(1)], 1)
    others = [[4, 4, 4, 4], [5, 5, 2, 1], [-3, -3, 2, 2], [20, 20, 30, 30], [0, 0, 27, 27], [1, 1, 2, 6]]
    regions = np.concatenate([regions, np.array(others, np.float32)])
    attributes: dict[str, Any] = {
        "output_height": 3,
        "output_width": 2,
        "sampling_ratio": 0,
        "spatial_scale": scale,
    }
    path = tmp_path / "m.onnx"
    save(path, "RoiAlign", {"x": x, "r": regions, "b": numbers}, Y, opset, **attributes)

    assert_agrees(path, x, regions, numbers)
    graph = import_onnx(path)
    far = regions.copy()
    far[3] = [0, 0, 5, 80]
    for wrong in ((x, far, numbers), (x, regions, numbers + images), (x, regions, numbers - images)):
        with pytest.raises(MavcgError, match="of a dimension with"):
            run(graph, *wrong)


@settings(max_examples=examples(15, 5))
@given(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]), st.booleans(), st.booleans(), st.integers(0, 1 << 20))
def test_deformable_convolutions(
    tmp_path_factory: Any, sets: tuple[int, int], with_bias: bool, with_mask: bool, seed: int
) -> None:
    groups, offset_groups = sets
    random = np.random.default_rng(seed)
    stride, dilation = random.integers(1, 3, 2).tolist(), random.integers(1, 3, 2).tolist()
    kernel, pads = random.integers(1, 4, 2).tolist(), random.integers(0, 3, 4).tolist()
    size = random.integers(6, 9, 2)
    out = [(size[d] + pads[d] + pads[2 + d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in range(2)]
    taps = kernel[0] * kernel[1]
    inputs = {"x": floats(random, 2, 4, *size), "w": floats(random, 6, 4 // groups, *kernel)}
    inputs["offset"] = 2 * floats(random, 2, offset_groups * taps * 2, *out)
    if with_bias or with_mask:
        inputs["b"] = floats(random, 6) if with_bias else np.zeros(6, np.float32)
    if with_mask:
        inputs["mask"] = floats(random, 2, offset_groups * taps, *out)
    attributes = {
        "strides": stride,
        "dilations": dilation,
        "pads": pads,
        "group": groups,
        "offset_group": offset_groups,
    }
    path = save(tmp_path_factory.mktemp("deform") / "m.onnx", "DeformConv", inputs, Y, 19, **attributes)

    assert_agrees(path, *inputs.values(), tolerance=2e-4)


X, GRID = np.zeros((1, 2, 4, 4), np.float32), np.zeros((1, 3, 3, 2), np.float32)
ROIS, NUMBER = np.zeros((2, 4), np.float32), np.zeros(2, np.int64)
W, OFFSET = np.zeros((2, 2, 2, 2), np.float32), np.zeros((1, 8, 3, 3), np.float32)
BAD: list[tuple[str, tuple[np.ndarray, ...], dict[str, Any], str]] = [
    ("GridSample", (X, GRID), {"mode": "hexagonal"}, "mode 'hexagonal' and padding_mode 'zeros'; there are nearest"),
    ("GridSample", (X, GRID), {"padding_mode": "wrap"}, "padding_mode 'wrap'"),
    ("GridSample", (X, GRID[..., :1]), {}, r"a grid f32\[1,3,3,1\] for images .*; \[1, .., 2\] is needed"),
    ("GridSample", (X, GRID[0]), {}, "4 dimensions are needed"),
    ("GridSample", (X[None], np.zeros((1, 3, 3, 3, 3), np.float32)), {"mode": "cubic"}, "mode cubic in 3 dimensions"),
    ("GridSample", (X[:, :, :0], GRID), {}, "without elements"),
    ("RoiAlign", (X, ROIS, NUMBER), {"mode": "max"}, "the maximum with sampling_ratio 0, of the region's size"),
    ("RoiAlign", (X, ROIS[:, :3], NUMBER), {"sampling_ratio": 1}, "regions f32"),
    ("RoiAlign", (X, ROIS, NUMBER), {"sampling_ratio": 1, "mode": "min"}, "mode 'min'"),
    ("DeformConv", (X, W, OFFSET), {"group": 3}, "in 3 groups"),
    ("DeformConv", (X, W, OFFSET[:, :7]), {}, r"offsets f32\[1,7,3,3\] where \[1, 8, 3, 3\] is needed"),
    ("DeformConv", (X, W, OFFSET, W[0, 0, 0], OFFSET), {}, r"a mask .* where \[1, 4, 3, 3\] is needed"),
]


@pytest.mark.parametrize(("op", "arrays", "attributes", "problem"), BAD)
def test_bad_nodes_are_refused_with_a_reason(
    tmp_path: Path, op: str, arrays: tuple[np.ndarray, ...], attributes: dict[str, Any], problem: str
) -> None:
    save(tmp_path / "m.onnx", op, {f"i{i}": a for i, a in enumerate(arrays)}, Y, 20, **attributes)
    with pytest.raises(MavcgError, match=rf"node 'the_node' \({op}\): .*{problem}"):
        import_onnx(tmp_path / "m.onnx")
