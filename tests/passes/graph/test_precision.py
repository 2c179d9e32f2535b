"""Graphs of f16 computed in f32, and graphs of f32 computed in f16 where there are kernels."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.graph import Graph, Node
from mavcg.graph.ops.nodes import verify
from mavcg.graph.reference import run
from mavcg.kernels.registry import single_inputs
from mavcg.passes.graph.precision import HALF_MAX, SingleInputs, in_half, in_single, to_half


def everything(node: Node, graph: Graph) -> tuple[int, ...]:
    return single_inputs(node, graph) or ()


def all_but(*names: str) -> SingleInputs:
    return lambda node, graph: None if node.op in names else everything(node, graph)


def half(graph: Graph) -> Graph:
    return in_half(graph, everything)


half.__doc__ = in_half.__doc__


@pytest.mark.parametrize("function", [in_single, half])
def test_the_example_of_the_docstring_holds(function: Any, h: Any) -> None:
    for before, after in h.examples(function):
        assert str(function(before)) == str(after)
        h.same(before, after, relative=2e-3)


def test_tensors_between_half_kernels_are_converted_once_and_not_back(h: Any) -> None:
    graph = h.graph("""
        input %x: f32[2,4]
        %a = relu(%x)
        %b = exp(%a)
        %c = log(%b)
        %d = add(%b, %x)
        %y = add(%c, %d)
        return %y, %b
    """)
    mixed = in_half(graph, all_but("log"))
    verify(mixed)
    casts = [(node.inputs[0], mixed.types[node.inputs[0]].dtype) for node in mixed.nodes if node.op == "cast"]
    # x and c to f16, once each; b to f32 for log and for the output; y to f32
    assert len(casts) == 4 and sorted(dtype for _, dtype in casts) == ["f16", "f16", "f32", "f32"]
    assert {mixed.types[node.output].dtype for node in mixed.nodes if node.op == "log"} == {"f32"}
    h.same(graph, mixed, relative=1e-2)


def test_biases_and_scales_stay_f32(h: Any) -> None:
    graph = h.graph("""
        input %x: f32[3,2]
        const %w: f32[2,2] = {1.0, 2.0, 3.0, 4.0}
        const %bias: f32[2] = {0.1, 0.2}
        %a = matmul(%x, %w, %bias, %x)
        %y = layer_norm(%a, %bias, %bias) axis=1
        return %y
    """)
    lowered = in_half(graph, everything)
    matmul, norm = (next(n for n in lowered.nodes if n.op == op) for op in ("matmul", "layer_norm"))
    assert [lowered.types[name].dtype for name in matmul.inputs] == ["f16", "f16", "f32", "f16"]
    assert [lowered.types[name].dtype for name in norm.inputs] == ["f16", "f32", "f32"]
    assert lowered.constants["bias"] is graph.constants["bias"]


def test_half_files_have_no_casts_between_layers(h: Any) -> None:
    graph = h.graph("""
        input %x: f16[2,2]
        const %w: f16[2,2] = {1.0, 2.0, 3.0, 4.0}
        %a = matmul(%x, %w, _, _)
        %b = relu(%a)
        %c = cast(%b) to="f32"
        %d = exp(%c)
        %y = cast(%d) to="f16"
        return %y
    """)
    single = in_single(graph)
    verify(single)
    assert {single.types[n.output].dtype for n in single.nodes[:-1]} == {"f32"}
    back = in_half(single, everything)
    verify(back)
    assert not any(node.op == "cast" and back.types[node.output].dtype == "f32" for node in back.nodes)
    assert [back.types[name] for name in back.outputs] == [graph.types[name] for name in graph.outputs]
    h.same(graph, back, relative=1e-2)


def test_whole_numbers_and_flags_are_not_touched(h: Any) -> None:
    graph = h.graph("""
        input %x: f32[4]
        input %i: i64[2]
        %g = gather(%x, %i) axis=0
        %m = less(%g, %g)
        %n = arg_max(%g) axis=0 keepdims=true last=false
        %k = add(%n, %i)
        return %k, %m, %g
    """)
    lowered = in_half(graph, single_inputs)
    verify(lowered)
    assert [str(lowered.types[name]) for name in lowered.outputs] == ["i64[2]", "bool[2]", "f32[2]"]
    assert lowered.types[next(n for n in lowered.nodes if n.op == "arg_max").inputs[0]].dtype == "f16"


def test_the_same_tensor_twice_as_an_output_and_an_input_as_one(h: Any) -> None:
    graph = h.graph("""
        input %x: f32[4]
        %a = exp(%x)
        return %a, %x, %a
    """)
    lowered = in_half(graph, everything)
    verify(lowered)
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    first, same, second = run(lowered, x)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(same, x)


def test_constants_beyond_the_range_keep_their_sign() -> None:
    kept = to_half(np.array([-1e9, 1e9, 70000, 65504, 1e-8, -np.inf, np.nan, -0.0], np.float32))
    np.testing.assert_array_equal(kept, np.array([-HALF_MAX, HALF_MAX, HALF_MAX, 65504, 0, -np.inf, np.nan, -0.0]))
    # The largest f32 would be rounded to an infinite bf16.
    largest = to_half(np.array([-1e9, np.finfo(np.float32).max, -np.inf]), "bf16").astype(np.float64)
    np.testing.assert_array_equal(largest, [-476 * 2.0**21, 255 * 2.0**120, -np.inf])


def test_bf16_takes_the_place_of_f16(h: Any) -> None:
    graph = h.graph("""
        input %x: f32[2,2]
        const %w: f32[2,2] = {1.0, 2.0, 0.1, 4.0}
        const %bias: f32[2] = {0.1, 0.2}
        %a = matmul(%x, %w, %bias, _)
        %y = tanh(%a)
        return %y
    """)
    lowered = in_half(graph, everything, "bf16")
    verify(lowered)
    matmul = next(node for node in lowered.nodes if node.op == "matmul")
    assert [lowered.types[name].dtype for name in matmul.inputs if name] == ["bf16", "bf16", "f32"]
    weights = lowered.constants[matmul.inputs[1]].astype(np.float32)
    np.testing.assert_array_equal(weights, np.array([[1, 2], [0.10009765625, 4]], np.float32))
    h.same(graph, lowered, relative=1e-2)


@given(data=st.data())
def test_any_chain_is_well_formed_and_keeps_its_types(data: st.DataObject, h: Any) -> None:
    lines, names = ["input %x0: f32[3]", "input %x1: f16[3]"], {"f32": ["x0"], "f16": ["x1"]}
    for i in range(data.draw(st.integers(1, 8))):
        dtype = data.draw(st.sampled_from(["f32", "f16"]))
        name, source = f"t{i}", data.draw(st.sampled_from(names[dtype]))
        op = data.draw(st.sampled_from(["relu", "tanh", "cast", "reshape", "add"]))
        if op == "cast":
            dtype = data.draw(st.sampled_from(["f32", "f16"]))
            lines.append(f'%{name} = cast(%{source}) to="{dtype}"')
        elif op == "add":
            lines.append(f"%{name} = add(%{source}, %{data.draw(st.sampled_from(names[dtype]))})")
        else:
            lines.append(f"%{name} = {op}(%{source})" + (" shape=[3]" if op == "reshape" else ""))
        names[dtype].append(name)
    known = [name for group in names.values() for name in group]
    outputs = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
    graph = h.graph("\n".join([*lines, "return " + ", ".join(f"%{name}" for name in outputs)]))
    keeps = data.draw(st.sampled_from([(), ("tanh",), ("relu", "add")]))
    single = in_single(graph)
    for after in (single, in_half(graph, everything), in_half(single, all_but(*keeps))):
        h.same(graph, after, relative=2e-2)
