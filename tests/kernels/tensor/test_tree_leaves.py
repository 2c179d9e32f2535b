"""Leaves of decision trees against the definition: all comparisons, NaN, leaves as roots, views of larger tensors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.graph.builder import GraphBuilder
from mavcg.graph.ops.trees import COMPARISONS, LEAF, MOST_LEVELS, NAN_HOLDS, levels_of
from mavcg.graph.parts import TensorType
from mavcg.graph.reference import evaluate
from mavcg.specs.kernel import Machine, View
from tests.kernels.emulated_steps import emulated_node, run_emulated

Array = NDArray[Any]
AssertNode = Callable[..., list[Array]]
Inside = Callable[..., View]


def random_trees(rng: np.random.Generator, trees: int, features: int, rules: list[int]) -> tuple[Array, Array]:
    """Nodes and roots of trees that branch until chance, or ten levels, end them."""
    nodes: list[list[int]] = []
    roots = []
    for _ in range(trees):
        roots.append(len(nodes))
        waiting = [(len(nodes), 0)]
        nodes.append([7, 7, 7, LEAF])  # a leaf's other numbers mean nothing
        while waiting:
            at, depth = waiting.pop()
            if depth < 10 and rng.random() < 0.7:
                first = len(nodes)
                nodes[at] = [int(rng.integers(features)), first, first + 1, int(rng.choice(rules))]
                nodes += [[7, 7, 7, LEAF], [7, 7, 7, LEAF]]
                waiting += [(first, depth + 1), (first + 1, depth + 1)]
    return np.array(nodes, np.int32), np.array(roots, np.int32)


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rules", [[0], [5], [2, 2 + NAN_HOLDS], list(range(6)), [*range(6), *range(8, 14)]])
@pytest.mark.parametrize("trees", [1, 16, 37])
def test_leaves(assert_node: AssertNode, inside: Inside, dtype: Any, rules: list[int], trees: int) -> None:
    rng = np.random.default_rng(trees)
    nodes, roots = random_trees(rng, trees, 5, rules)
    x = rng.integers(-2, 3, (7, 5)).astype(dtype)  # whole, as thresholds are: ties occur
    x[1, 2] = x[5, 0] = np.nan
    thresholds = rng.integers(-2, 3, len(nodes)).astype(dtype)
    name = np.dtype(dtype).name.replace("float", "f")
    views = {"x0": inside(name, x.shape), "y": inside("i32", (7, trees))}
    assert_node("tree_leaves", (x, nodes, thresholds, roots), constants=(1, 2, 3))
    assert_node("tree_leaves", (x, nodes, thresholds, roots), constants=(1, 2, 3), views=views)


def test_samples_and_trees_that_are_not_there(assert_node: AssertNode) -> None:
    nodes, thresholds = np.array([[0, 0, 0, LEAF]], np.int32), np.zeros(1, np.float32)
    for samples, trees in ((0, 3), (3, 0)):
        x, roots = np.zeros((samples, 2), np.float32), np.zeros(trees, np.int32)
        assert_node("tree_leaves", (x, nodes, thresholds, roots), constants=(1, 2, 3))


@pytest.mark.long
def test_leaves_on_aarch64(tmp_path: Path) -> None:
    nodes, roots = random_trees(np.random.default_rng(1), 20, 5, [0, 2 + NAN_HOLDS])
    x = np.random.default_rng(2).standard_normal((3, 5)).astype(np.float32)
    b = GraphBuilder("trees")
    thresholds = np.random.default_rng(3).standard_normal(len(nodes)).astype(np.float32)
    tables = [b.constant(each) for each in (nodes, thresholds, roots)]
    graph = b.finish([b.add("tree_leaves", [b.input("x", TensorType("f32", x.shape)), *tables])])
    (made,) = run_emulated(
        [emulated_node(graph, {"x": x})], Machine("generic", "aarch64", "generic", ("+neon",)), tmp_path
    )
    (expected,) = evaluate(graph.nodes[0], [x, nodes, thresholds, roots])
    np.testing.assert_array_equal(made, expected)


def test_levels_by_walking_down() -> None:
    nodes, roots = random_trees(np.random.default_rng(3), 20, 4, list(range(len(COMPARISONS))))

    def levels(at: int) -> int:
        _, if_true, if_false, rule = nodes[at]
        return 0 if rule == LEAF else 1 + max(levels(if_true), levels(if_false))

    assert levels_of(nodes, roots).tolist() == [levels(root) for root in roots]


def test_levels_of_a_cycle() -> None:
    nodes = np.array([[0, 1, 2, 0], [0, 0, 2, 0], [0, 0, 0, LEAF]], np.int32)
    assert levels_of(nodes, np.array([0, 2])).tolist() == [MOST_LEVELS + 1, 0]
