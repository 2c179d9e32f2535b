"""Sequences and optionals, which become tensors at import, beside onnxruntime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.graph.reference import run
from mavcg.importers.limits import NeedsConstant, Unsupported
from mavcg.importers.onnx_file import import_model
from mavcg.importers.onnx_support import model_support
from tests.conftest import examples
from tests.mavcg.importers.counted_models import Node, node

FLOAT, LONG = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
X = np.arange(24, dtype=np.float32).reshape(4, 6)


def sequence_info(name: str, shape: Sequence[int | str | None] | None = None, kind: int = FLOAT) -> Any:
    return helper.make_tensor_sequence_value_info(name, kind, shape)


def optional_info(name: str, of: Any) -> Any:
    return helper.make_value_info(name, helper.make_optional_type_proto(of.type))


def tensor_info(name: str, array: Array) -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model_of(
    nodes: Sequence[Node], inputs: Sequence[Any], outputs: Sequence[Any], known: Mapping[str, Array] = {}
) -> Any:
    tensors = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in known.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def flat(values: Mapping[str, Any] | Sequence[Any]) -> list[Array]:
    """The tensors of arguments, those of sequences in their place."""
    listed = values.values() if isinstance(values, Mapping) else values
    return [array for value in listed for array in (value if isinstance(value, list) else [value])]


def agrees(model: Any, values: Mapping[str, Any], loops: bool = False) -> list[Array]:
    """Compare a model's outputs with onnxruntime's, of sequences element by element; return them."""
    shapes = {f"{n}.{i}": a.shape for n, v in values.items() if isinstance(v, list) for i, a in enumerate(v)}
    graph = import_model(model, Path("m.onnx"), shapes, loops=loops, least_trips=2)
    have = graph.present(run(graph, *flat(values)))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    want = session.run(None, dict(values))
    lists = zip(session.get_outputs(), want, strict=True)
    names = [
        n for o, v in lists for n in ([f"{o.name}.{i}" for i in range(len(v))] if isinstance(v, list) else [o.name])
    ]
    assert list(graph.outputs) == names
    for ours, theirs in zip(have, flat(want), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and np.array_equal(ours, theirs)
    return list(have)


@given(st.integers(0, 3), st.integers(-3, 3), st.integers(-2, 2), st.integers(-4, 3))
@settings(max_examples=examples(200, 10))
def test_elements_are_inserted_erased_and_read(count: int, insert: int, erase: int, at: int) -> None:
    """Positions from the beginning and the end; one that does not exist is refused, as onnxruntime refuses it."""
    arrays = {f"x{i}": X[i : i + 1 + i % 2] for i in range(count + 1)}
    made = node("SequenceConstruct", " ".join(list(arrays)[:-1]), "s0") if count else node("SequenceEmpty", "", "s0")
    nodes = [
        made,
        node("SequenceInsert", f"s0 x{count} insert", "s1"),
        node("SequenceErase", "s1 erase", "s2"),
        node("SequenceInsert", f"s2 x{count}", "s3"),
        node("SequenceAt", "s3 at", "y"),
        node("SequenceLength", "s3", "n"),
    ]
    outputs = [onnx.ValueInfoProto(name="y"), helper.make_tensor_value_info("n", LONG, [])]
    outputs[0].type.tensor_type.elem_type = FLOAT
    positions = {"insert": np.array(insert), "erase": np.array(erase), "at": np.array(at)}
    model = model_of(nodes, [tensor_info(n, a) for n, a in arrays.items()], outputs, positions)
    if -count <= insert <= count and -count - 1 <= erase <= count and -count - 1 <= at <= count:
        assert agrees(model, arrays)[1] == count + 1
    else:
        with pytest.raises(MavcgError, match=r"\(Sequence.*\): position \[-?\d\] in a sequence of \d"):
            import_model(model, Path("m.onnx"))


@pytest.mark.parametrize(
    ("split", "keepdims"), [(None, 0), (None, 1), (1, 1), (2, 1), (3, 1), (4, 1), ([1, 3], 1), ([2, 0, 2], 1)]
)
def test_a_tensor_is_split_into_a_sequence_and_joined(split: Any, keepdims: int) -> None:
    known = {} if split is None else {"split": np.array(split)}
    nodes = [
        node("SplitToSequence", "x split" if known else "x", "s", axis=-2, keepdims=keepdims),
        node("ConcatFromSequence", "s", "y", axis=1 if split is None and not keepdims else -1, new_axis=1),
        node("ConcatFromSequence", "s", "z", axis=0),
    ]
    outputs = [sequence_info("s")] + [helper.make_tensor_value_info(n, FLOAT, None) for n in ("y", "z")]
    equal = split in (None, 1, 2, 4)  # parts, which a new axis needs
    if not equal:
        del nodes[1], outputs[1]
    made = agrees(model_of(nodes, [tensor_info("x", X)], outputs, known), {"x": X})
    assert np.array_equal(made[-1].reshape(X.shape), X)


def add_map(inputs: str) -> Node:
    first, second = (f"in{i}" for i in range(2))
    infos = [helper.make_tensor_value_info(name, FLOAT, None) for name in (first, second, "sum")]
    nodes = [node("Add", f"{first} {second}", "sum"), node("Shape", first, "shape")]
    shape = helper.make_tensor_value_info("shape", LONG, None)
    body = helper.make_graph(nodes, "body", infos[:2], [infos[2], shape])
    return node("SequenceMap", inputs, "y shapes", body=body)


def test_a_body_is_applied_to_each_element_of_sequences_and_to_a_tensor() -> None:
    values = {"a": [X[:1], X[:2], X], "b": [X[1:2], X[2:], X]}
    outputs = [sequence_info("y"), sequence_info("shapes", None, LONG)]
    inputs = [sequence_info("a", ["n", 6]), sequence_info("b", ["m", 6])]
    made = agrees(model_of([add_map("a b")], inputs, outputs), values)
    assert len(made) == 6
    agrees(model_of([add_map("a t")], [inputs[0], tensor_info("t", X[:1])], outputs), {"a": values["a"], "t": X[0:1]})


@pytest.mark.parametrize("loops", [False, True], ids=["unrolled", "loop"])
@pytest.mark.parametrize("position", ["number", "of_run"])
def test_elements_of_one_shape_are_read_in_a_loop(loops: bool, position: str) -> None:
    """The sum of the elements of a sequence, by the number of the iteration, or each time one that the run chooses."""
    name = {"number": "i", "of_run": "k"}[position]
    body = helper.make_graph(
        [node("SequenceAt", f"s {name}", "e"), node("Add", "sum e", "next"), node("Identity", "on", "on_next")],
        "body",
        [
            helper.make_tensor_value_info("i", LONG, []),
            helper.make_tensor_value_info("on", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum", FLOAT, [1, 6]),
        ],
        [
            helper.make_tensor_value_info("on_next", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", FLOAT, [1, 6]),
        ],
    )
    nodes = [node("SplitToSequence", "x", "s", axis=0), node("Loop", "count yes zero", "y", body=body)]
    known = {"count": np.array(4), "yes": np.array(True), "zero": np.zeros((1, 6), np.float32)}
    inputs = [tensor_info("x", X), tensor_info("k", np.array(0))]
    model = model_of(nodes, inputs, [helper.make_tensor_value_info("y", FLOAT, [1, 6])], known)
    for k in (0, 2, -1):
        agrees(model, {"x": X, "k": np.array(k)}, loops)
    graph = import_model(model, Path("m.onnx"), loops=loops, least_trips=2)
    assert any(n.op == "loop_state" for n in graph.nodes) == loops
    if position == "of_run":
        with pytest.raises(MavcgError, match="of a dimension with"):
            run(graph, X, np.array(4))


def test_a_loop_makes_a_sequence_of_different_lengths() -> None:
    body = helper.make_graph(
        [
            node("Add", "i one", "end"),
            node("Unsqueeze", "end zero", "ends"),
            node("Slice", "x zero ends", "part"),
            node("SequenceInsert", "so_far part", "more"),
            node("Identity", "on", "on_next"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", LONG, []),
            helper.make_tensor_value_info("on", onnx.TensorProto.BOOL, []),
            sequence_info("so_far"),
        ],
        [helper.make_tensor_value_info("on_next", onnx.TensorProto.BOOL, []), sequence_info("more")],
    )
    nodes = [node("SequenceEmpty", "", "none"), node("Loop", "count yes none", "y", body=body)]
    known = {"count": np.array(4), "yes": np.array(True), "one": np.array(1), "zero": np.array([0])}
    model = model_of(nodes, [tensor_info("x", X)], [sequence_info("y")], known)
    for loops in (False, True):
        assert [a.shape for a in agrees(model, {"x": X}, loops)] == [(1, 6), (2, 6), (3, 6), (4, 6)]


@pytest.mark.parametrize("holds", [True, False])
def test_a_run_decides_between_sequences(holds: bool) -> None:
    outputs = [sequence_info("s"), helper.make_tensor_value_info("t", FLOAT, None)]
    branches = [
        helper.make_graph([node("SequenceConstruct", f"{a} {b}", "s"), node("Neg", a, "t")], name, [], outputs)
        for name, a, b in (("then", "x", "y"), ("else", "y", "x"))
    ]
    nodes = [node("If", "c", "z w", then_branch=branches[0], else_branch=branches[1])]
    inputs = [tensor_info("c", np.array(True)), tensor_info("x", X), tensor_info("y", X)]
    made = [sequence_info("z"), helper.make_tensor_value_info("w", FLOAT, None)]
    agrees(model_of(nodes, inputs, made), {"c": np.array(holds), "x": X, "y": X + 1}, loops=True)


def test_an_optional_has_an_element_or_none() -> None:
    nodes = [
        node("Optional", "x", "some"),
        node("OptionalHasElement", "some", "has"),
        node("OptionalGetElement", "some", "y"),
        node("OptionalHasElement", "given", "has_given"),
        node("OptionalGetElement", "given", "z"),
        helper.make_node("Optional", [], ["none"], "none", type=sequence_info("s").type),
        node("OptionalHasElement", "none", "has_not"),
    ]
    flags = [helper.make_tensor_value_info(n, onnx.TensorProto.BOOL, []) for n in ("has", "has_given", "has_not")]
    outputs = [*flags, helper.make_tensor_value_info("y", FLOAT, [4, 6]), sequence_info("z", [4, 6])]
    inputs = [tensor_info("x", X), optional_info("given", sequence_info("s", [4, 6]))]
    graph = import_model(model_of(nodes, inputs, outputs), Path("m.onnx"), {"given.0": X.shape, "given.1": X.shape})
    assert list(graph.inputs) == ["x", "given.0", "given.1"]
    has, has_given, has_not, y, first, second = run(graph, X, X + 1, X + 2)
    assert has and has_given and not has_not
    assert np.array_equal(y, X) and np.array_equal(first, X + 1) and np.array_equal(second, X + 2)


REFUSED: Mapping[str, tuple[list[Node], dict[str, tuple[int, ...]], type[MavcgError], str]] = {
    "no_shapes": ([node("SequenceAt", "s zero", "y")], {}, Unsupported, r"input 's': is a sequence.*--shape s.0="),
    "a_gap": ([node("SequenceAt", "s zero", "y")], {"s.0": (1,), "s.2": (1,)}, MavcgError, "s.1 is missing"),
    "another_rank": ([node("SequenceAt", "s zero", "y")], {"s.0": (1, 2, 3)}, MavcgError, "the file says"),
    "no_tensor": ([node("Neg", "s", "y")], {"s.0": (2, 6)}, Unsupported, r"\(Neg\): its input %s is a sequence"),
    "no_sequence": ([node("SequenceLength", "x", "y")], {"s.0": (2, 6)}, MavcgError, "is no sequence"),
    "no_element": (
        [helper.make_node("Optional", [], ["o"]), node("OptionalGetElement", "o", "y")],
        {"s.0": (2, 6)},
        MavcgError,
        "an optional without an element",
    ),
    "of_run": (
        [node("SequenceErase", "s k", "t"), node("SequenceAt", "t zero", "y")],
        {"s.0": (2, 6)},
        NeedsConstant,
        "position",
    ),
    "shapes_that_differ": (
        [node("SequenceAt", "s k", "y")],
        {"s.0": (2, 6), "s.1": (3, 6)},
        NeedsConstant,
        "of elements of different shapes",
    ),
    "many_parts": ([node("SplitToSequence", "long", "y")], {"s.0": (2, 6)}, Unsupported, "at most 4096 parts"),
    "types_that_differ": (
        [node("SequenceInsert", "s k", "t"), node("SequenceAt", "t zero", "y")],
        {"s.0": (2, 6)},
        MavcgError,
        "types f32, i64",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_built_is_refused_by_name(case: str) -> None:
    nodes, shapes, kind, words = REFUSED[case]
    inputs = [sequence_info("s", ["n", 6]), tensor_info("x", X), tensor_info("k", np.array(0))]
    inputs.append(helper.make_tensor_value_info("long", FLOAT, [1 << 28]))
    output = onnx.ValueInfoProto(name="y")
    with pytest.raises(kind, match=words):
        import_model(model_of(nodes, inputs, [output], {"zero": np.array(0)}), Path("m.onnx"), shapes)


def test_a_partial_model_leaves_sequences_to_the_runtime() -> None:
    nodes = [
        node("Neg", "x", "n"),
        node("SequenceConstruct", "n x", "s"),
        node("SequenceAt", "s zero", "e"),
        node("Relu", "e", "y"),
    ]
    model = model_of(nodes, [tensor_info("x", X)], [tensor_info("y", X)], {"zero": np.array(0)})
    whys = {n.node.op_type: n.why for n in model_support(model, Path("m.onnx"), {}).nodes}
    assert not whys["Neg"] and "its result is a sequence" in whys["SequenceConstruct"] and whys["SequenceAt"]
