"""Results of a chain by its judges: onnxruntime without optimisation or LiteRT, and NumPy in double precision."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.chains.chain import ONNX, Chain, model_bytes, part_of
from bench.chains.tflite_truth import all_bounded as tflite_bounded
from bench.differential.part import Array
from bench.differential.truth import SAMPLES, Bounded, all_bounded

ONNXRUNTIME, LITERT, NUMPY, MAVCG = "onnxruntime", "LiteRT", "NumPy", "mavcg"


def runtime_name(chain: Chain) -> str:
    """Return the name of the other runtime."""
    return ONNXRUNTIME if chain.format == ONNX else LITERT


def by_runtime(chain: Chain) -> dict[str, Array]:
    """Return every node's results by the other runtime, without optimisation.

    Raises: the runtime's own exceptions if it does not run the chain.
    """
    if chain.format == ONNX:
        return _by_onnxruntime(chain, [name for node in chain.nodes for name in node.outputs if name], False)
    return _by_litert(chain)


def by_optimised_runtime(chain: Chain) -> dict[str, Array]:
    """Return the outputs by the other runtime with its optimisations, for the spread of its own results."""
    return _by_onnxruntime(chain, list(chain.outputs), True) if chain.format == ONNX else _by_litert(chain)


def _by_onnxruntime(chain: Chain, names: list[str], optimised: bool) -> dict[str, Array]:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model_bytes([replace(chain, outputs=tuple(names))])
    session = onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])
    return dict(zip(names, map(np.asarray, session.run(names, dict(chain.inputs))), strict=True))


def _by_litert(chain: Chain) -> dict[str, Array]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(
        model_content=model_bytes([chain]),
        experimental_op_resolver_type=resolver,
        num_threads=1,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    for details, array in zip(interpreter.get_input_details(), chain.inputs.values(), strict=True):
        interpreter.set_tensor(details["index"], array)
    interpreter.invoke()
    wanted = {name for node in chain.nodes for name in node.outputs}
    return {
        details["name"]: np.array(interpreter.get_tensor(details["index"]))
        for details in interpreter.get_tensor_details()
        if details["name"] in wanted
    }


def by_numpy(chain: Chain, samples: int = SAMPLES) -> Mapping[str, Bounded] | None:
    """Return every node's results in double precision and their bounds; None if an operator has no definition."""
    return all_bounded(part_of(chain), samples) if chain.format == ONNX else tflite_bounded(chain, samples)


def inferred_by_mavcg(chain: Chain, folder: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and type (NumPy's name) of the tensors that mavcg's importer keeps the names of.

    Raises: MavcgError if it refuses the chain.
    """
    from mavcg.graph import DTYPES
    from mavcg.importers.declared_shapes import GivenShapes
    from mavcg.importers.load import import_model

    path = folder / f"{chain.prefix}.{chain.format}"
    path.write_bytes(model_bytes([chain]))
    try:
        # The writer of TFLite files leaves shapes of results to the runtime.
        graph = import_model(path, GivenShapes(ignore_declared=chain.format != ONNX))
    finally:
        path.unlink()
    return {name: (t.shape, np.dtype(DTYPES[t.dtype]).name) for name, t in graph.types.items()}
