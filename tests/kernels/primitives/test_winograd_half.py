"""Winograd's algorithms in f16: one and three kernels, on Arm cores in an emulator, against exact sums."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import evaluate
from mavcg.graph.reference.elementwise import apply_activation
from mavcg.kernels.primitives.winograd.family import HALF_ERROR_BOUNDS
from mavcg.kernels.primitives.winograd.node_step import winograd_choices, winograd_steps
from mavcg.specs.kernel import Machine, Packing, dense_view
from tests.kernels.emulated_steps import EmulatedNode, run_emulated

Array = NDArray[Any]
LITTLE = Machine("little", "aarch64", "cortex-a55", in_order=True)
BIG = Machine("big", "aarch64", "cortex-a76")
# x, w, attributes; residual: one is added; plain: no bias. Small channels, tails, sums of several blocks, a batch.
CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 9, 11, 3), (10, 3, 3, 3), {"act": "relu"}),
    ((1, 14, 14, 64), (24, 3, 3, 64), {}),
    ((1, 7, 13, 150), (19, 3, 3, 150), {"residual": True, "act": "clip", "act_args": (0.0, 6.0)}),
    ((2, 8, 10, 24), (40, 3, 3, 24), {"plain": True, "act": "hard_swish"}),
)


def case(number: int, size: float = 1.0) -> tuple[EmulatedNode, Array]:
    """A case by its default algorithm, and its exact sums in f64, before the activation. size: of the inputs."""
    x, w, options = CASES[number]
    rng, b = np.random.default_rng(number), GraphBuilder("test")
    arrays = {"x": (rng.standard_normal(x) * size).astype(np.float16)}
    names = [b.input("x", TensorType("f16", x))]
    names.append(b.constant((rng.standard_normal(w) / np.sqrt(w[3] * 9)).astype(np.float16), "w"))
    plain = options.get("plain")
    names.append("" if plain else b.constant(rng.standard_normal(w[0]).astype(np.float32), "bias"))
    if options.get("residual"):
        shape = (x[0], x[1] - 2, x[2] - 2, w[0])
        arrays["residual"] = rng.standard_normal(shape).astype(np.float16)
        names.append(b.input("residual", TensorType("f16", shape)))
    attrs = {k: v for k, v in options.items() if k.startswith("act")}
    graph = b.finish([b.add("conv2d", names, pads=(0, 0, 0, 0), **attrs)])
    (node,) = graph.nodes
    values = [arrays.get(name, graph.constants.get(name)) for name in node.inputs]
    (exact,) = evaluate(node.with_attrs(act="", act_args=()), values, wide=True)
    return EmulatedNode(graph, arrays, ()), np.asarray(exact)


def by(name: str, made: EmulatedNode) -> EmulatedNode:
    (node,) = made.graph.nodes
    views = {tensor: dense_view(kind) for tensor, kind in made.graph.types.items()}
    return EmulatedNode(made.graph, made.inputs, winograd_steps(name, node, made.graph, views, Packing(8)))


def choices(made: EmulatedNode, max_error: float = 1.0) -> tuple[str, ...]:
    return winograd_choices(made.graph.nodes[0], made.graph, max_error)


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[tuple[int, str], Array]]:
    """Results by core, in order and out of order, then by case and algorithm."""
    keys = [(number, name) for number in range(len(CASES)) for name in choices(case(number)[0])]
    nodes, folder = [by(name, case(number)[0]) for number, name in keys], tmp_path_factory.mktemp("winograd")
    results = {machine.name: run_emulated(nodes, machine, folder / machine.name) for machine in (LITTLE, BIG)}
    return {machine: dict(zip(keys, outputs, strict=True)) for machine, outputs in results.items()}


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(CASES)))
def test_cores_and_forms_give_the_same_bits_near_the_exact_sums(
    computed: dict[str, dict[tuple[int, str], Array]], number: int
) -> None:
    made, exact = case(number)
    act = made.graph.nodes[0].with_attrs()
    names = choices(made)
    assert names[:2] == ("winograd_2d_f2_k3", "winograd_2d_f4_k3")
    for name in names:
        output = computed["little"][number, name]
        assert output.tobytes() == computed["big"][number, name].tobytes()
        assert output.tobytes() == computed["little"][number, name.removesuffix("_staged")].tobytes()
        expected = np.asarray(apply_activation(act, exact))
        bound = HALF_ERROR_BOUNDS[int(name[len("winograd_2d_f")]), 3]
        assert np.abs(output - expected).max() <= bound / 2 * np.abs(exact).max()


def test_large_inputs_do_not_overflow_in_a_transform(tmp_path: Path) -> None:
    made, exact = case(1, 9000.0)
    nodes = [by(name, made) for name in ("winograd_2d_f2_k3", "winograd_2d_f4_k3")]
    for output in run_emulated(nodes, BIG, tmp_path):
        assert np.isfinite(output).all() and np.abs(output - exact).max() <= 2e-2 * np.abs(exact).max()


def test_a_limit_on_the_error_excludes_larger_tiles() -> None:
    made, _ = case(1)
    assert choices(made, 0.0) == choices(made, 1e-4) == ()
    assert choices(made, HALF_ERROR_BOUNDS[2, 3]) == ("winograd_2d_f2_k3", "winograd_2d_f2_k3_staged")
    assert len(choices(made, HALF_ERROR_BOUNDS[4, 3])) == 4
