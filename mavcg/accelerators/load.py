"""Load the coarse graph of a model's file, or of a built-in network."""

from collections.abc import Mapping
from pathlib import Path

from mavcg.accelerators.from_graph import xgraph_of
from mavcg.accelerators.networks import NAMES, network
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.importers.load import import_model, is_model
from mavcg.passes.graph.states import without_counts, without_states


def load_xgraph(
    model: str, target: IsaTarget, shapes: Mapping[str, tuple[int, ...]], weights: Path | None = None
) -> XGraph:
    """Return the f32 XGraph of an .onnx, .tflite or .prototxt file, or of a built-in network.

    shapes: shapes of inputs whose dimensions a file leaves free. weights: weights of a .prototxt; None for the
    .caffemodel beside it. Raises: MavcgError for a name that is neither, a file that cannot be read, and shapes of a
    built-in network.
    """
    on_host = target.dense == "cpu"
    if model in NAMES:
        if shapes:
            raise MavcgError(f"--shape: {model} is a built-in network with a fixed shape; give a model's file")
        if weights is not None:
            raise MavcgError(f"--weights {weights}: {model} is a built-in network, which has weights; give a .prototxt")
        return xgraph_of(network(model), on_host)
    if not is_model(Path(model)) and not Path(model).exists():
        raise MavcgError(
            f"{model}: neither a .onnx, .tflite or .prototxt file nor a built-in network; known: {', '.join(NAMES)}"
        )
    why_not = f"{model}: a program for an accelerator has no memory between runs"
    graph = without_states(import_model(Path(model), shapes, weights), why_not)
    return xgraph_of(
        without_counts(graph, f"{model}: a program for an accelerator has outputs of fixed shapes"), on_host
    )
