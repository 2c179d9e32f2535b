"""bf16 convolutions and matrix products by BFMMLA, in an emulator: the bits of Arm's definition, also without it."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.graph import DTYPES
from mavcg.kernels.gemm.tile import pack
from mavcg.kernels.registry import lower
from mavcg.specs.kernel import BF16_TERMS, Machine, Packing, dense_view
from tests.kernels.blas.matrix_products import added_to_odd, product
from tests.kernels.conv.half_cases import case, terms_of
from tests.kernels.emulated_steps import EmulatedNode, compiled, run_emulated

Array = NDArray[Any]
PLAIN = Machine("plain", "aarch64", "generic", ("+neon",))
LITTLE = Machine("little", "aarch64", "cortex-a510", in_order=True, bf16_dot=True)
BIG = Machine("big", "aarch64", "neoverse-n2", bf16_dot=True)
PACKING = Packing(8, 8, BF16_TERMS)
NUMBERS = (0, 3, 4, 5, 6)  # of test_half's cases, those with whole groups of channels
SAMPLES = 6  # outputs that are computed in fractions


def matrix_case(number: int) -> tuple[EmulatedNode, list[Array | None]]:
    """A case of test_half in bf16, lowered for cores that multiply matrices."""
    node, inputs = case(number, "bf16")
    (of_graph,) = node.graph.nodes
    views = {name: dense_view(kind) for name, kind in node.graph.types.items()}
    return EmulatedNode(node.graph, node.inputs, lower(of_graph, node.graph, views, PACKING)), inputs


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Array]]:
    """Results of all cases, by machine."""
    nodes, folder = [matrix_case(number)[0] for number in NUMBERS], tmp_path_factory.mktemp("matrices")
    return {machine.name: run_emulated(nodes, machine, folder / machine.name) for machine in (PLAIN, LITTLE, BIG)}


def defined(left: Array, right: Array) -> np.float32:
    """The sum of products by its definition. left, right: [terms] numbers of bf16, none subnormal."""
    total = 0.0
    products = [product(float(x), float(y)) for x, y in zip(left, right, strict=True)]
    for first in range(0, len(products), 2):
        total = added_to_odd(total, added_to_odd(products[first], products[first + 1]))
    return np.float32(total)


@pytest.mark.parametrize("position", range(len(NUMBERS)))
def test_sums_have_the_bits_of_their_definition(computed: dict[str, list[Array]], position: int) -> None:
    node, (x, w, bias, residual) = matrix_case(NUMBERS[position])
    assert x is not None and w is not None
    (of_graph,) = node.graph.nodes
    plain, little, big = (computed[name][position] for name in ("plain", "little", "big"))
    assert plain.tobytes() == little.tobytes() == big.tobytes()
    left, right = terms_of(node, x, w)
    rng = np.random.default_rng(position)
    for _ in range(SAMPLES):
        at = tuple(int(rng.integers(n)) for n in big.shape)
        total = defined(left[(*at[:-1], at[-1] % left.shape[-2])], right[at[-1]])
        total = total + (np.float32(0) if bias is None else bias[at[-1]])
        if residual is not None:
            total = total + residual[at].astype(np.float32)
        low, high = {"": (-np.inf, np.inf), "relu": (0, np.inf), "clip": of_graph.attr("act_args")}.get(
            of_graph.attr("act"), (np.nan, np.nan)
        )
        if not np.isnan(low):
            assert np.clip(total, low, high).astype(DTYPES["bf16"]) == big[at]
        else:
            wanted = total * np.clip(total / 6 + 0.5, 0, 1)
            assert of_graph.attr("act") == "hard_swish"
            np.testing.assert_allclose(np.float32(big[at]), wanted, rtol=2.0**-8 * 1.001, atol=1e-6)


def test_loops_multiply_matrices_and_convert_nothing(tmp_path: Path) -> None:
    nodes = [matrix_case(number)[0] for number in (0, 3)]
    text = compiled(nodes, BIG, tmp_path, "asm").read_text()
    assert len(re.findall(r"\bbfmmla\b", text)) > 20
    assert not re.search(r"\bfmla\b|\bushll?\b|\bbl\b", text)


def test_other_numbers_of_channels_are_widened() -> None:
    node, _ = case(1, "bf16")  # 37 channels
    (of_graph,) = node.graph.nodes
    views = {name: dense_view(kind) for name, kind in node.graph.types.items()}
    (step,) = lower(of_graph, node.graph, views, PACKING)
    assert step.spec.terms == 1  # type: ignore[attr-defined]


def test_packed_weights_keep_four_terms_of_a_channel_together() -> None:
    weights = np.arange(10 * 2 * 3 * 8).reshape(10, 2, 3, 8)
    packed = pack(weights, 1, 8, 4)
    assert packed.shape == (1, 2, 12, 8, 4)
    np.testing.assert_array_equal(packed[0, 1, 5, 1], weights[9].reshape(-1)[20:24])
    assert not packed[0, 1, :, 2:].any()  # the last panel's channels that do not exist
