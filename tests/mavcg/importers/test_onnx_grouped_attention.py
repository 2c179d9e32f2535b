"""GroupQueryAttention over several runs with caches, and TensorScatter, against onnxruntime."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx
from tests.conftest import examples

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.importers.grouped_attention_models import ROOM, SIZE, TOLERANCE, floats, kept_tokens, model  # noqa: E402

FORMS = st.sampled_from([(4, 4), (4, 2), (6, 1)])


@settings(max_examples=examples(40, 5))
@given(
    FORMS, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([-1, 1, 5]), st.booleans(), st.integers(0, 99)
)
def test_tokens_one_by_one(
    tmp_path_factory: Any,
    heads: tuple[int, int],
    packed: bool,
    rotary: bool,
    interleaved: bool,
    window: int,
    capped: bool,
    seed: int,
) -> None:
    """Sequences of different lengths in one batch, whose caches begin empty."""
    random, batch = np.random.default_rng(seed), 2
    more = {
        "do_rotary": int(rotary),
        "rotary_interleaved": int(interleaved),
        "local_window_size": window,
        "softcap": 3.0 if capped else 0.0,
        "scale": 0.4,
    }
    path = model(tmp_path_factory.mktemp("gqa") / "m.onnx", batch, 1, heads, packed, more=more)
    caches = [np.zeros((batch, heads[1], ROOM, SIZE), np.float32)] * 2
    for place in range(4):
        last = np.array([place, place + 5], np.int32)
        new = parts(random, batch, 1, heads, packed)
        caches = assert_same(path, [*new, *caches, last, np.array(last.max() + 1, np.int32)], last + 1)


def parts(random: np.random.Generator, batch: int, tokens: int, heads: tuple[int, int], packed: bool) -> list[Any]:
    """Query, key and value, in one array or in three."""
    widths = [heads[0] + 2 * heads[1]] if packed else [heads[0], heads[1], heads[1]]
    return [floats(random, batch, tokens, width * SIZE) for width in widths]


def assert_same(path: Path, arrays: list[Any], keys: Any, rows: Any = None) -> list[Any]:
    """Compare a run with onnxruntime's; return its caches. keys: of each sequence. rows: valid tokens of each."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})
    computed = run(import_onnx(path), *arrays)
    for b, count in enumerate(keys):
        used = slice(None) if rows is None else slice(rows[b])
        np.testing.assert_allclose(computed[0][b, used], expected[0][b, used], TOLERANCE, TOLERANCE)
        for have, want in zip(computed[1:], expected[1:], strict=True):
            assert have.shape == want.shape
            np.testing.assert_allclose(have[b, :, :count], want[b, :, :count], TOLERANCE, TOLERANCE)
    return list(computed[1:])


@settings(max_examples=examples(20, 3))
@given(FORMS, st.booleans(), st.booleans(), st.integers(0, 99))
def test_prompts_in_pieces(
    tmp_path_factory: Any, heads: tuple[int, int], packed: bool, rotary: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    more = {"do_rotary": int(rotary), "local_window_size": -1}
    path = model(tmp_path_factory.mktemp("gqa") / "m.onnx", 1, 3, heads, packed, more=more)
    caches = [floats(random, 1, heads[1], ROOM, SIZE) for _ in range(2)]
    for total in (3, 6, 9):
        last = np.array([total - 1], np.int32)
        new = parts(random, 1, 3, heads, packed)
        caches = assert_same(path, [*new, *caches, last, np.array(total, np.int32)], [total])


def test_a_first_prompt_with_padding(tmp_path: Path) -> None:
    random, heads = np.random.default_rng(0), (4, 2)
    path = model(tmp_path / "m.onnx", 2, 5, heads, True, more={"do_rotary": 1})
    caches = [np.zeros((2, 2, ROOM, SIZE), np.float32)] * 2
    last = np.array([2, 4], np.int32)
    new = parts(random, 2, 5, heads, True)
    assert_same(path, [*new, *caches, last, np.array(5, np.int32)], last + 1, last + 1)


def test_pieces_with_padding(tmp_path: Path) -> None:
    """By query_seqlens: 3, then 1 of 4 tokens of the first sequence count, and 4, then 2 of the second."""
    random, heads = np.random.default_rng(0), (4, 2)
    path = model(tmp_path / "m.onnx", 2, 4, heads, True, valid=True, more={"do_rotary": 1})
    caches = [np.zeros((2, 2, ROOM, SIZE), np.float32)] * 2
    keys = np.zeros(2, np.int32)
    for rows in (np.array([3, 4], np.int32), np.array([1, 2], np.int32)):
        keys = keys + rows
        new = parts(random, 2, 4, heads, True)
        arrays = [*new, *caches, keys - 1, np.array(ROOM, np.int32), rows]
        caches = assert_same(path, arrays, keys, rows)


def test_without_a_cache(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    q = floats(random, 1, 5, 8 * SIZE)
    path = model(tmp_path / "m.onnx", 1, 5, (4, 2), True)
    proto = onnx.load(path)
    for name in ("past_key", "past_value"):
        (found,) = (i for i in proto.graph.input if i.name == name)
        proto.graph.input.remove(found)
    proto.graph.node[0].input[3:5] = ["", ""]
    onnx.save(proto, path)
    assert_same(path, [q, np.array([4], np.int32), np.array(5, np.int32)], [5])


def with_inputs(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """The model with the types of further inputs, and with caches of int8 where it has scales of these."""
    proto = onnx.load(path)
    types: dict[str, Any] = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    if "k_scale" in arrays:
        types |= {f"past_{name}": (np.dtype(np.int8), None) for name in ("key", "value")}
    for value in (*proto.graph.input, *proto.graph.output):
        of_past = value.name.replace("present", "past")
        if of_past in types:
            dtype, shape = types[of_past]
            value.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(dtype)
            if shape is not None:
                value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape))
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("softcap", [0.0, 2.0])
def test_sinks(tmp_path: Path, sink: bool, softcap: float) -> None:
    """By smooth_softmax the score of the sink is 0."""
    random, heads = np.random.default_rng(0), (4, 2)
    more = {"softcap": softcap, **({} if sink else {"smooth_softmax": 1})}
    path = model(tmp_path / "m.onnx", 2, 1, heads, True, more=more, names={11: "sink"} if sink else {})
    given = {"sink": np.array([0.5, -3, 4, 0], np.float32)} if sink else {}
    with_inputs(path, given)
    caches = [floats(random, 2, 2, ROOM, SIZE) for _ in range(2)]
    last = np.array([3, 6], np.int32)
    new = parts(random, 2, 1, heads, True)
    assert_same(path, [*new, *caches, last, np.array(7, np.int32), *given.values()], last + 1)


@settings(max_examples=examples(40, 4))
@given(
    FORMS,
    st.sampled_from([(5, 5), (8, 5), (9, 2), (4, 1)]),
    st.lists(st.integers(1, 7), min_size=1, max_size=6),
    st.sampled_from(["", "bias", "rotary"]),
    st.integers(0, 99),
)
def test_caches_of_a_windows_length(
    tmp_path_factory: Any, heads: tuple[int, int], sizes: tuple[int, int], pieces: list[int], kind: str, seed: int
) -> None:
    """A text in pieces of any lengths, some longer than the cache."""
    random, (room, window) = np.random.default_rng(seed), sizes
    more = {"local_window_size": window, "sliding_window_cache": 1, "do_rotary": int(kind == "rotary")}
    caches = [np.zeros((1, heads[1], room, SIZE), np.float32) for _ in range(2)]
    total = 0
    for tokens in pieces:
        total += tokens
        names = {10: "bias"} if kind == "bias" else {}
        bias = {name: floats(random, 1, 1, tokens, total) for name in names.values()}
        path = model(
            tmp_path_factory.mktemp("gqa") / "m.onnx", 1, tokens, heads, True, more=more, names=names, room=room
        )
        with_inputs(path, bias)
        new = parts(random, 1, tokens, heads, True)
        arrays = [*new, *caches, np.array([total - 1], np.int32), np.array(total, np.int32), *bias.values()]
        caches = assert_same(path, arrays, [kept_tokens(total, room, window)])


def test_caches_of_a_windows_length_of_a_batch(tmp_path: Path) -> None:
    """By query_seqlens: sequences of different lengths, one of which rests for a run."""
    random, heads, (room, window) = np.random.default_rng(0), (4, 2), (6, 4)
    more = {"local_window_size": window, "sliding_window_cache": 1, "do_rotary": 1}
    path = model(tmp_path / "m.onnx", 2, 3, heads, True, valid=True, more=more, room=room)
    caches = [np.zeros((2, 2, room, SIZE), np.float32)] * 2
    keys = np.zeros(2, np.int32)
    for rows in ((3, 1), (3, 0), (2, 3), (3, 3), (0, 1)):
        keys = keys + np.array(rows, np.int32)
        new = parts(random, 2, 3, heads, True)
        arrays = [*new, *caches, keys - 1, np.array(keys.max(), np.int32), np.array(rows, np.int32)]
        caches = assert_same(path, arrays, [kept_tokens(int(total), room, window) for total in keys], rows)


@pytest.mark.parametrize("softcap", [0.0, 0.8])
def test_a_bias_of_any_length(tmp_path: Path, softcap: float) -> None:
    """The bias is as long as the text, or as the cache has room, or longer, which onnxruntime refuses. It is added to
    capped scores."""
    random, heads = np.random.default_rng(0), (4, 2)
    bias = floats(random, 1, 4, 3, ROOM + 3)
    caches, new = [floats(random, 1, 2, ROOM, SIZE) for _ in range(2)], parts(random, 1, 3, heads, True)
    results = []
    for length in (8, ROOM, ROOM + 3):
        path = model(tmp_path / "m.onnx", 1, 3, heads, True, more={"softcap": softcap}, names={10: "bias"})
        with_inputs(path, {"bias": bias[..., :length]})
        arrays = [*new, *caches, np.array([7], np.int32), np.array(length, np.int32), bias[..., :length]]
        results.append(run(import_onnx(path), *arrays)[0])
        if length <= ROOM:
            assert_same(path, arrays, [8])
    np.testing.assert_array_equal(results[2], results[1])


@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("tokens", [1, 3])
def test_caches_of_8_bits(tmp_path: Path, kind: str, tokens: int) -> None:
    random, heads = np.random.default_rng(0), (4, 2)
    more = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": 8, "do_rotary": 1}
    path = model(tmp_path / "m.onnx", 1, tokens, heads, False, more=more, names={12: "k_scale", 13: "v_scale"})
    shape = (1,) if kind == "PER_TENSOR" else (1, 2, 1, SIZE)
    scales = {name: random.uniform(0.01, 0.03, shape).astype(np.float32) for name in ("k_scale", "v_scale")}
    with_inputs(path, scales)
    caches = [random.integers(-127, 128, (1, 2, ROOM, SIZE)).astype(np.int8) for _ in range(2)]
    last = np.array([tokens + 3], np.int32)
    new = parts(random, 1, tokens, heads, False)
    arrays = [*new, *caches, last, np.array(tokens + 4, np.int32), *scales.values()]
    assert_same(path, arrays, last + 1)


@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("tokens", [1, 3])
def test_caches_of_4_bits(tmp_path: Path, kind: str, tokens: int) -> None:
    path, scales = quantised_model(tmp_path, kind, tokens, 4, onnx.TensorProto.UINT8)
    random = np.random.default_rng(1)
    caches = [random.integers(0, 256, (1, 2, ROOM, SIZE // 2)).astype(np.uint8) for _ in range(2)]
    last = np.array([tokens + 3], np.int32)
    new = parts(random, 1, tokens, (4, 2), False)
    assert_same(path, [*new, *caches, last, np.array(tokens + 4, np.int32), *scales], last + 1)


def quantised_model(
    folder: Path, kind: str, tokens: int, bits: int, type: int, rotary: int = 1
) -> tuple[Path, list[np.ndarray]]:
    """A model with caches of few bits, of a TensorProto.DataType, and its scales."""
    more = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits, "do_rotary": rotary}
    path = model(folder / "m.onnx", 1, tokens, (4, 2), False, more=more, names={12: "k_scale", 13: "v_scale"})
    shape = (1,) if kind == "PER_TENSOR" else (1, 2, 1, SIZE)
    random = np.random.default_rng(0)
    scales = {name: random.uniform(0.2, 0.5, shape).astype(np.float32) for name in ("k_scale", "v_scale")}
    with_inputs(path, scales)
    proto = onnx.load(path)
    for value in (*proto.graph.input, *proto.graph.output):
        if value.name.startswith(("past", "present")):
            row = SIZE * bits // 8
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, type, (1, 2, ROOM, row)))
    onnx.save(proto, path)
    return path, list(scales.values())


@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
def test_caches_of_floats_of_8_bits(tmp_path: Path, kind: str) -> None:
    """onnxruntime's CPU provider has none; so by NumPy. A number beyond the largest becomes that."""
    tokens, before, random = 3, 4, np.random.default_rng(1)
    path, scales = quantised_model(tmp_path, kind, tokens, 8, onnx.TensorProto.FLOAT8E4M3FN, rotary=0)
    caches = [floats(random, 1, 2, ROOM, SIZE).astype(ml_dtypes.float8_e4m3fn) for _ in range(2)]
    query, *new = parts(random, 1, tokens, (4, 2), False)
    new[0][0, 0, 3] = 1e4
    end = before + tokens
    last, total = np.array([end - 1], np.int32), np.array(end, np.int32)
    arrays = [query, *new, *(cache.view(np.uint8) for cache in caches), last, total, *scales]
    (y, *present) = run(import_onnx(path), *arrays)

    held = []
    for cache, x, scale, have in zip(caches, new, scales, present, strict=True):
        of_heads = np.broadcast_to(scale.reshape(1, -1, 1, scale.shape[-1]), (1, 2, 1, SIZE))
        rows = np.clip(x.reshape(1, tokens, 2, SIZE).swapaxes(1, 2) / of_heads, -448, 448)
        cache[:, :, before:end] = rows.astype(ml_dtypes.float8_e4m3fn)
        np.testing.assert_array_equal(have[:, :, :end], cache.view(np.uint8)[:, :, :end])
        held.append(np.repeat(cache[:, :, :end].astype(np.float64) * of_heads, 2, axis=1))
    scores = np.einsum("bthd,bhkd->bhtk", query.reshape(1, tokens, 4, SIZE).astype(np.float64), held[0]) / np.sqrt(SIZE)
    scores[:, :, np.arange(end) > np.arange(before, end)[:, None]] = -np.inf
    powers = np.exp(scores - scores.max(axis=3, keepdims=True))
    expected = np.einsum("bhtk,bhkd->bthd", powers / powers.sum(axis=3, keepdims=True), held[1])
    np.testing.assert_allclose(y, expected.reshape(y.shape), TOLERANCE, TOLERANCE)


def test_queries_of_16_bits_beside_caches_of_8(tmp_path: Path) -> None:
    """The caches keep their type."""
    path, scales = quantised_model(tmp_path, "PER_TENSOR", 1, 8, onnx.TensorProto.INT8)
    proto = onnx.load(path)
    for value in (*proto.graph.input, *proto.graph.output):
        if value.name in ("q", "k", "v", "y"):
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    for i, tensor in enumerate(proto.graph.initializer):
        half = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        proto.graph.initializer[i].CopyFrom(onnx.numpy_helper.from_array(half, tensor.name))
    onnx.save(proto, path)
    random = np.random.default_rng(1)
    caches = [random.integers(-127, 128, (1, 2, ROOM, SIZE)).astype(np.int8) for _ in range(2)]
    new = [part.astype(np.float16) for part in parts(random, 1, 1, (4, 2), False)]
    y, *present = run(import_onnx(path), *new, *caches, np.array([4], np.int32), np.array(5, np.int32), *scales)
    assert [array.dtype.name for array in (y, *present)] == ["float16", "int8", "int8"]


@pytest.mark.parametrize("output", [1, 2])
@pytest.mark.parametrize(
    ("more", "name"),
    [({"softcap": 2.0}, "bias"), ({"local_window_size": 2}, "sink"), ({"causal": 0}, ""), ({"do_rotary": 1}, "bias")],
)
def test_scores_as_an_output(tmp_path: Path, output: int, more: dict[str, Any], name: str) -> None:
    """Before the softmax, or after it; behind the keys that count ours are 0."""
    random, heads, tokens, total = np.random.default_rng(0), (4, 2), 3, 8
    further = {"sink": (11, floats(random, 4)), "bias": (10, floats(random, 1, 1, tokens, total)), "": (0, None)}
    number, array = further[name]
    path = model(
        tmp_path / "m.onnx",
        1,
        tokens,
        heads,
        True,
        more={**more, "qk_output": output},
        names={number: name} if name else {},
    )
    given = {name: array} if array is not None else {}
    proto = onnx.load(with_inputs(path, given))
    proto.graph.node[0].output.append("scores")
    proto.graph.output.append(onnx.helper.make_tensor_value_info("scores", 1, None))
    onnx.save(proto, path)
    caches = [floats(random, 1, 2, ROOM, SIZE) for _ in range(2)]
    new = parts(random, 1, tokens, heads, True)
    arrays = [*new, *caches, np.array([total - 1], np.int32), np.array(total, np.int32), *given.values()]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    *_, expected = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})
    *_, computed = run(import_onnx(path), *arrays)
    assert computed.shape == (1, 4, tokens, ROOM) and not computed[..., total:].any()
    np.testing.assert_allclose(computed[..., :total], expected, TOLERANCE, TOLERANCE)


def test_norms_of_heads(tmp_path: Path) -> None:
    """onnxruntime's CPU provider refuses them; so by nodes before a GroupQueryAttention without them."""
    random, heads = np.random.default_rng(0), (4, 2)
    weights = [floats(random, SIZE) for _ in range(2)]
    names = {14: "q_norm", 15: "k_norm"}
    more = {"do_rotary": 1, "qk_norm_epsilon": 0.125}
    path = model(tmp_path / "m.onnx", 1, 1, heads, False, more=more, names=names)
    with_inputs(path, dict(zip(names.values(), weights, strict=True)))
    plain = model(tmp_path / "plain.onnx", 1, 1, heads, False, more={"do_rotary": 1})
    caches = [floats(random, 1, 2, ROOM, SIZE) for _ in range(2)]
    last, total = np.array([4], np.int32), np.array(5, np.int32)
    query, key, value = parts(random, 1, 1, heads, False)

    def normal(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        split = x.reshape(1, 1, -1, SIZE).astype(np.float64)
        made = split / np.sqrt((split**2).mean(axis=3, keepdims=True) + 0.125) * weight
        return np.asarray(made.astype(np.float32).reshape(x.shape))

    session = onnxruntime.InferenceSession(plain, providers=["CPUExecutionProvider"])
    arrays = [normal(query, weights[0]), normal(key, weights[1]), value, *caches, last, total]
    expected = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})
    computed = run(import_onnx(path), query, key, value, *caches, last, total, *weights)
    np.testing.assert_allclose(computed[0], expected[0], TOLERANCE, TOLERANCE)
    np.testing.assert_allclose(computed[1][:, :, :5], expected[1][:, :, :5], TOLERANCE, TOLERANCE)


@pytest.mark.parametrize(
    ("more", "names", "problem"),
    [
        ({"smooth_softmax": 2}, {}, "smooth_softmax 2; -1, 0 or 1 is needed"),
        ({"k_quant_type": "PER_TENSOR"}, {}, "k_quant_type PER_TENSOR and v_quant_type NONE"),
        (
            {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 4},
            {},
            r"quantised caches \['f32', 'f32'\] of 4 bits; supported: caches of int8 and float8e4m3fn",
        ),
        ({"sliding_window_cache": 1}, {}, "sliding_window_cache with a local_window_size of -1; at least 1"),
        (
            {"sliding_window_cache": 1, "local_window_size": 13},
            {},
            r"a cache f32\[1,2,12,16\] where \[1, 2, at least 13, 16\] is needed",
        ),
        ({}, {11: "sink"}, r"head_sink f32\[3\] where \[4\] is needed"),
        ({}, {14: "norm"}, "q_norm_weight f32.3.; both or none"),
        ({"qk_output": 3}, {}, "qk_output 3; 1 or 2 is needed"),
        ({"num_heads": 5}, {}, "num_heads 5 and kv_num_heads 2"),
        ({"num_heads": 6}, {}, r"f32\[1,1,128\] in 10 heads"),
    ],
)
def test_bad_nodes_are_refused_with_a_reason(
    tmp_path: Path, more: dict[str, Any], names: dict[int, str], problem: str
) -> None:
    path = model(tmp_path / "m.onnx", 1, 1, (4, 2), True, more=more, names=names)
    proto = onnx.load(path)
    for value in proto.graph.input:
        if value.name in names.values():
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, 1, (3,)))
    onnx.save(proto, path)
    with pytest.raises(MavcgError, match=rf"node 'the_node' .*GroupQueryAttention.*: {problem}"):
        import_onnx(path)
