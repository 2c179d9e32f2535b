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


@settings(max_examples=examples(40, 5), deadline=None)
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


@settings(max_examples=examples(20, 3), deadline=None)
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


@pytest.mark.parametrize(
    ("more", "names", "problem"),
    [
        ({"smooth_softmax": 1}, {}, "smooth_softmax 1; supported: smooth_softmax 0"),
        ({"k_quant_type": "PER_TENSOR"}, {}, "k_quant_type PER_TENSOR"),
        ({"sliding_window_cache": 1}, {}, "sliding_window_cache 1"),
        ({}, {11: "sink"}, "an input head_sink"),
        ({"num_heads": 5}, {}, "num_heads 5 and kv_num_heads 2"),
        ({"num_heads": 6}, {}, r"f32\[1,1,128\] in 10 heads"),
    ],
)
def test_bad_nodes(tmp_path: Path, more: dict[str, Any], names: dict[int, str], problem: str) -> None:
    path = model(tmp_path / "m.onnx", 1, 1, (4, 2), True, more=more, names=names)
    proto = onnx.load(path)
    for value in proto.graph.input:
        if value.name in names.values():
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, 1, (4,)))
    onnx.save(proto, path)
    with pytest.raises(MavcgError, match=rf"node 'the_node' .*GroupQueryAttention.*: {problem}"):
        import_onnx(path)
