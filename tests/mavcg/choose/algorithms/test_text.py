"""Instances as text: printed, parsed, and refused with what is wrong where."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.pbqp import Infeasible, make_instance, parse_instance, print_instance, read_instance, solve
from mavcg.errors import MavcgError
from tests.conftest import examples

GOOD: dict[str, Any] = {
    "nodes": {"a": [1, 2.5], "b": [0, "inf"]},
    "edges": [{"from": "a", "to": "b", "costs": [[0, 1], ["inf", 0]]}],
}


def test_parsing_what_was_printed_gives_the_same(draw: Any) -> None:
    for seed in range(50):
        instance = draw(seed, "parts")
        again = parse_instance(print_instance(instance))
        assert list(again.nodes) == list(instance.nodes)
        assert all(np.array_equal(again.nodes[name], costs) for name, costs in instance.nodes.items())
        for one, other in zip(again.edges, instance.edges, strict=True):
            assert (one.source, one.target) == (other.source, other.target)
            assert np.array_equal(one.costs, other.costs)
        try:
            assert solve(again).choice == solve(instance).choice
        except Infeasible:
            with pytest.raises(Infeasible):
                solve(again)


def test_what_is_printed_is_plain_json() -> None:
    instance = make_instance({'a"': [0.1, np.inf], "b": [3]}, [('a"', "b", [[1.0], [np.inf]])])

    assert json.loads(print_instance(instance)) == {
        "nodes": {'a"': [0.1, "inf"], "b": [3.0]},
        "edges": [{"from": 'a"', "to": "b", "costs": [[1.0], ["inf"]]}],
    }
    assert json.loads(print_instance(make_instance({}))) == {"nodes": {}, "edges": []}


def test_edges_may_be_left_out() -> None:
    assert solve(parse_instance('{"nodes": {"a": [3, 2]}}')).choice == {"a": 1}


def changed(*path: Any, to: Any) -> str:
    """GOOD as text, with one value put instead of another; of a dictionary also a key that is new."""
    document = json.loads(json.dumps(GOOD))
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1, column 1"),
        ('{"nodes": {"a": [1,]}}', "line 1, column"),
        ("[1]", ".1. is not a table"),
        ("{}", "nodes: missing; give it as an object with a list of costs"),
        (changed("size", to=3), "size: no such key; keys here are nodes, edges"),
        (changed("nodes", to=[1]), "nodes: .1. is not an object"),
        (changed("edges", to={}), "edges: .* is not a list"),
        (changed("nodes", "a", to=3), "nodes.a: 3 is not a list"),
        (changed("nodes", "a", to=[]), "nodes.a: has no alternatives"),
        (changed("nodes", "a", 1, to="two"), r'nodes.a\[1\]: "two" is not a cost'),
        (changed("nodes", "a", 1, to=True), r"nodes.a\[1\]: true is not a cost"),
        (changed("nodes", "a", 1, to=None), r"nodes.a\[1\]: null is not a cost"),
        (changed("nodes", "a", 1, to="-inf"), r"nodes.a\[1\]: .-inf. is not a cost"),
        (changed("nodes", "a", 1, to=10**400), r"nodes.a\[1\]: 10000.* is not a cost"),
        (changed("nodes", "a", 1, to=1e250), r"nodes.a\[1\]: 1e\+250 is not a cost"),
        (changed("edges", 0, to=[]), r"edges\[0\]: .* is not a table"),
        (changed("edges", 0, "from", to=1), r"edges\[0\].from: 1 is not a name"),
        (changed("edges", 0, "to", to="z"), r"edges\[0\].to: no node is named 'z'"),
        (changed("edges", 0, "cost", to=1), r"edges\[0\].cost: no such key; did you mean costs"),
        (changed("edges", 0, "costs", to=[]), r"edges\[0\].costs: .* is not a list of rows"),
        (changed("edges", 0, "costs", 1, to=0), r"edges\[0\].costs\[1\]: 0 is not a list"),
        (changed("edges", 0, "costs", 1, to=[1]), r"edges\[0\].costs\[1\]: 1 costs, and 2"),
        (changed("edges", 0, "costs", 1, 0, to={}), r"edges\[0\].costs\[1\]\[0\]: {} is not a cost"),
        (changed("edges", 0, "costs", to=[[1, 2]]), r"edges\[0\].costs: 1 x 2 costs; .* 2 x 2"),
        ('{"nodes": {"a": [1e999]}}', r"nodes.a\[0\]: is too large"),
        ('{"nodes": {"a": [NaN]}}', "not JSON .NaN is not a number"),
        ('{"nodes": {"a": [Infinity]}}', 'not JSON .Infinity is not a number.; .*"inf"'),
        ('{"nodes": {"a": [1], "a": [2]}}', '"a" appears twice'),
        ('{"nodes": {"a": [' + "9" * 5000 + "]}}", "digits"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(MavcgError, match="^wrong.json: .*" + said) as caught:
        parse_instance(text, "wrong.json")
    assert "\n" not in str(caught.value) and ";" in str(caught.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'{"nodes": \xff}')
    with pytest.raises(MavcgError, match="x.json: cannot be read .not UTF-8 text, byte 10"):
        read_instance(tmp_path / "x.json")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["inf", "a", "b", "from", "costs"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(
    path=st.sampled_from([("nodes",), ("nodes", "a"), ("edges",), ("edges", 0), ("edges", 0, "costs")]), to=json_values
)
@settings(max_examples=examples(150, 19))
def test_any_other_value_is_taken_or_refused(path: tuple[Any, ...], to: Any) -> None:
    try:
        instance = parse_instance(changed(*path, to=to), "drawn.json")
        solve(instance)
    except MavcgError as error:
        assert str(error) and "\n" not in str(error)
