"""Resize to sizes that follow from the lengths of a run, and with aligned corners.

Values are compared with onnxruntime's, and bits with those of kernels for each length.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.graph.counts import Dimension
from mavcg.importers.onnx_file import import_onnx
from mavcg.passes.graph.resize_tables import follows_rule

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Images  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import assert_images, assert_right  # noqa: E402
from tests.mavcg.choose.lengths.bounded_windows import (  # noqa: E402
    atrous_pyramid,
    images,
    pyramid_of_features,
    to_the_size_of,
)

SMALL = {"height": (7, 40), "width": (9, 41)}
LENGTHS = [(7, 9), (40, 41), (39, 40), (8, 33), (17, 16), (32, 24), (13, 10)]
MODES: tuple[dict[str, Any], ...] = (
    {"mode": "linear"},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "nearest"},
    {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
    {"mode": "nearest", "coordinate_transformation_mode": "align_corners", "nearest_mode": "ceil"},
    {"mode": "cubic"},
    {"mode": "cubic", "coordinate_transformation_mode": "align_corners", "cubic_coeff_a": -0.5},
)


@pytest.mark.parametrize("attributes", MODES, ids=lambda each: " ".join(map(str, each.values())))
@pytest.mark.sample(1)
def test_features_of_another_level(tmp_path: Path, attributes: dict[str, Any]) -> None:
    net = images(lambda net: pyramid_of_features(net, **attributes), 1, 3, "height", "width")
    assert_images(tmp_path, net, SMALL, LENGTHS, LENGTHS[1:4])


@pytest.mark.parametrize("attributes", MODES, ids=lambda each: " ".join(map(str, each.values())))
@pytest.mark.long
def test_maps_of_the_size_of_the_image(tmp_path: Path, attributes: dict[str, Any]) -> None:
    """A head of a segmentation network: the factor is 8 or nearly 8."""

    def write(net: Images) -> None:
        for _ in range(3):
            net.conv(6, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
        to_the_size_of(net, "x", **attributes)

    assert_images(
        tmp_path,
        images(write, "batch", 3, "height", "width"),
        {"batch": (1, 2), **SMALL},
        [(1 + i % 2, *each) for i, each in enumerate(LENGTHS)],
        [(2, 40, 41), (1, 39, 40)],
    )


@pytest.mark.parametrize("factor", [2.0, 1.5])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.sample(1)
def test_corners_are_aligned(tmp_path: Path, factor: float, mode: str) -> None:
    """By a constant factor, which the positions do not follow."""
    net = Images(1, 3, None, 8)
    scales = net.constant(np.array([1, 1, factor, factor], np.float32))
    net.add("Resize", "x", "", scales, mode=mode, coordinate_transformation_mode="align_corners")
    net.conv(4, 3, 3, pads=[1, 1, 1, 1])
    lengths = (4, 5, 6, 7, 8, 38, 39, 40)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("height", 4, 40), lengths, (5, 8, 38, 39))


@pytest.mark.parametrize("rule", ["half_pixel", "align_corners"])
@pytest.mark.long
def test_atrous_pyramids(tmp_path: Path, rule: str) -> None:
    """One pixel, the mean of an image, becomes an image of the run's size."""
    net = images(
        lambda net: atrous_pyramid(net, mode="linear", coordinate_transformation_mode=rule), 1, 3, "height", "width"
    )
    assert_images(tmp_path, net, SMALL, LENGTHS[:4], LENGTHS[1:3])


def test_a_resize_that_changes_nothing_at_some_lengths(tmp_path: Path) -> None:
    """An image of one pixel already is as large as its mean, so the model has no resize there."""

    def write(net: Images) -> None:
        net.conv(4, 1, 1)
        before = net.last
        net.add("GlobalAveragePool", before)
        to_the_size_of(net, before, mode="linear")
        net.add("Add", before, net.last)

    net = images(write, 1, 3, None, 1)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("height", 1, 20), (1, 2, 20), (20,))


@pytest.mark.sample(1)
@pytest.mark.parametrize("attributes", [MODES[0], MODES[5]], ids=["linear", "nearest"])
def test_a_resize_of_images_of_one_or_two_rows(tmp_path: Path, attributes: dict[str, Any]) -> None:
    """Its factor is two at the longest length, but it is no multiple: an image of one row is as high as before."""

    def write(net: Images) -> None:
        before = net.last
        net.add("AveragePool", before, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
        to_the_size_of(net, before, **attributes)

    net = images(write, 1, 3, None, 8)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("height", 1, 2), (1, 2), (2,))


def test_maps_of_half_of_a_square_image(tmp_path: Path) -> None:
    """At even lengths a row of pixels has as many numbers as the table of weights: one is not taken for the other."""

    def write(net: Images) -> None:
        net.conv(8, 1, 1)
        before = net.last
        net.add("MaxPool", before, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
        to_the_size_of(net, before, mode="cubic")
        net.conv(8, 3, 1, group=8, pads=[1, 0, 1, 0])

    net = images(write, 1, 3, None, None)
    assert_right(net.save(tmp_path / "m.onnx"), net.shape, Dimension("side", 1, 8), (1, 2, 3, 7, 8), (3, 7))


@pytest.mark.long
def test_a_fixed_size(tmp_path: Path) -> None:
    """Images of any height and width become those of one."""

    def write(net: Images) -> None:
        net.conv(5, 3, 3, pads=[1, 1, 1, 1])
        net.add("Resize", net.last, "", "", net.constant(np.array([1, 5, 6, 45])), mode="linear")
        net.conv(3, 6, 45, act="")

    assert_images(tmp_path, images(write, 1, 3, "height", "width"), SMALL, LENGTHS, LENGTHS[1:3])


@given(
    before=st.integers(1, 60),
    after=st.integers(1, 60),
    attributes=st.sampled_from(MODES),
)
def test_tables_of_rules_are_those_of_the_importer(
    tmp_path: Path, before: int, after: int, attributes: dict[str, Any]
) -> None:
    net = Images(1, 2, before)
    net.add("Resize", "x", "", "", net.constant(np.array([1, 2, after])), **attributes)
    graph = import_onnx(net.save(tmp_path / "m.onnx"))
    assert all(follows_rule(node, graph) for node in graph.nodes if node.op == "resample")
    assert before == after or any(node.op == "resample" and node.attr("rule") for node in graph.nodes)
