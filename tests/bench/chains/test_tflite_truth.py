"""TFLite operators in double precision against LiteRT: shapes and types of all tensors, numbers of most."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from bench.chains.judges import by_numpy, by_runtime  # noqa: E402
from bench.chains.random_tflite_chain import random_tflite_chain  # noqa: E402
from bench.chains.verdict import near  # noqa: E402

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
