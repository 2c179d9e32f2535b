"""One node's results by ONNX's reference implementation."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from bench.differential.part import IR_VERSIONS, MICROSOFT, Array


class NotComputedError(Exception):
    """Raised if ONNX's reference implementation does not compute an operator, or not in this type."""


def run_reference(node: Any, opset: int, inputs: Mapping[str, Array]) -> Sequence[Array]:
    """Return a node's outputs. Raises: NotComputedError."""
    evaluator = _reference(node.SerializeToString(), opset)
    try:
        results: Sequence[Array] = evaluator.run(None, dict(inputs))
    except Exception as error:  # it raises whatever its NumPy code raises, for operators that it lacks or has otherwise
        raise NotComputedError(node.op_type) from error
    return results


@lru_cache(maxsize=1024)
def _reference(data: bytes, opset: int) -> Any:
    from onnx import NodeProto, helper
    from onnx.reference import ReferenceEvaluator

    node = NodeProto.FromString(data)
    inputs, outputs = (
        [helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(names) if name]
        for names in (node.input, node.output)
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    graph = helper.make_graph([node], "node", inputs, outputs)
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSIONS[opset]))
