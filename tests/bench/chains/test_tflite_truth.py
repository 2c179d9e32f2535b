"""TFLite operators in double precision against LiteRT: shapes and types of all tensors, numbers of most."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from bench.chains.chain import TFLITE, Chain, Node  # noqa: E402
from bench.chains.judges import by_numpy, by_runtime  # noqa: E402
from bench.chains.random_tflite_chain import random_tflite_chain  # noqa: E402
from bench.chains.verdict import SAMPLES_OF_A_FAULT, near  # noqa: E402
from bench.tflite_file import Quantised  # noqa: E402

# LiteRT's own 8-bit arithmetic rounds differently by a step, and it clamps infinities (docs/operators.md).
STEP = 1.0


def test_definitions_agree_with_litert() -> None:
    compared, operators = 0, set[str]()
    for number in range(30):
        chain = random_tflite_chain(np.random.default_rng([number, 5]), "g_")
        runtime, exact = by_runtime(chain), by_numpy(chain)
        assert exact is not None
        for node in chain.nodes:
            for name in node.outputs:
                have, want = runtime[name], exact[name]
                assert have.shape == want.value.shape, node
                assert have.dtype.name == chain.dtypes[name], node
            # A difference goes on through the chain: operators on arguments that agree are compared.
            arguments = [name for name in node.inputs if name in exact]
            same = all(np.array_equal(runtime[n], exact[n].value.astype(runtime[n].dtype)) for n in arguments)
            if same and all(np.isfinite(exact[name].value).all() for name in node.outputs):
                compared += 1
                operators.add(node.op)
                for name in node.outputs:
                    slack = STEP if runtime[name].dtype == np.int8 else 0.0
                    bound = exact[name].bound + slack
                    assert near(runtime[name].astype(np.float64), exact[name].value, bound).all(), node
    assert compared > 60
    assert len(operators) > 30


def test_another_scale_of_an_exact_operator_may_round_by_a_step_at_a_tie() -> None:
    """35 steps of the input are 127.4999971 of the output, which is 127.5 in f32; 34 are 123.9."""
    scales = np.array([0x3C84C689, 0x3B91CAF1], np.uint32).view(np.float32)
    formats = {name: Quantised(scale, zero, 0) for name, scale, zero in zip("xy", scales, (57, -128), strict=True)}
    assert 35 * np.float64(scales[0]) / np.float64(scales[1]) < 127.5 == np.float32(35) * scales[0] / scales[1]
    x = np.array([[92, 91, 57]], np.int8)
    chain = Chain(TFLITE, "", 0, (Node("RELU6", ("x",), ("y",)),), {}, {"x": x}, ("y",), {"y": "int8"}, formats)

    exact = by_numpy(chain, SAMPLES_OF_A_FAULT)

    assert exact is not None
    np.testing.assert_array_equal(exact["y"].value, [[-1, -4, -128]])
    np.testing.assert_array_equal(exact["y"].bound, [[1, 0, 0]])
    alike = {**formats, "y": formats["x"]}
    same_scale = by_numpy(replace(chain, quantised=alike), SAMPLES_OF_A_FAULT)
    assert same_scale is not None and not same_scale["y"].bound.any()
