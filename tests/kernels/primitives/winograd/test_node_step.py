"""Convolutions of a graph by Winograd's method, against the definition in double precision."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from mavcg.graph import Graph, Node, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import evaluate
from mavcg.kernels.primitives.winograd.family import ERROR_BOUNDS, MOST_SCRATCH
from mavcg.kernels.primitives.winograd.node_step import STAGED, winograd_choices, winograd_steps
from mavcg.kernels.primitives.winograd.spec import Winograd
from mavcg.specs.kernel import Packing, Step
from mavcg.specs.tile_plan import call_rows
from tests.kernels.conftest import machines_of_all_widths, padded_view, run_node_on

ALL = 1.0


def node_of(
    x: tuple[int, int, int, int],
    w: tuple[int, int, int, int],
    residual: bool = False,
    bias: bool = True,
    known: bool = True,
    **attrs: Any,
) -> tuple[Graph, Node, dict[str, Any]]:
    """A conv2d over seeded numbers: its graph, itself, its inputs."""
    rng = np.random.default_rng(sum(x) + sum(w))
    b = GraphBuilder("test")
    arrays: dict[str, Any] = {"x": rng.standard_normal(x, dtype=np.float32)}
    weights = rng.standard_normal(w, dtype=np.float32)
    names = [b.input("x", TensorType("f32", x))]
    if known:
        names.append(b.constant(weights, "w"))
    else:
        arrays["w"] = weights
        names.append(b.input("w", TensorType("f32", w)))
    names.append(b.constant(rng.standard_normal(w[0], dtype=np.float32), "bias") if bias else "")
    if residual:
        shape = (x[0], x[1] - w[1] + 1, x[2] - w[2] + 1, w[0])
        arrays["residual"] = rng.standard_normal(shape, dtype=np.float32)
        names.append(b.input("residual", TensorType("f32", shape)))
    graph = b.finish([b.add("conv2d", names, **attrs)])
    return graph, graph.nodes[-1], arrays


def lowering_by(name: str) -> Any:
    def lower_steps(node: Node, graph: Graph, views: Any, packing: Packing) -> tuple[Step, ...]:
        return winograd_steps(name, node, graph, views, packing)

    return lower_steps


@pytest.mark.parametrize(
    ("name", "x", "channels", "residual", "act"),
    [
        ("winograd_2d_f2_k3", (1, 9, 11, 5), 7, False, ""),
        ("winograd_2d_f4_k3", (2, 13, 8, 16), 24, True, "relu"),
        ("winograd_2d_f4_k3", (1, 6, 6, 33), 17, True, ""),
        ("winograd_2d_f4_k5", (1, 9, 11, 5), 7, False, ""),
        ("winograd_2d_f4_k3_staged", (1, 13, 8, 16), 24, True, "relu"),
        ("winograd_2d_f2_k3_staged", (1, 9, 9, 33), 150, False, ""),
    ],
)
@pytest.mark.sample(3)
def test_agrees_with_the_definition(name: str, x: Any, channels: int, residual: bool, act: str, thorough: bool) -> None:
    m, k = int(name[len("winograd_2d_f")]), int(name[len("winograd_2d_f4_k")])
    graph, node, arrays = node_of(x, (channels, k, k, x[3]), residual, act=act)
    assert name in winograd_choices(node, graph, ALL)
    values = {**graph.constants, **arrays}
    (expected,) = evaluate(node, [values.get(n) for n in node.inputs], wide=True)
    # As in a padded or concatenated buffer: gaps between pixels.
    views = {name: padded_view("f32", graph.shape(name), 3) for name in ("x", node.output)}
    run = partial(run_node_on, node=node, graph=graph, inputs=arrays, views=views, lowering=lowering_by(name))

    outputs = [
        run(machine, parts=parts, optimised=thorough or (parts == 1 and act == "relu"))[0]
        for machine, parts in zip(machines_of_all_widths(), (1, 2, 3), strict=False)
    ]

    assert np.abs(outputs[0] - expected).max() <= ERROR_BOUNDS[True, m, k] * np.abs(expected).max()
    assert len({output.tobytes() for output in outputs}) == 1


def test_what_a_node_may_be_off_by_decides() -> None:
    graph, node, _ = node_of((1, 8, 8, 4), (4, 3, 3, 4))
    least, more = ERROR_BOUNDS[True, 2, 3], ERROR_BOUNDS[True, 4, 3]
    assert 0 < least < more

    assert winograd_choices(node, graph, 0.0) == ()
    assert winograd_choices(node, graph, least) == ("winograd_2d_f2_k3", "winograd_2d_f2_k3_staged")
    assert {name for name in winograd_choices(node, graph, more) if "f4" in name} == {
        "winograd_2d_f4_k3",
        "winograd_2d_f4_k3_staged",
    }


def test_three_kernels_give_the_bits_of_one(thorough: bool) -> None:
    graph, node, arrays = node_of((1, 14, 12, 20), (40, 3, 3, 20), True, act="relu")
    machine = machines_of_all_widths()[0]
    outputs = {
        name: run_node_on(machine, node, graph, arrays, parts=3, lowering=lowering_by(name), optimised=thorough)[0]
        for name in winograd_choices(node, graph, ALL)
    }

    assert {name for name in outputs if "_f2" not in name} >= {"winograd_2d_f4_k3", "winograd_2d_f4_k3_staged"}
    for name, values in outputs.items():
        assert values.tobytes() == outputs[name.removesuffix(STAGED)].tobytes()


def test_three_kernels_are_for_one_image() -> None:
    graph, node, _ = node_of((2, 8, 8, 4), (4, 3, 3, 4))

    assert winograd_choices(node, graph, ALL) and not any(STAGED in name for name in winograd_choices(node, graph, ALL))


@pytest.mark.parametrize(
    ("w", "attrs"),
    [
        ((4, 1, 1, 4), {}),
        ((4, 3, 5, 4), {}),
        ((4, 3, 3, 4), {"stride": (2, 2)}),
        ((4, 3, 3, 4), {"dilation": (2, 2)}),
        ((4, 3, 3, 2), {"groups": 2}),
        ((4, 3, 3, 4), {"known": False}),
    ],
)
def test_what_it_does_not_compute(w: Any, attrs: dict[str, Any]) -> None:
    graph, node, _ = node_of((1, 8, 8, 4), w, **attrs)

    assert winograd_choices(node, graph, ALL) == ()


@pytest.mark.parametrize(("side", "tasks"), [(12, 2), (28, 2), (56, 8), (112, 24)])
def test_tiles_are_shared_evenly_by_threads(side: int, tasks: int) -> None:
    graph, node, _ = node_of((1, side + 2, side + 2, 64), (64, 3, 3, 64))
    views = {name: padded_view("f32", graph.shape(name), 0) for name in ("x", node.output)}
    views["bias"] = padded_view("f32", (64,), 0)
    (step,) = winograd_steps("winograd_2d_f4_k3", node, graph, views, Packing(16))
    grain, block = call_rows(step.spec)

    assert step.spec.rows == (side // 4) ** 2 and block == step.spec.rows  # tiles; a call gets a whole claim
    assert -(-step.spec.rows // grain) == tasks
    assert grain <= step.spec.shared_rows


def long_block_of(side: int, in_ch: int, out_ch: int, m: int = 4) -> tuple[Winograd, Winograd]:
    """The kernels of a layer of side x side pixels, with blocks of the usual and of the largest number of tiles."""
    graph, node, _ = node_of((1, side + 2, side + 2, in_ch), (out_ch, 3, 3, in_ch), bias=False)
    views = {name: padded_view("f32", graph.shape(name), 0) for name in ("x", node.output)}
    specs = []
    for packing in (Packing(16), Packing(16, long_blocks=True)):
        (step,) = winograd_steps(f"winograd_2d_f{m}_k3", node, graph, views, packing)
        assert isinstance(step.spec, Winograd)
        specs.append(step.spec)
    return specs[0], specs[1]


@pytest.mark.parametrize(
    ("side", "in_ch", "out_ch", "m", "block"),
    [
        (28, 128, 128, 4, 49),  # all tiles: 2.4 MB of weights are read once, not twice
        (14, 256, 256, 2, 49),
        (28, 72, 72, 4, 36),  # the weights are as large as 36 tiles
        (28, 74, 74, 4, 25),  # and as 37, in two even blocks
        (56, 64, 64, 4, 36),  # the weights are smaller than the block
        (14, 256, 256, 4, 16),
        (56, 256, 256, 4, 98),  # as large as 128, in two even blocks
        (28, 512, 512, 4, 49),
        (56, 512, 512, 4, 49),  # of 8 MB, which scratch is at most
    ],
)
def test_long_blocks_read_large_weights_less_often(side: int, in_ch: int, out_ch: int, m: int, block: int) -> None:
    usual, long = long_block_of(side, in_ch, out_ch, m)

    assert usual.block == min(36, usual.tiles.count)
    assert long.block == block
    assert long.scratch_bytes <= MOST_SCRATCH + (1 << 20)  # slack and patches
    assert call_rows(long) == call_rows(usual)  # threads share the tiles as before


def test_long_blocks_give_the_same_bits() -> None:
    graph, node, arrays = node_of((1, 30, 30, 80), (96, 3, 3, 80), act="relu")
    machine = machines_of_all_widths()[0]

    def outputs(packing: Packing, parts: int) -> Any:
        run = partial(run_node_on, machine, node, graph, arrays, packing=packing, optimised=False)
        return run(parts=parts, lowering=lowering_by("winograd_2d_f4_k3"))[0][0]

    expected = outputs(Packing(16), 1)
    assert outputs(Packing(16, long_blocks=True), 1).tobytes() == expected.tobytes()
    assert outputs(Packing(16, long_blocks=True), 3).tobytes() == expected.tobytes()
