"""A graph as steps of a host program: GPU kernels, and CPU operators where there is no kernel."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from mavcg.accelerators.gpu.gpu_layer import ELEMENTWISE, PACK, GpuLayer, typed_layer
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.cost.layer import ConvLayer
from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.graph.ops.op import node_location

CPU_OPERATORS = ("softmax", "lrn", "transpose", "reshape", "flatten")
_ACTS = ("relu", "leaky_relu", "clip")


@dataclass(frozen=True)
class NetworkStep:
    """One step of the host program.

    kind: "kernel", "join" (concatenate channels of several tensors), "alias" (same memory) or "cpu". inputs, output:
    tensors of the graph. layer: of a kernel. weights, bias: constants or inputs of the graph, "" for none. folded:
    rows, columns and channels of the image that was flattened into a product's input; the weights take the order of its
    words.
    """

    kind: str
    node: Node
    inputs: tuple[str, ...]
    output: str
    layer: GpuLayer | None = None
    weights: str = ""
    bias: str = ""
    folded: tuple[int, int, int] = (1, 1, 1)


def network_steps(graph: Graph, type_name: str) -> tuple[NetworkStep, ...]:
    """Return the steps of a graph after fusion, in its order.

    Raises: MavcgError, naming the node, for a node that neither a kernel nor a CPU operator of the host program
    computes.
    """
    reader = _StepReader(graph, type_name)
    return tuple(step for node in graph.nodes if (step := reader.step(node)) is not None)


class _StepReader:
    """A graph, with its layers by their output tensors."""

    def __init__(self, graph: Graph, type_name: str) -> None:
        self.graph, self.type_name, self.pack = graph, type_name, PACK[type_name]
        self.producers = graph.producers()
        made = [node.output for node in graph.nodes if node.op in ("conv2d", "matmul")]
        layers = layers_of(graph)
        if len(made) != len(layers):
            raise MavcgError(
                f"{graph.name}: a transposed or batched convolution has no CUDA host program; take --layer"
            )
        self.layers = dict(zip(made, layers, strict=True))
        self.images: dict[str, tuple[int, int, int]] = {}  # of a flattened image: its rows, columns, channels
        self.skipped = self._pads()

    def _pads(self) -> set[str]:
        """Return the outputs of pad nodes that only layers with the same padding of their own read."""
        padded = set()
        for node in self.graph.nodes:
            if node.op == "pad":
                readers = [reader for reader in self.graph.nodes if node.output in reader.inputs]
                if all(
                    r.op == "conv2d" and self.layers[r.output].ih == self._image(node.inputs[0])[0] for r in readers
                ):
                    padded.add(node.output)
        return padded

    def _image(self, name: str) -> tuple[int, int, int]:
        """Return rows, columns and channels of a tensor that is one image or a vector."""
        shape = self.graph.types[name].shape
        if len(shape) == 4 and shape[0] == 1:
            return shape[1], shape[2], shape[3]
        if prod(shape) == shape[-1]:
            return 1, 1, shape[-1]
        raise MavcgError(f"{self.graph.name}: tensor {name} {list(shape)} is neither one image nor a vector")

    def _skip_pads(self, name: str) -> str:
        while name in self.skipped:
            name = self.producers[name].inputs[0]
        return name

    def step(self, node: Node) -> NetworkStep | None:
        """Return the step of a node; None for a pad node that its readers include."""
        if node.output in self.skipped:
            return None
        make: Callable[[Node], NetworkStep | None] | None = {
            "conv2d": self._product,
            "matmul": self._product,
            "max_pool2d": self._pool,
            "avg_pool2d": self._pool,
            "reduce_mean": self._mean,
            "concat": self._join,
            "reshape": self._reshape,
        }.get(node.op)
        if node.op in ELEMENTWISE or node.op in _ACTS:
            make = self._elementwise
        step = make(node) if make is not None else None
        if step is None and node.op in CPU_OPERATORS:
            step = NetworkStep("cpu", node, (node.inputs[0],), node.output)
        if step is None:
            raise MavcgError(
                f"{node_location(node)}: the host program cannot run this {node.op}; emit single layers by --layer"
            )
        return step

    def _typed_layer(self, layer: ConvLayer, node: Node, **options: object) -> GpuLayer:
        act, arguments = str(node.attr("act")), tuple(float(value) for value in node.attr("act_args"))
        return typed_layer(layer, self.type_name, act=act, act_args=arguments, **options)

    def _product(self, node: Node) -> NetworkStep | None:
        layer = self.layers[node.output]
        x, w = self._skip_pads(node.inputs[0]), node.inputs[1]
        if node.op == "matmul" and (layer.oh != 1 or w not in (*self.graph.inputs, *self.graph.constants)):
            return None
        bias, residual = (*node.inputs[2:], "", "")[:2]
        inputs = (x, residual) if residual else (x,)
        folded = self.images.get(x, (1, 1, 1)) if node.op == "matmul" else (1, 1, 1)
        typed = self._typed_layer(layer, node, residual=bool(residual))
        return NetworkStep("kernel", node, inputs, node.output, typed, w, bias, folded)

    def _pool(self, node: Node) -> NetworkStep | None:
        rows, columns, channels = self._image(node.inputs[0])
        oh, ow, _ = self._image(node.output)
        if node.op == "avg_pool2d" and any(node.attr("count_pads")):
            return None
        kernel, stride, pads = node.attr("kernel"), node.attr("stride"), node.attr("pads")
        layer = ConvLayer(
            node.output,
            1,
            1,
            oh,
            ow,
            kernel[0],
            kernel[1],
            rows,
            columns,
            stride,
            pads,
            node.attr("dilation"),
            channels,
        )
        typed = typed_layer(layer, self.type_name, kind="max_pool" if node.op == "max_pool2d" else "avg_pool")
        return NetworkStep("kernel", node, (node.inputs[0],), node.output, typed)

    def _mean(self, node: Node) -> NetworkStep | None:
        rows, columns, channels = self._image(node.inputs[0])
        if tuple(node.attr("axes")) != (1, 2):
            return None
        layer = ConvLayer(node.output, 1, 1, 1, 1, rows, columns, rows, columns, groups=channels)
        typed = typed_layer(layer, self.type_name, kind="avg_pool")
        return NetworkStep("kernel", node, (node.inputs[0],), node.output, typed)

    def _elementwise(self, node: Node) -> NetworkStep | None:
        types = self.graph.types
        inputs = tuple(name for name in node.inputs if name)
        if any(types[name].shape != types[node.output].shape for name in inputs) or len(inputs) > 2:
            return None
        rows, columns, channels = self._image(node.output)
        layer = ConvLayer(node.output, 1, 1, rows, columns, 1, 1, rows, columns, groups=channels)
        kind, two = (node.op, True) if node.op in ELEMENTWISE else ("copy", False)
        typed = typed_layer(layer, self.type_name, kind=kind, residual=two)
        if not two:
            values = {"leaky_relu": ("alpha",), "clip": ("min", "max")}.get(node.op, ())
            typed = replace(typed, act=node.op, act_args=tuple(float(node.attr(name)) for name in values))
        return NetworkStep("kernel", node, inputs, node.output, typed)

    def _join(self, node: Node) -> NetworkStep | None:
        rank = len(self.graph.types[node.output].shape)
        if node.attr("axis") not in (rank - 1, -1):
            return None
        # The channels of each tensor but the last must fill whole words.
        if any(self._image(name)[2] % self.pack for name in node.inputs[:-1]):
            return None
        return NetworkStep("join", node, tuple(node.inputs), node.output)

    def _reshape(self, node: Node) -> NetworkStep | None:
        shape, result = (self.graph.types[name].shape for name in (node.inputs[0], node.output))
        if len(shape) != 4 or shape[0] != 1 or prod(result) != result[-1]:
            return None
        rows, columns, channels = self._image(node.inputs[0])
        readers = [reader for reader in self.graph.nodes if node.output in reader.inputs]
        if rows * columns > 1:
            # The vector keeps the order of the image's words; the products that read it have their weights reordered.
            if (
                channels % self.pack
                or any(reader.op != "matmul" for reader in readers)
                or node.output in self.graph.outputs
            ):
                return None
            self.images[node.output] = rows, columns, channels
        return NetworkStep("alias", node, (node.inputs[0],), node.output)
