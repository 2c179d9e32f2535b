"""GroupQueryAttention over several runs with caches, and TensorScatter, against onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.importers.onnx_file import import_onnx
from mavcg.reference import run
from tests.conftest import examples

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
MICROSOFT = "com.microsoft"
ROOM, SIZE = 12, 16
TOLERANCE = 2e-5


def floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def model(
    path: Path,
    batch: int,
    tokens: int,
    heads: tuple[int, int],
    packed: bool,
    valid: bool = False,
    more: dict[str, Any] | None = None,
    names: dict[int, str] | None = None,
) -> Path:
    """A model of one node. valid: with query_seqlens. more: attributes. names: further inputs, by number."""
    helper, info = onnx.helper, onnx.helper.make_tensor_value_info
    count, kept = heads
    width = (count + 2 * kept if packed else count) * SIZE
    inputs = [info("q", 1, (batch, tokens, width))]
    inputs += [] if packed else [info(name, 1, (batch, tokens, kept * SIZE)) for name in ("k", "v")]
    inputs += [info(f"past_{name}", 1, (batch, kept, ROOM, SIZE)) for name in ("key", "value")]
    inputs += [info("last", 6, (batch,)), info("total", 6, ())]
    given_names = ["q", *(["", ""] if packed else ["k", "v"]), "past_key", "past_value", "last", "total"]
    attributes = {"num_heads": count, "kv_num_heads": kept, **(more or {})}
    known = []
    if attributes.get("do_rotary"):
        angles = np.arange(ROOM)[:, None] / 10 ** np.linspace(0, 2, SIZE // 2)
        for name, table in (("cos", np.cos(angles)), ("sin", np.sin(angles))):
            known.append(onnx.numpy_helper.from_array(table.astype(np.float32), name))
        given_names += ["cos", "sin"]
    if valid:
        given_names += [""] * (16 - len(given_names)) + ["valid"]
        inputs += [info("valid", 6, (batch,))]
    for number, name in (names or {}).items():
        given_names += [""] * (number + 1 - len(given_names))
        given_names[number] = name
        inputs += [info(name, 1, None)]
    outputs = ["y", "present_key", "present_value"]
    node = helper.make_node("GroupQueryAttention", given_names, outputs, "the_node", domain=MICROSOFT, **attributes)
    graph = helper.make_graph([node], "g", inputs, [info(name, 1, None) for name in outputs], known)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


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
            r"quantised caches \['f32', 'f32'\] of 4 bits; supported: caches of int8",
        ),
        ({"sliding_window_cache": 1}, {}, "sliding_window_cache 1"),
        ({}, {11: "sink"}, r"head_sink f32\[3\] where \[4\] is needed"),
        ({}, {14: "norm"}, "q_norm_weight f32.3.; both or none"),
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
