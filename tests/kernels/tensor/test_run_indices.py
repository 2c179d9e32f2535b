"""flat_index and scatter: offsets of indices, the fault word, updates in order, nothing touched outside."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph, type_of
from mavcg.graph.ops import infer, make_node
from mavcg.specs.kernel import View
from tests.kernels.conftest import machines_of_all_widths, run_node_on

Array = NDArray[Any]
AssertNode = Callable[..., list[Array]]
Inside = Callable[..., View]


def noise(dtype: str, shape: Sequence[int]) -> Array:
    rng = np.random.default_rng(1)
    if DTYPES[dtype].kind == "f":
        return rng.standard_normal(shape).astype(DTYPES[dtype])
    return rng.integers(0, 9, shape).astype(DTYPES[dtype])


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_offsets_of_indices(assert_node: AssertNode, inside: Inside, dtype: str) -> None:
    indices = np.stack([np.arange(2100) % 10 - 5, np.arange(2100) % 7], -1).reshape(3, 700, 2).astype(DTYPES[dtype])
    attrs = {"lengths": (5, 7), "strides": (7, 1), "offsets": (35, 0)}
    assert_node("flat_index", (indices,), **attrs)
    views = {"x0": inside(dtype, indices.shape), "y": inside("i64", (3, 700), 2)}
    assert_node("flat_index", (indices,), views=views, **attrs)
    assert_node("flat_index", (indices[0, 6],), **(attrs | {"offsets": ()}))


def run_faulty(op: str, inputs: Sequence[Array], **attrs: Any) -> tuple[Array, int]:
    """The result of a node by a kernel, and the fault word."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = make_node(op, names, ("y",), "tested", **attrs)
    types = {name: type_of(array) for name, array in zip(names, inputs, strict=True)}
    types["y"] = infer(node, types)[0]
    graph, word = Graph("test", tuple(names), ("y",), (node,), types), np.zeros(1, np.int32)
    arrays = dict(zip(names, inputs, strict=True))
    (result,) = run_node_on(machines_of_all_widths()[0], node, graph, arrays, parts=2, optimised=False, fault=word)
    return result, int(word[0])


@pytest.mark.parametrize(
    ("index", "from_end", "flat", "fault"),
    [
        (4, True, 4, 0),
        (5, True, 4, 1),
        (-5, True, 0, 0),
        (-6, True, 0, 1),
        (2**62, True, 4, 1),
        (-(2**63), True, 0, 1),
        (2**63 - 1, False, 4, 1),
        (-1, False, 0, 1),
        (0, False, 0, 0),
    ],
)
def test_an_index_outside_sets_the_fault_word(index: int, from_end: bool, flat: int, fault: int) -> None:
    indices = np.ones((1500, 1), np.int64)
    indices[1400] = index
    attrs = {"lengths": (5,), "strides": (1,), "offsets": (0,), "from_end": from_end}
    computed, word = run_faulty("flat_index", (indices,), **attrs)
    assert (computed[1400], word) == (flat, fault) and (np.delete(computed, 1400) == 1).all()


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["f32", "i64", "u8"])
def test_updates_in_order(assert_node: AssertNode, inside: Inside, dtype: str, reduction: str) -> None:
    x, indices = noise(dtype, (6, 37)), np.array([3, 0, 3, 5, 3, 0], np.int64)
    updates = noise(dtype, (6, 37)) + np.arange(6).astype(x.dtype)[:, None]
    rounding = {"rtol": 1e-6, "atol": 1e-6} if dtype == "f32" and reduction in ("add", "mul") else {}
    assert_node("scatter", (x, indices, updates), reduction=reduction, **rounding)
    if dtype == "f32":
        assert_node("scatter", (x[:, 0], indices, updates[:, 0]), reduction=reduction, **rounding)
        views = {"x0": inside(dtype, x.shape), "x2": inside(dtype, updates.shape, 5), "y": inside(dtype, x.shape, 4)}
        assert_node("scatter", (x, indices, updates), reduction=reduction, views=views, **rounding)


def test_scatter_of_wide_rows_and_of_none(assert_node: AssertNode) -> None:
    x = noise("f32", (3, 2, 1100))
    assert_node("scatter", (x, np.array([2, 1], np.int32), x[:2] + 1))
    assert_node("scatter", (x, np.zeros(0, np.int32), x[:0]))


def test_scatter_writes_nothing_outside() -> None:
    x, indices = np.zeros((4, 3), np.float32), np.array([2**62, -(2**63), 1], np.int64)
    computed, _ = run_faulty("scatter", (x, indices, np.ones((3, 3), np.float32)))
    np.testing.assert_array_equal(computed[:, 0], [1, 1, 0, 1])


def test_known_indices_outside_are_refused() -> None:
    types = {"x": type_of(np.zeros((1, 1), np.int64))}
    node = make_node("flat_index", ("x",), ("y",), "n", lengths=(3,), strides=(1,), offsets=(0,), from_end=False)
    with pytest.raises(MavcgError, match="indices from -1 to -1 of a dimension with 3"):
        infer(node, types, {"x": np.full((1, 1), -1)})
