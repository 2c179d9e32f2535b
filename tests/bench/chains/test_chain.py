"""Chains as data: they follow from seed and number, go through JSON, and are valid in both formats."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")

from bench.chains.chain import ONNX, Chain, as_json, from_json, model_bytes, pruned, renamed  # noqa: E402
from bench.chains.random_chain import BATCH, LONGEST, TFLITE_EVERY, format_of, random_chain  # noqa: E402
from bench.differential.part import MICROSOFT  # noqa: E402

TFLITE_NUMBER = BATCH * (TFLITE_EVERY - 1)
NUMBERS = (3, 19, TFLITE_NUMBER + 2, TFLITE_NUMBER + 5)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_chain_follows_from_seed_and_number(number: int) -> None:
    first, again = random_chain(7, number), random_chain(7, number)

    assert model_bytes([first]) == model_bytes([again])
    assert model_bytes([first]) != model_bytes([random_chain(8, number)])
    assert all(np.array_equal(x, again.inputs[name], x.dtype.kind == "f") for name, x in first.inputs.items())


@pytest.mark.parametrize("number", NUMBERS)
def test_json_keeps_a_chain(number: int) -> None:
    chain = random_chain(7, number)

    again = from_json(json.loads(json.dumps(as_json(chain))))

    assert model_bytes([again]) == model_bytes([chain])
    assert str(again) == str(chain)


def test_chains_have_branches_joins_and_many_operators() -> None:
    chains = [random_chain(7, number) for number in range(2 * BATCH)]

    for chain in chains:
        context = onnx.checker.C.CheckerContext()
        context.ir_version, context.opset_imports = 8, {"": chain.opset, MICROSOFT: 1}
        for node in onnx.load_from_string(model_bytes([chain])).graph.node if chain.format == ONNX else ():
            if not node.domain:
                onnx.checker.check_node(node, context)
        assert 2 <= len(chain.nodes) <= LONGEST + 12
    readers = [[sum(name in n.inputs for n in c.nodes) for node in c.nodes for name in node.outputs] for c in chains]
    made = [{name for node in c.nodes for name in node.outputs} for c in chains]
    joins = [any(len(made[i] & set(node.inputs)) > 1 for node in c.nodes) for i, c in enumerate(chains)]
    assert sum(max(counts) > 1 for counts in readers) > BATCH
    assert sum(joins) > BATCH
    assert len({op for c in chains for op in c.operators}) > 70


def test_formats_alternate_by_library() -> None:
    assert [format_of(BATCH * i) for i in range(TFLITE_EVERY)] == ["onnx"] * (TFLITE_EVERY - 1) + ["tflite"]


def test_pruning_leaves_what_an_output_needs() -> None:
    chain = random_chain(7, 19)
    first = chain.nodes[0]

    small = pruned(Chain(**{**chain.__dict__, "outputs": first.outputs[:1]}))

    assert small.nodes == (first,)
    assert set(small.inputs) | set(small.constants) == {name for name in first.inputs if name}
    assert str(renamed(small, "h_")) == str(small).replace(chain.prefix, "h_")
