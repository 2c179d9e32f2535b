"""Numbers of 2, 4 and 8 bits in blocks, expanded to f32: exactly those of the definition."""

from typing import Any

import numpy as np
import pytest

from mavcg.specs.kernel import View


@pytest.mark.parametrize(("bits", "zeros"), [(2, True), (4, False), (4, True), (4, "f32"), (8, False), (8, True)])
@pytest.mark.parametrize(("depth", "block"), [(37, 16), pytest.param(200, 128, marks=pytest.mark.long)])
def test_expanded(assert_node: Any, bits: int, zeros: Any, depth: int, block: int) -> None:
    rng = np.random.default_rng(depth)
    blocks = -(-depth // block)
    inputs = [
        rng.integers(0, 256, (2, 3, blocks * block * bits // 8)).astype(np.uint8),
        rng.random((2, 3, blocks)).astype(np.float32),
        rng.integers(0, 1 << bits, (2, 3, blocks)).astype(np.uint8) if zeros else None,
    ]
    if zeros == "f32":
        inputs[2] = rng.uniform(0, 16, (2, 3, blocks)).astype(np.float32)
    assert_node("expand_blocks", inputs, rtol=1e-6, bits=bits, block=block, depth=depth)


def test_lines_with_gaps(assert_node: Any) -> None:
    rng = np.random.default_rng(0)
    inputs = [
        rng.integers(0, 256, (4, 16)).astype(np.uint8),
        rng.random((4, 2)).astype(np.float32),
        rng.integers(0, 16, (4, 2)).astype(np.uint8),
    ]
    views = {
        "x0": View("u8", (4, 16), (40, 2)),
        "x1": View("f32", (4, 2), (1, 4)),
        "x2": View("u8", (4, 2), (7, 3)),
        "y": View("f32", (4, 29), (90, 3)),
    }
    assert_node("expand_blocks", inputs, rtol=1e-7, views=views, bits=4, block=16, depth=29)
