"""Attention against its definition in double precision; all vector lengths and ranges of rows have the same bytes."""

from math import gcd
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mavcg.graph import Graph, type_of
from mavcg.graph.ops import infer, make_node
from mavcg.kernels.registry import lower
from mavcg.specs.kernel import Machine, Packing, View, dense_view
from tests.conftest import NO_SHRINKING, examples
from tests.kernels.conftest import AssertNode, host_machines, run_node_on
from tests.kernels.emulated_steps import emulated_node, run_emulated

Array = NDArray[np.float32]


def noise(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(np.float32)


def parts(
    batch: int, tokens: int, keys: int, heads: tuple[int, int], sizes: tuple[int, int]
) -> tuple[Array, Array, Array]:
    return (
        noise(batch, tokens, heads[0], sizes[0], seed=1),
        noise(batch, keys, heads[1], sizes[0], seed=2),
        noise(batch, keys, heads[1], sizes[1], seed=3),
    )


@pytest.mark.parametrize("keys", [1, 9, 64, 130])
@pytest.mark.sample(2)
def test_of_some_keys(assert_node: AssertNode, keys: int) -> None:
    query, key, value = parts(1, 37, keys, (3, 3), (8, 12))
    assert_node("attention", (query, key, value, None, None), scale=0.35, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("sharing", [1, 2, 3, 4, 5, 7, 8, 12, 48])
def test_chunks_have_whole_vectors_of_queries(sharing: int) -> None:
    """A chunk's rows are a token's queries of a head of keys each; 16 queries are a vector of AVX-512."""
    query, key, value = parts(1, 64, 64, (2 * sharing, 2), (8, 8))
    inputs = {"q": query, "k": key, "v": value}
    types = {name: type_of(array) for name, array in inputs.items()}
    node = make_node("attention", tuple(inputs), ("y",), "tested", scale=1.0)
    types["y"] = infer(node, types)[0]
    graph = Graph("test", tuple(inputs), ("y",), (node,), types)
    (step,) = lower(node, graph, {name: dense_view(typ) for name, typ in types.items()}, Packing(16))
    queries = step.spec.shared_rows * sharing
    assert queries % 16 == 0 and queries >= 32 > queries - 16 * max(1, sharing // gcd(sharing, 16))


def test_of_other_sizes_in_a_batch(assert_node: AssertNode) -> None:
    query, key, value = parts(2, 5, 70, (4, 2), (7, 3))
    assert_node("attention", (query, key, value, None, None), scale=1.0, rtol=1e-5, atol=2e-6)


def test_causal_with_a_count_of_keys(assert_node: AssertNode) -> None:
    query, key, value = parts(3, 4, 90, (4, 2), (8, 8))
    value[0, 77:], value[1, 5:], key[2, 4:] = np.nan, np.nan, np.nan  # room of a cache, which is not read
    count = np.array([77, 5, 4], np.int32)
    (result, *_) = assert_node(
        "attention", (query, key, value, None, count), scale=0.5, causal=True, rtol=1e-5, atol=2e-6
    )
    assert np.isfinite(result).all()
    assert_node("attention", (query, key, value, None, np.array([4])), scale=0.5, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("shape", [(2, 1, 1, 70), (1, 4, 1, 70), (1, 1, 6, 70), (2, 4, 6, 70), (2, 4, 6, 1)])
@pytest.mark.sample(3)
def test_masks(assert_node: AssertNode, shape: tuple[int, int, int, int]) -> None:
    query, key, value = parts(2, 6, 70, (4, 2), (8, 8))
    mask = noise(*shape, scale=3.0)
    mask[..., 1:4] = -np.inf if shape[-1] > 4 else 1.5
    assert_node("attention", (query, key, value, mask, None), scale=0.35, rtol=1e-5, atol=2e-6)


def test_scores_of_any_size(assert_node: AssertNode) -> None:
    """The running maximum grows from block to block; scores far below it weigh nothing."""
    query, key, value = parts(1, 3, 200, (1, 1), (4, 4))
    key *= np.linspace(1, 400, 200, dtype=np.float32)[None, :, None, None]
    assert_node("attention", (query, key, value, None, None), scale=1.0, rtol=1e-3, atol=1e-4)
    least = np.full((1, 1, 1, 200), np.finfo(np.float32).min, np.float32)
    assert_node("attention", (query, key * 0, value, least, None), scale=1.0, rtol=1e-4, atol=1e-5)


def test_a_query_that_sees_nothing_is_nan(assert_node: AssertNode) -> None:
    query, key, value = parts(1, 3, 5, (1, 1), (4, 4))
    mask = np.zeros((1, 1, 3, 5), np.float32)
    mask[0, 0, 1] = -np.inf
    (result, *_) = assert_node("attention", (query, key, value, mask, None), scale=1.0, rtol=1e-5, atol=1e-6)
    assert np.isnan(result[0, 1]).all() and np.isfinite(result[0, ::2]).all()


def test_a_query_that_sees_nothing_is_zero_if_it_says_so(assert_node: AssertNode) -> None:
    query, key, value = parts(2, 3, 5, (2, 1), (4, 4))
    mask = np.zeros((1, 1, 3, 5), np.float32)
    mask[0, 0, 1] = -np.inf
    more = {"scale": 1.0, "zero_unseen": True, "rtol": 1e-5, "atol": 1e-6}
    (result, *_) = assert_node("attention", (query, key, value, mask, None), **more)
    assert not result[:, 1].any() and result[:, ::2].all()
    (result, *_) = assert_node("attention", (query, key, value, None, np.array([0, 2])), causal=True, **more)
    assert not result[0].any() and not result[1, 0].any() and result[1, 1:].all()
    query[0, 2] = np.nan
    (result, *_) = assert_node("attention", (query, key, value, None, None), **more)
    assert np.isnan(result[0, 2]).all() and np.isfinite(result[1]).all()


@pytest.mark.parametrize("tokens", [1, pytest.param(19, marks=pytest.mark.long)])
def test_sinks(assert_node: AssertNode, tokens: int) -> None:
    """Scores without a value, one above and one far below all others."""
    query, key, value = parts(2, tokens, 70, (4, 2), (8, 5))
    sink = np.array([0.0, 9.0, -50.0, 1.0], np.float32)
    more = {"scale": 0.35, "rtol": 1e-5, "atol": 2e-6, "causal": True}
    assert_node("attention", (query, key, value, None, np.array([69, 33]), sink), **more)
    assert_node("attention", (query, key, value, None, None, sink), softcap=2.0, window=9, **more)


def test_caches_of_8_bits(assert_node: AssertNode) -> None:
    query, _, _ = parts(2, 3, 70, (4, 2), (8, 5))
    rng = np.random.default_rng(0)
    key, value = (rng.integers(-128, 128, (2, 2, 70, size)).astype(np.int8) for size in (8, 5))
    inputs = (query, key, value, None, np.array([69, 33]))
    assert_node("attention", inputs, scale=0.01, causal=True, heads_first=True, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("stored", ["uint4", "float8e4m3fn"])
@pytest.mark.parametrize("sizes", [(8, 6), pytest.param((14, 22), marks=pytest.mark.long)])
def test_caches_of_other_numbers(assert_node: AssertNode, stored: str, sizes: tuple[int, int]) -> None:
    """Two numbers of 4 bits in a byte; all floats of 8 bits, subnormal ones too, but NaN."""
    query, _, _ = parts(2, 3, 70, (4, 2), sizes)
    rng, of_byte = np.random.default_rng(0), 2 if stored == "uint4" else 1
    key, value = (rng.integers(0, 256, (2, 2, 70, size // of_byte)).astype(np.uint8) for size in sizes)
    if stored == "float8e4m3fn":
        key, value = (np.where(part & 127 == 127, part - 1, part) for part in (key, value))
    inputs = (query, key, value, None, np.array([69, 33]))
    more = {"scale": 0.01, "causal": True, "heads_first": True, "stored": stored}
    assert_node("attention", inputs, rtol=1e-5, atol=2e-4, **more)


def test_floats_of_8_bits_that_are_no_numbers(assert_node: AssertNode) -> None:
    query, _, _ = parts(1, 1, 5, (1, 1), (4, 4))
    value = np.full((1, 5, 1, 4), 0x38, np.uint8)
    value[..., 0], value[..., 1] = 0x7F, 0xFF
    inputs = (query, np.zeros_like(value), value, None, None)
    (result, *_) = assert_node("attention", inputs, rtol=1e-6, atol=1e-6, scale=1.0, stored="float8e4m3fn")
    assert np.isnan(result[..., :2]).all()
    np.testing.assert_allclose(result[..., 2:], 1)


def test_halves(assert_node: AssertNode) -> None:
    query, key, value = parts(1, 9, 70, (4, 2), (8, 8))
    mask = noise(1, 1, 1, 70)
    halves = [array.astype(np.float16) for array in (query, key, value)]
    assert_node("attention", (*halves, mask, None), scale=0.35, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("shape", [(1, 1, 1, 70), (1, 4, 9, 70)])
def test_masks_are_added_to_capped_scores(assert_node: AssertNode, shape: tuple[int, ...]) -> None:
    """One row for all queries, and one for each; keys that are hidden, and numbers far above the cap."""
    query, key, value = parts(1, 9, 70, (4, 2), (8, 5))
    mask = 4 * noise(*shape)
    mask[..., 3::7] = -np.inf
    assert_node("attention", (query, key, value, mask, None), scale=0.9, softcap=0.7, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("more", [{"window": 1}, {"window": 70}, {"softcap": 0.7}])
def test_windows_caps_and_caches(assert_node: AssertNode, more: dict[str, float]) -> None:
    """Caches with the heads before the keys; sequences of different lengths, of which one is shorter than a window."""
    query, key, value = parts(2, 3, 150, (4, 2), (8, 5))
    caches = (np.ascontiguousarray(part.transpose(0, 2, 1, 3)) for part in (key, value))
    inputs = (query, *caches, None, np.array([149, 33]))
    assert_node("attention", inputs, scale=0.35, causal=True, heads_first=True, rtol=1e-5, atol=2e-6, **more)


def test_heads_that_lie_apart(assert_node: AssertNode) -> None:
    """Query, key and value are thirds of one product's columns, the output a part of a wider tensor."""
    query, key, value = parts(1, 9, 9, (2, 2), (6, 6))
    apart = View("f32", (1, 9, 2, 6), (9 * 50, 50, 20, 1))
    odd = View("f32", (1, 9, 2, 6), (9 * 50, 50, 24, 3))
    assert_node(
        "attention",
        (query, key, value, None, None),
        scale=0.35,
        rtol=1e-5,
        atol=2e-6,
        views={"x0": odd, "x1": apart, "x2": odd, "y": apart},
    )


@settings(max_examples=examples(300, 3), phases=NO_SHRINKING)
@given(
    batch=st.integers(1, 3),
    tokens=st.integers(1, 70),
    keys=st.integers(1, 150),
    heads=st.sampled_from(((1, 1), (3, 3), (4, 2), (8, 1))),
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    causal=st.booleans(),
    masked=st.sampled_from((None, (1, 1, 1, 1), (0, 1, 1, 1), (1, 1, 0, 1), (0, 0, 0, 1), (1, 0, 1, 1))),
    seed=st.integers(0, 99),
)
def test_random_attention_agrees_with_the_definition(
    assert_node: AssertNode,
    batch: int,
    tokens: int,
    keys: int,
    heads: tuple[int, int],
    sizes: tuple[int, int],
    causal: bool,
    masked: tuple[int, ...] | None,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    query, key, value = parts(batch, tokens, keys, heads, sizes)
    count = rng.integers(1, keys + 1, batch) if seed % 2 else None
    causal = causal and tokens <= (keys if count is None else count.min())
    whole = (batch, heads[0], tokens, keys)
    mask = None
    if masked is not None:
        mask = noise(*(n if of else 1 for n, of in zip(whole, masked, strict=True)))
    assert_node("attention", (query, key, value, mask, count), scale=0.3, causal=causal, rtol=2e-5, atol=5e-6)


@pytest.mark.long
def test_aarch64_has_the_bytes_of_this_machine(tmp_path: Path) -> None:
    """It multiplies by lanes of registers; heads of 8 and of 7 elements, masked, causal, of a part of the keys."""
    nodes, expected = [], []
    for sizes, shape, count in (((8, 8), (1, 1, 1, 70), None), ((7, 6), (1, 4, 6, 70), np.array([66]))):
        query, key, value = parts(1, 6, 70, (4, 2), sizes)
        arrays = {"q": query, "k": key, "v": value, "m": noise(*shape), **({} if count is None else {"n": count})}
        names = ("q", "k", "v", "m", "" if count is None else "n")
        node = make_node("attention", names, ("y",), "tested", scale=0.3, causal=count is not None)
        types = {name: type_of(array) for name, array in arrays.items()}
        types["y"] = infer(node, types)[0]
        graph = Graph("test", tuple(arrays), ("y",), (node,), types)
        nodes.append(emulated_node(graph, arrays))
        expected.append(run_node_on(host_machines()[0], node, graph, arrays, optimised=False)[0])
    for stored, of_byte in (("uint4", 2), ("float8e4m3fn", 1)):
        query, _, _ = parts(1, 6, 70, (4, 2), (14, 14))
        rng = np.random.default_rng(0)
        caches = {name: rng.integers(0, 127, (1, 2, 70, 14 // of_byte)).astype(np.uint8) for name in "kv"}
        arrays = {"q": query, **caches}
        node = make_node("attention", (*arrays, "", ""), ("y",), "tested", scale=0.1, heads_first=True, stored=stored)
        types = {name: type_of(array) for name, array in arrays.items()}
        types["y"] = infer(node, types)[0]
        graph = Graph("test", tuple(arrays), ("y",), (node,), types)
        nodes.append(emulated_node(graph, arrays))
        expected.append(run_node_on(host_machines()[0], node, graph, arrays, optimised=False)[0])
    machine = Machine("generic", "aarch64", "generic", ("+neon",))
    for have, want in zip(run_emulated(nodes, machine, tmp_path), expected, strict=True):
        assert have.tobytes() == want.tobytes()
