"""Convolutions in half precision, and the machines they are compiled for."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.graph import DTYPES, TensorType, type_of
from mavcg.graph.builder import GraphBuilder
from mavcg.specs.kernel import Machine, Packing
from tests.kernels.conftest import run_node_on
from tests.kernels.emulated_steps import EmulatedNode, emulated_node

Array = NDArray[Any]
LITTLE = Machine("little", "aarch64", "cortex-a55", in_order=True)
BIG = Machine("big", "aarch64", "cortex-a76")
X86 = Machine("x86", "x86_64", "sapphirerapids", ("-prefer-256-bit",), vector_bytes=64, vector_registers=32)
CONV: dict[str, Any] = {"pads": (0, 0, 0, 0)}
# x, w, attributes; residual: one is added; computed: the weights are an input; plain: no bias.
CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 5, 9, 64), (24, 1, 1, 64), {"act": "relu"}),
    ((1, 3, 7, 37), (21, 1, 1, 37), {"plain": True}),
    ((1, 9, 11, 3), (10, 3, 3, 3), {"stride": (2, 2)}),
    ((1, 6, 9, 32), (20, 3, 3, 32), {"residual": True}),
    ((1, 5, 8, 100), (16, 3, 3, 100), {"act": "clip", "act_args": (0.0, 6.0), "residual": True}),
    ((2, 6, 6, 16), (24, 3, 3, 8), {"groups": 2, "dilation": (2, 1)}),
    ((1, 1, 1, 520), (70, 1, 1, 520), {"act": "hard_swish"}),
    ((1, 4, 13, 131), (33, 1, 1, 131), {"residual": True}),
    ((1, 5, 6, 24), (16, 2, 3, 24), {"computed": True}),
    ((1, 5, 13, 24), (24, 3, 3, 1), {"groups": 24, "act": "relu"}),
    ((1, 6, 6, 35), (35, 2, 3, 1), {"groups": 35, "stride": (1, 2), "plain": True}),
    ((2, 7, 8, 104), (104, 5, 5, 1), {"groups": 104, "residual": True, "act": "sigmoid"}),
    ((3, 11, 33), (3, 33, 40), {"computed": True}),
    ((27, 150), (150, 17), {"computed": True, "residual": True, "act": "relu"}),
    ((9, 70), (30, 70), {"computed": True, "transpose_b": True}),
    ((9, 70), (70, 30), {"act": "tanh"}),
    ((1, 1, 3, 1100), (9, 1, 1, 1100), {"act": "relu"}),
)
TRANSPOSED: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 4, 5, 40), (19, 3, 3, 40), {"stride": (2, 2), "pads": (1, 1, 1, 1), "act": "relu"}),
    ((2, 3, 4, 12), (10, 2, 3, 6), {"stride": (1, 3), "groups": 2, "plain": True}),
    ((1, 3, 4, 9), (7, 3, 2, 9), {"stride": (2, 2), "computed": True}),
)


def case(number: int, dtype: str = "f16") -> tuple[EmulatedNode, list[Array | None]]:
    """A case, and its node's inputs."""
    x, w, options = (*CASES, *TRANSPOSED)[number]
    attrs = {k: v for k, v in options.items() if k not in ("residual", "computed", "plain")}
    conv, rng, b = len(w) == 4, np.random.default_rng(number), GraphBuilder("test")
    channels = w[0] if conv or attrs.get("transpose_b") else w[-1]
    arrays = {"x": rng.standard_normal(x), "w": rng.standard_normal(w) / 4, "bias": rng.standard_normal(channels)}
    halves = {name: arrays[name].astype(np.float32).astype(DTYPES[dtype]) for name in ("x", "w")}
    names = [b.input("x", TensorType(dtype, x))]
    computed = bool(options.get("computed"))
    names.append(b.input("w", TensorType(dtype, w)) if computed else b.constant(halves["w"], "w"))
    bias = None if options.get("plain") else arrays["bias"].astype(np.float32)
    names.append("" if bias is None else b.constant(bias, "bias"))
    if number >= len(CASES):
        op = "conv_transpose2d"
    else:
        op, attrs = ("conv2d", {**CONV, **attrs}) if conv else ("matmul", attrs)
    inputs = {"x": halves["x"], **({"w": halves["w"]} if computed else {})}
    residual = None
    if options.get("residual"):
        shape = evaluated_shape(op, halves["x"], halves["w"], attrs)
        residual = inputs["residual"] = rng.standard_normal(shape).astype(np.float32).astype(DTYPES[dtype])
        names.append(b.input("residual", TensorType(dtype, shape)))
    graph = b.finish([b.add(op, names, **attrs)])
    return emulated_node(graph, inputs), [halves["x"], halves["w"], bias, residual]


def evaluated_shape(op: str, x: Array, w: Array, attrs: dict[str, Any]) -> tuple[int, ...]:
    b = GraphBuilder("shape")
    names = [b.input("x", type_of(x)), b.constant(w)]
    graph = b.finish([b.add(op, names, **attrs)])
    return graph.shape(graph.outputs[0])


def terms_of(node: EmulatedNode, x: Array, w: Array) -> tuple[Array, Array]:
    """The factors of each output's terms, in their order: both [.., terms], which broadcast to the output."""
    (of_graph,) = node.graph.nodes
    if of_graph.op == "matmul":
        w = w if of_graph.attr("transpose_b") else np.swapaxes(w, -1, -2)
        return x[..., :, None, :], w[..., None, :, :]
    _, height, width, channels = node.graph.shape(node.output)
    groups, (down, across), (gap_h, gap_w) = (of_graph.attr(name) for name in ("groups", "stride", "dilation"))
    taps = [
        x[:, ky * gap_h :, kx * gap_w :][:, ::down, ::across][:, :height, :width]
        for ky in range(w.shape[1])
        for kx in range(w.shape[2])
    ]
    by_group = np.stack(taps, 3).reshape(*taps[0].shape[:3], len(taps), groups, -1)
    left = np.moveaxis(by_group, 4, 3).reshape(*taps[0].shape[:3], groups, 1, -1)
    right = w.reshape(groups, channels // groups, -1)
    return np.repeat(left, channels // groups, 4).reshape(*left.shape[:3], channels, -1), right.reshape(channels, -1)


def same_output(node: EmulatedNode, machines: Sequence[Machine], packing: Packing, optimised: bool = False) -> Array:
    """Return the output of a node on these machines, which give the same bits; skips if there are none."""
    if not machines:
        pytest.skip("this machine runs none of the kinds of machines")
    (of_graph,) = node.graph.nodes
    outputs = [
        run_node_on(machine, of_graph, node.graph, node.inputs, parts=2, packing=packing, optimised=optimised)[0]
        for machine in machines
    ]
    assert len({output.tobytes() for output in outputs}) == 1
    return outputs[0]
