"""Runs of a TFLite model with variables one after the other, by LiteRT and by mavcg."""

from collections.abc import Sequence

import numpy as np

from mavcg.graph import DTYPES, Array, Graph
from mavcg.graph.reference import run


def litert_runs(data: bytes, sequence: Sequence[Array]) -> list[Array]:
    """The first output of each invocation of one interpreter."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=resolver, num_threads=1)
    interpreter.allocate_tensors()
    (given_details,), outputs = interpreter.get_input_details(), interpreter.get_output_details()
    results = []
    for array in sequence:
        interpreter.set_tensor(given_details["index"], array)
        interpreter.invoke()
        results.append(np.array(interpreter.get_tensor(outputs[0]["index"])))
    return results


def our_runs(graph: Graph, sequence: Sequence[Array]) -> list[Array]:
    kept = [
        np.zeros(graph.shape(s.input), DTYPES[graph.types[s.input].dtype]) if s.initial is None else s.initial
        for s in graph.states
    ]
    results = []
    for array in sequence:
        result, *kept = run(graph, array, *kept)
        results.append(result)
    return results
