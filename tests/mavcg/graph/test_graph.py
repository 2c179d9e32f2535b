"""Graphs and their text."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph, GraphCount, GraphState, Node, TensorType, digest, fresh_name, prune, type_of
from mavcg.graph.ops.nodes import verify
from mavcg.graph.parts import INLINE_ELEMENTS
from mavcg.graph.reference import run

TEXT = """\
graph g {
  input %x: f32[1,2]
  const %half: f32[] = {0.5}
  const %i: i64[2] = {0, -1}
  %a: f32[1,2] = mul(%x, %half) # "conv \\"1\\""
  %b: f32[1,2] = clip(%a) hi=inf lo=0.0
  %c: f32[1,2] = gather(%b, %i) axis=1
  %d: f32[1,2] = some_op(%c, _, %b) act="relu" flag=true list=[] size=[1, 2]
  return %d, %c
}
"""


def test_a_text_prints_as_it_was_written() -> None:
    graph = Graph.parse(TEXT)
    assert str(graph) == TEXT
    assert graph.nodes[0].origin == 'conv "1"'
    assert graph.nodes[1].attr("hi") == float("inf")
    assert graph.nodes[3].inputs == ("c", "", "b")
    assert dict(graph.nodes[3].attrs) == {"act": "relu", "flag": True, "list": (), "size": (1, 2)}
    assert graph.constants["half"].dtype == np.float32 and graph.constants["half"].shape == ()
    assert graph.outputs == ("d", "c")


STATES = """\
graph g {
  input %x: f32[1,2]
  input %h: f32[1,2]
  input %count: i32[]
  state %h = %sum
  state %count = %more from {7}
  %sum: f32[1,2] = add(%x, %h)
  %more: i32[] = abs(%count)
  return %sum, %more
}
"""


def test_states_are_printed_and_parsed() -> None:
    graph = Graph.parse(STATES)
    assert str(graph) == STATES
    assert graph.states == (GraphState("h", "sum"), GraphState("count", "more"))
    assert graph.states[0].initial is None
    assert graph.states[1].initial is not None and graph.states[1].initial.tolist() == 7
    with pytest.raises(MavcgError, match="line 5, column 10: %sum is no input above"):
        Graph.parse(STATES.replace("state %h", "state %sum"))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("state %h = %sum", "state %h = %more", r"state %h = %more: f32\[1,2\] and i32\[\]; a state has one type"),
        ("state %count = %more from {7}", "state %x = %sum", "is not an input and an output of it that no other"),
        ("state %h = %sum", "state %h = %x", "is not an input and an output of it"),
    ],
)
def test_states_are_verified(before: str, after: str, message: str) -> None:
    verify(Graph.parse(STATES))
    with pytest.raises(MavcgError, match=message):
        verify(Graph.parse(STATES.replace(before, after)))


names = st.text(min_size=1, max_size=8) | st.sampled_from(
    ["a:", "a:b", "_", "return", "f32[1]", "%", "-1", "inf", "a b"]
)
scalars = st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False)
values = (
    scalars | st.text(max_size=8) | st.lists(st.integers()).map(tuple) | st.lists(st.floats(allow_nan=False)).map(tuple)
)
types = st.builds(TensorType, st.sampled_from(list(DTYPES)), st.lists(st.integers(0, 4), max_size=3).map(tuple))


@st.composite
def graphs(draw: Any) -> Graph:
    """Graphs that print: names are whatever, operators are not looked at."""
    pool = draw(st.lists(names, min_size=3, max_size=10, unique=True))
    tensors = {name: draw(types) for name in pool}
    constants = {}
    for name in pool[:2]:
        bits = draw(st.binary(min_size=1, max_size=8))
        raw: Any = np.frombuffer((bits * (tensors[name].bytes + 1))[: tensors[name].bytes], np.uint8)
        if tensors[name].dtype == "bool":
            raw = np.bitwise_and(raw, np.uint8(1))
        constants[name] = np.nan_to_num(raw.view(DTYPES[tensors[name].dtype])).reshape(tensors[name].shape)
    attrs = draw(st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), values, max_size=3))
    nodes = tuple(
        Node(
            draw(st.sampled_from(["add", "and", "conv2d", "return_", "input_"])),
            tuple(draw(st.lists(st.sampled_from([*pool, ""]), max_size=3))),
            (name, "") if draw(st.booleans()) else (name,),
            tuple(sorted(attrs.items())),
            draw(st.text(max_size=6)),
        )
        for name in pool[3:]
    )
    return Graph(draw(names), (pool[2],), (draw(st.sampled_from(pool)),), nodes, tensors, constants)


@given(graphs())
def test_what_is_printed_is_parsed(graph: Graph) -> None:
    parsed = Graph.parse(str(graph), graph.constants)
    assert str(parsed) == str(graph)
    assert parsed == graph and hash(parsed) == hash(graph)
    assert (parsed.name, parsed.inputs, parsed.outputs, parsed.nodes) == (
        graph.name,
        graph.inputs,
        graph.outputs,
        graph.nodes,
    )
    assert parsed.types == graph.types
    for name, array in graph.constants.items():
        assert parsed.constants[name].dtype == array.dtype
        np.testing.assert_array_equal(parsed.constants[name], array)


@given(st.text() | st.from_regex(r"(graph|g|\{|input|const|%x|:|f32\[1\]|=|\{1\}|return|\}|\s|#|\"|_|\(|\)|,|9){1,12}"))
def test_any_other_text_is_refused_in_words(text: str) -> None:
    try:
        graph = Graph.parse(text)
    except MavcgError as error:
        assert re.match(r"graph text: line \d+, column \d+: ", str(error))
    else:
        assert Graph.parse(str(graph)) == graph


@given(st.data())
def test_a_damaged_text_is_parsed_or_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(TEXT) - 1))
    damaged = TEXT[:at] + data.draw(st.sampled_from(["", "%", '"', "[", "}", "9", "\n", ":", "nan"])) + TEXT[at + 1 :]
    try:
        Graph.parse(damaged)
    except MavcgError as error:
        assert "\n" not in str(error) or "\n" in damaged


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("input %x: f32[1,2]", "input %x: f31[1,2]", r"line 2, column 13: 'f31\[1,2\]' where a type"),
        ("input %x: f32[1,2]", "input %x: f32[1,,2]", r"line 2, column 13: .* where a type"),
        ("input %x:", "input x:", "line 2, column 9: 'x:' where '%' should be"),
        ("const %half", "const %x", "line 3, column 10: %x is defined twice"),
        ("{0.5}", "{0.5, 1.0}", r"line 3, .*2 elements for f32\[\]"),
        ("{0, -1}", "{0, 1.5}", "line 4, .*1.5 is not of type i64"),
        ("{0, -1}", "{0, 9223372036854775808}", "line 4, .*9223372036854775808 is not of type i64"),
        ("{0, -1}", "{0, true}", "line 4, .*true is not of type i64"),
        ("{0, -1}", "sha256:00", "line 4, .*its array is not in the text and was not given"),
        ("{0.5}", "{" + "9" * 500 + "}", "line 3, .*where a number should be"),
        ("mul(%x", "mul(x", "line 5, column 22: 'x' where '%' should be"),
        ("mul(%x", '"mul"(%x', "line 5, column 18: .* where an operator should be"),
        ("lo=0.0", "lo=zero", "line 6, column 37: 'zero' where a number should be"),
        ("lo=0.0", "hi=0.0", "line 6, .*attribute hi is given twice"),
        ("lo=0.0", "lo=;", "line 6, column 37: ';' starts nothing"),
        ("return %d, %c\n}", "return %d, %c", r"line 10, column 1: the text ends here, where '}' should be"),
        ("%c\n}", "%c\n}\n}", "line 11, column 1: there is text after the graph's end"),
    ],
)
def test_errors_say_where(before: str, after: str, message: str) -> None:
    assert before in TEXT
    with pytest.raises(MavcgError, match=message):
        Graph.parse(TEXT.replace(before, after, 1))


def test_long_constants_stand_by_their_digest() -> None:
    array = np.arange(INLINE_ELEMENTS + 1, dtype=np.float32)
    graph = Graph("g", (), ("c",), (), {"c": type_of(array)}, {"c": array})
    text = str(graph)
    assert f"sha256:{digest(array)}" in text
    assert Graph.parse(text, {"c": array}) == graph
    with pytest.raises(MavcgError, match="not the one that was printed"):
        Graph.parse(text, {"c": array + 1})
    with pytest.raises(MavcgError, match="not the one that was printed"):
        Graph.parse(text, {"c": array.reshape(3, 3)})


def test_a_digest_is_of_the_values_in_order_not_of_how_they_lie() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert digest(array) == digest(np.asfortranarray(array)) == digest(array.astype(">i4"))
    assert digest(array) != digest(array.T)


def test_pruned_keeps_inputs_and_what_outputs_need() -> None:
    graph = Graph.parse(TEXT)
    after = prune(replace(graph, outputs=("a",)))
    assert [n.outputs for n in after.nodes] == [("a",)]
    assert after.inputs == ("x",) and list(after.constants) == ["half"]
    assert set(after.types) == {"x", "half", "a"}
    assert prune(replace(graph, outputs=("half",))).types.keys() == {"x", "half"}


def test_readers_and_producers() -> None:
    graph = Graph.parse(TEXT)
    a, b, c, d = graph.nodes
    assert graph.producers() == {"a": a, "b": b, "c": c, "d": d}
    assert graph.readers() == {"x": (a,), "half": (a,), "a": (b,), "b": (c, d), "i": (c,), "c": (d,)}


def test_nodes_with_other_inputs_and_attributes() -> None:
    node = Graph.parse(TEXT).nodes[3]
    assert node.with_inputs({"c": "z"}).inputs == ("z", "", "b")
    assert node.with_attrs(act="tanh").attr("act") == "tanh"
    with pytest.raises(KeyError, match="some_op has no attribute axis"):
        node.attr("axis")


def test_types() -> None:
    assert TensorType("f16", (2, 3)).bytes == 12 and TensorType("f32", ()).elements == 1
    assert TensorType("f32", (1 << 40, 1 << 40)).elements == 1 << 80  # no overflow
    with pytest.raises(MavcgError, match="complex64"):
        type_of(np.zeros(2, np.complex64))


def test_fresh_names() -> None:
    assert fresh_name([], "a") == "a"
    assert fresh_name(["a", "a.1", "a.3"], "a") == "a.2"


COUNTS = """graph g {
  input %flags: bool[4]
  %places: i64[5] = true_places(%flags)
  %first: i64[1] = slice(%places) starts=[0] steps=[1] stops=[1]
  %kept: i64[4] = slice(%places) starts=[1] steps=[1] stops=[5]
  %n: i64[] = reshape(%first) shape=[]
  count %kept axis=0 = %n
  return %kept, %n
}
"""


def test_lengths_that_a_run_decides_are_printed_and_parsed() -> None:
    graph = Graph.parse(COUNTS)
    assert str(graph) == COUNTS and graph.counts == (GraphCount("kept", 0, "n"),)
    verify(graph)
    (kept,) = graph.present(run(graph, np.array([False, True, False, True])))
    assert kept.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("count %kept axis=0 = %n", "count %kept axis=1 = %n", "%n is no count of axis 1 of an output %kept"),
        ("count %kept axis=0 = %n", "count %first axis=0 = %n", "is no count of axis 0 of an output %first"),
        ("return %kept, %n", "return %n, %kept", "are not its last outputs"),
        ("%n: i64[] = reshape(%first) shape=[]", "%n: i64[1] = reshape(%first) shape=[1]", "is no count of axis 0"),
        ("  return", "  count %kept axis=0 = %n\n  return", "two counts of one output"),
    ],
)
def test_counts_that_are_none(old: str, new: str, words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        verify(Graph.parse(COUNTS.replace(old, new)))
