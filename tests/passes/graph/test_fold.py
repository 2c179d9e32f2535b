"""fold_constants: what is known is computed, what changes nothing goes, and nothing grows without need."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.ops.nodes import verify
from mavcg.passes.graph import fold
from mavcg.passes.graph.fold import fold_constants


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_the_example_of_the_docstring_holds(h: Any) -> None:
    for before, after in h.examples(fold_constants):
        assert fold_constants(before) == after
        h.same(before, after)
        assert fold_constants(after) == after


@pytest.mark.parametrize(
    "node",
    [
        'cast(%x) to="f32"',
        "reshape(%x) shape=[2, 1, 3]",
        "broadcast_to(%x) shape=[2, 1, 3]",
        "transpose(%x) perm=[0, 1, 2]",
        "pad(%x) before=[0, 0, 0] after=[0, 0, 0]",
        "slice(%x) starts=[0, 0, 0] stops=[2, 1, 3] steps=[1, 1, 1]",
        "slice(%x) starts=[0, 0, 0] stops=[2, -1, 3] steps=[1, -1, 1]",
        "concat(%x) axis=1",
        "clip(%x)",
        "reduce_sum(%x) axes=[]",
    ],
)
def test_what_changes_nothing_is_dropped(h: Any, node: str) -> None:
    before = h.graph(f"input %x: f32[2,1,3]\n%a = neg(%x)\n%b = {node.replace('%x', '%a')}\n%y = abs(%b)\nreturn %y")
    after = fold_constants(before)
    assert ops(after) == ["neg", "abs"]
    h.same(before, after)


@pytest.mark.parametrize(
    "node",
    [
        'cast(%x) to="i32"',
        "transpose(%x) perm=[1, 0]",
        "slice(%x) starts=[1, 0] stops=[-1, 2] steps=[-1, 1]",
        "pad(%x) before=[0, 1] after=[0, 0]",
        "clip(%x) lo=0.0",
        "reduce_sum(%x) axes=[0]",
    ],
)
def test_what_changes_something_stays(h: Any, node: str) -> None:
    before = h.graph(f"input %x: f32[2,2]\n%y = {node}\nreturn %y")
    assert fold_constants(before) == before


def test_a_transpose_that_moves_only_a_dimension_of_length_one_changes_the_shape_and_stays(h: Any) -> None:
    before = h.graph("input %x: f32[1,3]\n%y = transpose(%x) perm=[1, 0]\nreturn %y")
    assert fold_constants(before) == before


def test_weights_that_a_subgraph_generates_become_one_constant() -> None:
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 4, 4, 2)))
    w8 = b.constant(np.arange(-18, 18, dtype=np.int8).reshape(2, 3, 3, 2))
    w = b.add("dequantize", [w8, b.constant(0.5), b.constant(np.int8(3))])
    norm = b.add("sqrt", [b.add("reduce_sum", [b.add("mul", [w, w])], axes=[1, 2, 3])])
    w = b.add("div", [w, b.add("reshape", [norm], shape=[2, 1, 1, 1])], outputs=["weights"])
    graph = b.finish([b.add("conv2d", [x, w])])
    after = fold_constants(graph)
    verify(after)
    assert ops(after) == ["conv2d"] and list(after.constants) == ["weights"]
    real = (np.arange(-18, 18).reshape(2, 3, 3, 2) - 3.0) * 0.5
    wanted = real / np.sqrt((real**2).sum(axis=(1, 2, 3), keepdims=True))
    np.testing.assert_allclose(after.constants["weights"], wanted, rtol=1e-6)


def test_a_constant_output_keeps_one_node_and_so_does_an_input(h: Any) -> None:
    before = h.graph(
        """
        input %x: f32[2]
        const %a: f32[2] = {1.0, 2.0}
        %y = add(%a, %a)
        %t = mul(%y, %x)
        %z = reshape(%x) shape=[2]
        return %y, %z, %t
        """
    )
    after = fold_constants(before)
    assert sorted(ops(after)) == ["mul", "reshape", "reshape"]
    h.same(before, after)
    assert fold_constants(after) == after


def test_outputs_that_are_one_tensor_are_copied_from_each_other(h: Any) -> None:
    before = h.graph(
        """
        input %x: f32[2]
        const %a: f32[2] = {1.0, 2.0}
        %y = neg(%x)
        %z = pad(%y) before=[0] after=[0] # "the copy"
        %c = add(%a, %a)
        return %y, %z, %c
        """
    )
    after = fold_constants(before)
    assert [(n.op, n.output, n.origin) for n in after.nodes] == [
        ("neg", "y", ""),
        ("reshape", "z", "the copy"),
        ("reshape", "c", ""),
    ]
    h.same(before, after)
    assert fold_constants(after) == after


def test_a_tensor_without_elements_is_known(h: Any) -> None:
    before = h.graph(
        """
        input %x: f32[2,3]
        %a = slice(%x) starts=[0, 0] stops=[0, 3] steps=[1, 1]
        %n = exp(%a)
        %y = concat(%x, %n) axis=0
        return %y
        """
    )
    after = fold_constants(before)
    assert ops(after) == ["concat"]
    h.same(before, after)


def test_a_large_broadcast_stays_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "BLOWN_UP_BYTES", 1000)
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 300)))
    big = b.add("broadcast_to", [b.constant(np.ones((1, 1), np.float32))], shape=[1, 300])
    small = b.add("broadcast_to", [b.constant(np.ones((1, 100), np.float32))], shape=[3, 100])
    graph = b.finish([b.add("add", [x, big]), b.add("neg", [small])])
    assert ops(fold_constants(graph)) == ["broadcast_to", "add", "reshape"]


@pytest.mark.parametrize("by_way_of", ["nothing", "another node"])
def test_a_large_broadcast_that_weights_are_made_of_is_folded(monkeypatch: pytest.MonkeyPatch, by_way_of: str) -> None:
    monkeypatch.setattr(fold, "BLOWN_UP_BYTES", 1000)
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 30)))
    w = b.add("broadcast_to", [b.constant(np.float32(0.5))], shape=[30, 30])
    if by_way_of == "another node":
        w = b.add("exp", [w])
    after = fold_constants(b.finish([b.add("matmul", [x, w])]))
    assert ops(after) == ["matmul"]
    assert after.constants[w].shape == (30, 30)


def test_all_folding_together_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "GROWTH_BYTES", 1000)
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (10, 10)))
    for _ in range(5):
        x = b.add("matmul", [x, b.add("broadcast_to", [b.constant(0.5)], shape=[10, 10])])
    after = fold_constants(b.finish([x]))
    # 20 bytes of constants allow 1080; each product's weights take 396 more than they are made of.
    assert ops(after).count("broadcast_to") == 3
    verify(after)


def test_an_index_that_is_out_of_range_only_when_computed_is_an_error(h: Any) -> None:
    graph = h.graph(
        """
        const %a: f32[3] = {1.0, 2.0, 3.0}
        const %i: i64[1] = {2}
        %j = add(%i, %i)
        %y = gather(%a, %j) axis=0 # "pick"
        return %y
        """
    )
    with pytest.raises(MavcgError, match=r"node 'pick' \(gather\): indices from 4 to 4 where axis 0 has 3 elements"):
        fold_constants(graph)


@given(st.data())
def test_random_graphs_keep_their_results(h: Any, data: st.DataObject) -> None:
    b = GraphBuilder("g")
    names = [b.input("x", TensorType("f32", (2, 2)))]
    names += [b.constant(np.arange(4, dtype=np.float32).reshape(2, 2) + i) for i in range(2)]
    for _ in range(data.draw(st.integers(1, 8))):
        one, other = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
        kind = data.draw(st.sampled_from(["add", "mul", "relu", "transpose", "reshape", "matmul", "flip"]))
        if kind in ("add", "mul", "matmul"):
            names.append(b.add(kind, [one, other]))
        elif kind == "transpose":
            names.append(b.add(kind, [one], perm=data.draw(st.permutations([0, 1]))))
        elif kind == "flip":
            names.append(b.add("slice", [one], starts=[1, 0], stops=[-1, 2], steps=[-1, 1]))
        elif kind == "reshape":
            names.append(b.add("reshape", [one], shape=[2, 2]))
        else:
            names.append(b.add(kind, [one]))
    made = names[3:]
    graph = b.finish(data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True)))
    after = fold_constants(graph)
    h.same(graph, after)
    assert fold_constants(after) == after


@pytest.mark.parametrize("op", ["conv2d", "matmul", "max_pool2d", "conv_transpose2d"])
def test_what_is_too_much_work_is_left_to_each_run(op: str) -> None:
    """Small results of few bytes: seconds to minutes each, or gigabytes on the way."""
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", ()))

    def big(*shape: int) -> str:
        return b.constant(np.broadcast_to(np.float32(0.5), shape))

    made = {
        "conv2d": lambda: b.add("conv2d", [big(1, 512, 512, 64), big(64, 7, 7, 64)]),
        "matmul": lambda: b.add("matmul", [big(4096, 4096), big(4096, 4096)]),
        "max_pool2d": lambda: b.add("max_pool2d", [big(1, 3000, 3000, 1)], kernel=(1500, 1500)),
        "conv_transpose2d": lambda: b.add(
            "conv_transpose2d", [big(1, 2, 2, 1), big(1, 2, 2, 1)], stride=(30000, 30000), pads=(30001, 30001, 0, 0)
        ),
    }[op]()
    graph = b.finish([b.add("add", [x, b.add("reduce_mean", [made], axes=tuple(range(len(b.types[made].shape))))])])
    started = time.process_time()

    folded = fold_constants(graph)

    assert op in ops(folded)
    assert time.process_time() - started < 5


def test_many_foldings_share_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "MOST_WORK", 5000)
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (10, 10)))
    for number in range(4):
        left, right = np.full((10, 20), number, np.float32), np.ones((20, 10), np.float32)
        product = b.add("matmul", [b.constant(left), b.constant(right)])
        x = b.add("add", [x, product])

    assert ops(fold_constants(b.finish([x]))).count("matmul") == 2
