"""Host program of a network: its kernels in order, buffers, weights from a file, and CPU operators between kernels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.accelerators.gpu.gpu_layer import PACK
from mavcg.accelerators.gpu.kernel_plan import Kernel
from mavcg.accelerators.gpu.layer_source import launches_of
from mavcg.accelerators.gpu.network_main import NetworkMain
from mavcg.accelerators.gpu.network_steps import NetworkStep
from mavcg.accelerators.gpu.packing import pack_bias, pack_weights
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.networks.builder import drawn_constants
from mavcg.text.safe_text import comment

Array = NDArray[Any]
_ALIGNMENT = 256


@dataclass(frozen=True)
class NetworkKernel:
    """A step's kernel, and the name of its function."""

    step: NetworkStep
    kernel: Kernel
    function: str


@dataclass(frozen=True)
class NetworkProgram:
    """The program's text, and the contents of weights.bin."""

    text: str
    weights: bytes


def network_program(
    graph: Graph, steps: Sequence[NetworkStep], kernels: Mapping[str, NetworkKernel], type_name: str
) -> NetworkProgram:
    """Return the host program of a graph. kernels: by the tensor that each writes.

    Weights without values (those of built-in networks) are random, by `drawn_constants`.
    Raises: MavcgError for a graph with more than one output, or more than one input besides weights.
    """
    weights = {name for step in steps for name in (step.weights, step.bias) if name}
    inputs = [name for name in graph.inputs if name not in weights]
    if len(inputs) != 1 or len(graph.outputs) != 1:
        raise MavcgError(
            f"{graph.name}: {len(inputs)} inputs and {len(graph.outputs)} outputs; the host program has one of each"
        )
    writer = _ProgramWriter(graph, kernels, PACK[type_name])
    body = [line for step in steps for line in writer.step(step)]
    return NetworkProgram(writer.text(inputs[0], graph.outputs[0], body), bytes(writer.weights))


class _ProgramWriter:
    """Writer of a program's tensors and steps. It tracks whether each tensor is on the device, the host, or both."""

    def __init__(self, graph: Graph, kernels: Mapping[str, NetworkKernel], pack: int) -> None:
        self.graph, self.kernels, self.pack = graph, kernels, pack
        self.names: dict[str, str] = {}
        self.declared: list[str] = []
        self.on_device: set[str] = set()
        self.on_host: set[str] = set()
        self.weights = bytearray()
        self.partial_bytes = 16
        named = [name for kernel in kernels.values() for name in (kernel.step.weights, kernel.step.bias) if name]
        missing = [name for name in dict.fromkeys(named) if name not in graph.constants]
        self.constants = {**graph.constants, **drawn_constants(graph, missing)}

    def tensor(self, name: str) -> str:
        """Return the variable of a tensor, which is declared at its first use."""
        if name not in self.names:
            self.names[name] = f"t{len(self.names)}"
            shape = self.graph.types[name].shape
            image = shape[1:] if len(shape) == 4 and shape[0] == 1 else (1, 1, prod(shape))
            rows, columns, channels = image
            self.declared.append(
                f"static Tensor {self.names[name]}({rows}, {columns}, {channels}, {self.pack});  // {comment(name)}"
            )
        return self.names[name]

    def device_tensors(self, name: str) -> Iterator[str]:
        if name not in self.on_device:
            yield f"    {self.tensor(name)}.upload();"
            self.on_device.add(name)

    def host_tensors(self, name: str) -> Iterator[str]:
        if name not in self.on_host:
            yield f"    {self.tensor(name)}.download();"
            self.on_host.add(name)

    def constant(self, data: bytes) -> str:
        self.weights.extend(bytes(-len(self.weights) % _ALIGNMENT))
        at = len(self.weights)
        self.weights.extend(data)
        return f"weights + {at}"

    def step(self, step: NetworkStep) -> Iterator[str]:
        yield f"    // {comment(step.node.op)} {comment(step.node.origin or step.output)}"
        if step.kind == "alias" and step.inputs[0] in self.on_device:
            # The vector keeps the order of the words and shares their memory: no CPU operator reads it.
            self.names[step.output] = self.tensor(step.inputs[0])
            self.on_device.add(step.output)
        elif step.kind == "kernel":
            yield from self._kernel(step)
        elif step.kind == "join":
            yield from self._join(step)
        else:
            yield from self._cpu(step)

    def _kernel(self, step: NetworkStep) -> Iterator[str]:
        planned = self.kernels[step.output]
        for name in step.inputs:
            yield from self.device_tensors(name)
        at = {"input": f"{self.tensor(step.inputs[0])}.device", "output": f"{self.tensor(step.output)}.device"}
        if len(step.inputs) > 1:
            at["residual"] = f"{self.tensor(step.inputs[1])}.device"
        if step.weights:
            at["weights"] = self.constant(pack_weights(planned.kernel, self.reorder_weights(step)).tobytes())
            channels = planned.kernel.layer.conv.groups * planned.kernel.layer.conv.oc
            bias = self.constants[step.bias] if step.bias else np.zeros(channels)
            at["bias"] = self.constant(pack_bias(planned.kernel, np.asarray(bias).reshape(-1), None).tobytes())
        at["partial"] = "partial"
        self.partial_bytes = max(self.partial_bytes, planned.kernel.partial_bytes)
        for launch in launches_of(planned.kernel, planned.function):
            arguments = ", ".join(at[name] if name else "NULL" for name in launch.arguments)
            if launch.shared_bytes > 48 << 10:
                yield f"    ALLOW_SHARED({launch.function}, {launch.shared_bytes});"
            x, y, z = launch.grid
            shape = f"dim3({x}, {y}, {z}), {launch.threads}, {launch.shared_bytes}"
            yield f"    {launch.function}<<<{shape}>>>({arguments});"
        self.on_device.add(step.output)

    def reorder_weights(self, step: NetworkStep) -> Array:
        """Return a step's weights as [out channels, in channels, height, width], in the order of its input's words."""
        w = self.constants[step.weights]
        if step.node.op == "conv2d":
            return np.ascontiguousarray(w.transpose(0, 3, 1, 2))
        matrix = w if step.node.attr("transpose_b") else w.T
        rows, columns, channels = step.folded
        if rows * columns > 1:
            split = matrix.reshape(len(matrix), rows * columns, channels // self.pack, self.pack)
            matrix = split.transpose(0, 2, 1, 3).reshape(len(matrix), -1)
        return np.ascontiguousarray(matrix)[:, :, None, None]

    def _join(self, step: NetworkStep) -> Iterator[str]:
        to, offset = self.tensor(step.output), "0"
        for name in step.inputs:
            yield from self.device_tensors(name)
            source = self.tensor(name)
            yield (
                f"    checked(cudaMemcpyAsync((char *){to}.device + 4 * ({offset}), {source}.device, "
                f'4 * {source}.words(), cudaMemcpyDeviceToDevice), "concat");'
            )
            offset = f"{offset} + {source}.words()"
        self.on_device.add(step.output)

    def _cpu(self, step: NetworkStep) -> Iterator[str]:
        node, name = step.node, step.inputs[0]
        yield from self.host_tensors(name)
        source, to = f"{self.tensor(name)}.host", f"{self.tensor(step.output)}.host"
        shape = self.graph.types[name].shape
        match node.op:
            case "transpose":
                dims, order = (f"Dims{{{', '.join(map(str, values))}}}" for values in (shape, node.attr("perm")))
                call = f"cpu_transpose({source}, {to}, {dims}, {order})"
            case "softmax" if node.attr("axis") in (-1, len(shape) - 1):
                call = f"cpu_softmax({source}, {to}, {shape[-1]})"
            case "lrn":
                numbers = ", ".join(repr(float(node.attr(key))) for key in ("alpha", "beta", "bias"))
                call = f"cpu_lrn({source}, {to}, {shape[-1]}, {int(node.attr('size'))}, {numbers})"
            case "reshape" | "flatten":
                call = f"cpu_reshape({source}, {to})"
            case _:
                raise MavcgError(
                    f"{self.graph.name}: {node.op} of {node.output} along this axis has no CUDA host program"
                )
        yield f"    {call};"
        self.on_host.add(step.output)

    def text(self, input_name: str, output_name: str, body: Sequence[str]) -> str:
        """Return the program. input_name, output_name: of the graph."""
        source, target = self.tensor(input_name), self.tensor(output_name)
        lines = list(body)
        if input_name in self.on_device and f"    {source}.upload();" not in lines:
            lines.insert(0, f"    {source}.upload();")
        files = dict.fromkeys(f'#include "{kernel.function}.cu"' for kernel in self.kernels.values())
        after = [] if output_name in self.on_host else [f"    {target}.download();"]
        main = NetworkMain(
            self.graph.name or "a network",
            tuple(files),
            tuple(self.declared),
            (*lines, *after),
            len(self.weights),
            self.partial_bytes,
            source,
            target,
        )
        return main.text()
