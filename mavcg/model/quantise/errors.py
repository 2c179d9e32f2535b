"""Errors of 8-bit layers and of whole 8-bit models on the calibration samples, against the model in f32.

An error is the root mean square of the differences over that of the f32 numbers, over all samples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mavcg.importers.onnx_proto import onnx_module
from mavcg.model.quantise.onnxruntime_models import Run, runner
from mavcg.model.quantise.samples import Sample

if TYPE_CHECKING:
    import onnx


@dataclass
class _Ratio:
    """Sums of squares of differences and of exact numbers."""

    differences: float = 0.0
    exact: float = 0.0

    def add(self, exact: NDArray[Any], computed: NDArray[Any]) -> None:
        wanted = exact.astype(np.float64)
        self.differences += float(np.square(computed.astype(np.float64) - wanted).sum())
        self.exact += float(np.square(wanted).sum())

    @property
    def error(self) -> float:
        if self.differences == 0:
            return 0.0
        return float(np.sqrt(self.differences / self.exact)) if self.exact else float("inf")


def model_error(exact: Sequence[Sequence[NDArray[Any]]], computed: Iterable[Sequence[NDArray[Any]]]) -> float:
    """Return the largest error of an output of floats. exact, computed: the outputs for each sample."""
    ratios: dict[int, _Ratio] = {}
    for wanted, found in zip(exact, computed, strict=True):
        for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
            if one.dtype.kind == "f":
                ratios.setdefault(number, _Ratio()).add(one, other)
    return max((ratio.error for ratio in ratios.values()), default=0.0)


@dataclass(frozen=True)
class QuantisedLayer:
    """A layer of a quantised model, from its f32 input to the f32 numbers of its result.

    source: tensor of the f32 model that it reads. result: tensor of the f32 model that it makes, its activation
    included. computed: the same in the quantised model. nodes: from the input's conversion to the result's.
    """

    name: str
    source: str
    result: str
    computed: str
    nodes: tuple[onnx.NodeProto, ...]


def quantised_layer(model: onnx.ModelProto, name: str, exact: Collection[str]) -> QuantisedLayer | None:
    """Return a layer of a quantised model; None where the quantiser left it in f32. exact: the f32 model's tensors."""
    makers = {output: node for node in model.graph.node for output in node.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for read in node.input:
            readers.setdefault(read, []).append(node)
    layer = next(node for node in model.graph.node if node.name == name)
    restored = [makers.get(read) for read in layer.input if read]
    if any(node is None or node.op_type != "DequantizeLinear" for node in restored):
        return None
    inputs = [node for node in restored if node is not None]
    rounding = makers.get(inputs[0].input[0])
    if rounding is None or rounding.op_type != "QuantizeLinear":
        return None
    nodes, result, computed = [rounding, *inputs, layer], layer.output[0], layer.output[0]
    for after in readers.get(result, []):
        if after.op_type == "QuantizeLinear":
            back = readers[after.output[0]][0]
            nodes += [after, back]
            computed = back.output[0]
    # An output of the model keeps its name, and what is rounded there gets another.
    result = result if result in exact else computed
    return QuantisedLayer(name, rounding.input[0], result, computed, tuple(nodes)) if result in exact else None


def layer_errors(
    folded: onnx.ModelProto,
    quantised: onnx.ModelProto,
    layers: Sequence[str],
    samples: Sequence[Sample],
    location: str,
    progress: Callable[[str], None],
) -> dict[str, float | None]:
    """Return the error of each layer's result where its input is exact; None where the quantiser left it in f32.

    folded: in f32. quantised: all layers in 8 bits. location: of the model, for errors. Raises: MavcgError.
    """
    made = {output for node in folded.graph.node for output in node.output}
    known = [layer for name in layers if (layer := quantised_layer(quantised, name, made)) is not None]
    tensors = list(dict.fromkeys(name for layer in known for name in (layer.source, layer.result) if name in made))
    exact_run = runner(folded, location, tensors) if tensors else None
    runs = {layer.name: _layer_runner(quantised, layer, location) for layer in known}
    ratios = {layer.name: _Ratio() for layer in known}
    for number, sample in enumerate(samples):
        progress(f"measuring layers on sample {number + 1} of {len(samples)}")
        computed = [] if exact_run is None else exact_run(sample)
        exact = {**sample, **dict(zip(tensors, computed, strict=True))}
        for layer in known:
            (result,) = runs[layer.name]({layer.source: exact[layer.source]})
            ratios[layer.name].add(exact[layer.result], result)
    return {name: ratios[name].error if name in ratios else None for name in layers}


def _layer_runner(model: onnx.ModelProto, layer: QuantisedLayer, location: str) -> Run:
    """Return a function that computes one layer of a quantised model, as a model of its own."""
    onnx_package = onnx_module()
    read = {name for node in layer.nodes for name in node.input}
    float_type = onnx_package.TensorProto.FLOAT
    graph = onnx_package.helper.make_graph(
        list(layer.nodes),
        "layer",
        [onnx_package.helper.make_tensor_value_info(layer.source, float_type, None)],
        [onnx_package.helper.make_tensor_value_info(layer.computed, float_type, None)],
        [tensor for tensor in model.graph.initializer if tensor.name in read],
    )
    own = onnx_package.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    return runner(own, f"{location}: layer '{layer.name}'")
